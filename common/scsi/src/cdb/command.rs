//! Commands as values: the fields of a CDB without reserved, ignored and fixed ones.

mod encode;
mod phase;

pub use phase::DataPhase;

use crate::persistent_reservation::{InAction, OutAction, ReservationType};
use types::Lba;

/// The length of a CDB, for commands that exist in several lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CdbSize {
    /// 6 bytes: 21-bit LBA, 8-bit length.
    Six,
    /// 10 bytes: 32-bit LBA, 16-bit length.
    Ten,
    /// 12 bytes: 32-bit LBA and length.
    Twelve,
    /// 16 bytes: 64-bit LBA, 32-bit length.
    Sixteen,
}

/// A range of blocks to transfer, with cache hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// CDB length.
    pub size: CdbSize,
    /// First block.
    pub lba: Lba,
    /// Number of blocks. Zero transfers nothing and is valid. In a 6-byte CDB, zero was decoded as
    /// 256.
    pub blocks: u32,
    /// DPO: the blocks are not needed again soon.
    pub dpo: bool,
    /// FUA: access stable storage, not a volatile cache.
    pub fua: bool,
}

/// BYTCHK: what VERIFY compares (SBC-4 5.36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ByteCheck {
    /// 00b: read the medium; no data is transferred.
    Medium = 0,
    /// 01b: compare all blocks with the data of the host.
    Compare = 1,
    /// 11b: compare each block with one block of data from the host.
    CompareSame = 3,
}

/// VERIFY and WRITE AND VERIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verification {
    /// CDB length.
    pub size: CdbSize,
    /// First block.
    pub lba: Lba,
    /// Number of blocks; zero verifies nothing.
    pub blocks: u32,
    /// DPO: the blocks are not needed again soon.
    pub dpo: bool,
    /// What to compare.
    pub check: ByteCheck,
}

/// A range of blocks for SYNCHRONIZE CACHE and PRE-FETCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheRange {
    /// CDB length.
    pub size: CdbSize,
    /// First block.
    pub lba: Lba,
    /// Number of blocks; zero means up to the last block of the medium.
    pub blocks: u32,
    /// IMMED: the response need not wait for the operation.
    pub immediate: bool,
}

/// WRITE SAME (SBC-4 5.49).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteSame {
    /// CDB length: ten or sixteen bytes.
    pub size: CdbSize,
    /// First block.
    pub lba: Lba,
    /// Number of blocks; zero means up to the last block of the medium (WSNZ is 0).
    pub blocks: u32,
    /// UNMAP: blocks may be deallocated if they then read as the same data.
    pub unmap: bool,
    /// NDOB: no data is transferred, and the block is all zeros. Sixteen bytes only.
    pub no_data: bool,
}

/// PC: which values MODE SENSE returns (SPC-4 6.13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageControl {
    /// The current values.
    Current = 0,
    /// A mask of the bits that MODE SELECT may change.
    Changeable = 1,
    /// The default values.
    Default = 2,
    /// The saved values.
    Saved = 3,
}

/// MODE SENSE (SPC-4 6.13, 6.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModeSense {
    /// CDB length: six or ten bytes.
    pub size: CdbSize,
    /// DBD: leave out the block descriptor.
    pub no_block_descriptors: bool,
    /// LLBAA: the long block descriptor may be returned. Ten bytes only.
    pub long_lba: bool,
    /// Which values to return.
    pub control: PageControl,
    /// Page code; 3Fh selects all pages.
    pub page: u8,
    /// Subpage code; FFh selects all subpages.
    pub subpage: u8,
    /// ALLOCATION LENGTH: the most bytes to return.
    pub allocation: u16,
}

/// LOG SENSE (SPC-4 6.8). PC is ignored: it selects among counter values, and these log parameters
/// are lists of current values. SP is refused: no parameters are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogSense {
    /// Page code.
    pub page: u8,
    /// Subpage code; FFh selects all subpages.
    pub subpage: u8,
    /// PARAMETER POINTER: the first log parameter to return.
    pub pointer: u16,
    /// ALLOCATION LENGTH: the most bytes to return.
    pub allocation: u16,
}

/// SELECT REPORT of REPORT LUNS (SPC-4 6.33).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SelectReport {
    /// Logical units with peripheral, flat, extended or logical unit addressing.
    Addressable = 0x00,
    /// Well known logical units only.
    WellKnown = 0x01,
    /// All logical units.
    All = 0x02,
}

/// REPORTING OPTIONS of REPORT SUPPORTED OPERATION CODES (SPC-4 6.35).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReportingOptions {
    /// 000b: all commands.
    All = 0,
    /// 001b: one command by operation code; refused if the code has service actions.
    Opcode = 1,
    /// 010b: one command by operation code and service action; refused if the code has none.
    ServiceAction = 2,
    /// 011b: one command by both; a code without service actions has service action zero.
    Either = 3,
}

/// REPORT SUPPORTED OPERATION CODES (SPC-4 6.35).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReportOpcodes {
    /// RCTD: include command timeouts descriptors.
    pub timeouts: bool,
    /// Which commands to report.
    pub options: ReportingOptions,
    /// REQUESTED OPERATION CODE.
    pub opcode: u8,
    /// REQUESTED SERVICE ACTION.
    pub service_action: u16,
    /// ALLOCATION LENGTH: the most bytes to return.
    pub allocation: u32,
}

/// START STOP UNIT (SBC-4 5.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StartStop {
    /// IMMED: the response need not wait for the operation.
    pub immediate: bool,
    /// POWER CONDITION; if zero, `start` and `load_eject` apply.
    pub power_condition: u8,
    /// POWER CONDITION MODIFIER.
    pub modifier: u8,
    /// NO_FLUSH: do not flush caches first.
    pub no_flush: bool,
    /// LOEJ: load or eject the medium.
    pub load_eject: bool,
    /// START: start, or stop.
    pub start: bool,
}

/// Service actions of RECEIVE COPY RESULTS (SPC-3 6.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CopyResults {
    /// 00h: progress of a copy.
    CopyStatus = 0x00,
    /// 01h: data that a copy holds for its host.
    ReceiveData = 0x01,
    /// 03h: limits of the copy manager.
    OperatingParameters = 0x03,
    /// 04h: failure details of a copy.
    FailedSegmentDetails = 0x04,
}

/// A command that is well formed in itself. Limits that depend on the volume are not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// TEST UNIT READY (SPC-4 6.47).
    TestUnitReady,
    /// REQUEST SENSE (SPC-4 6.39).
    RequestSense {
        /// DESC: descriptor format.
        descriptor: bool,
        /// ALLOCATION LENGTH: the most bytes to return.
        allocation: u8,
    },
    /// INQUIRY (SPC-4 6.6).
    Inquiry {
        /// The vital product data page; `None` for standard data.
        page: Option<u8>,
        /// ALLOCATION LENGTH: the most bytes to return.
        allocation: u16,
    },
    /// MODE SENSE.
    ModeSense(ModeSense),
    /// MODE SELECT (SPC-4 6.11, 6.12). SP is refused: no parameters are saved.
    ModeSelect {
        /// CDB length: six or ten bytes.
        size: CdbSize,
        /// PF: the pages have the standard format.
        page_format: bool,
        /// PARAMETER LIST LENGTH.
        length: u16,
    },
    /// LOG SENSE.
    LogSense(LogSense),
    /// REPORT LUNS (SPC-4 6.33).
    ReportLuns {
        /// Which logical units to report.
        select: SelectReport,
        /// ALLOCATION LENGTH: the most bytes to return.
        allocation: u32,
    },
    /// READ CAPACITY(10) (SBC-4 5.20).
    ReadCapacity10,
    /// READ CAPACITY(16) (SBC-4 5.21).
    ReadCapacity16 {
        /// ALLOCATION LENGTH: the most bytes to return.
        allocation: u32,
    },
    /// READ (SBC-4 5.15 to 5.18).
    Read(Transfer),
    /// WRITE (SBC-4 5.40 to 5.43).
    Write(Transfer),
    /// ORWRITE(16) (SBC-4 5.10).
    OrWrite(Transfer),
    /// VERIFY (SBC-4 5.36 to 5.38).
    Verify(Verification),
    /// WRITE AND VERIFY (SBC-4 5.45 to 5.47).
    WriteAndVerify(Verification),
    /// COMPARE AND WRITE (SBC-4 5.3).
    CompareAndWrite {
        /// First block.
        lba: Lba,
        /// Number of blocks; the host sends twice as many. Zero compares and writes nothing.
        blocks: u8,
        /// DPO: the blocks are not needed again soon.
        dpo: bool,
        /// FUA: access stable storage, not a volatile cache.
        fua: bool,
    },
    /// WRITE ATOMIC(16) (SBC-4 5.48): writes all blocks or none. ATOMIC BOUNDARY is refused: its
    /// maximum is 0.
    WriteAtomic {
        /// First block.
        lba: Lba,
        /// Number of blocks. Zero writes nothing.
        blocks: u16,
        /// DPO: the blocks are not needed again soon.
        dpo: bool,
        /// FUA: to stable storage, not a volatile cache.
        fua: bool,
    },
    /// WRITE SAME.
    WriteSame(WriteSame),
    /// UNMAP (SBC-4 5.35). ANCHOR is refused: ANC_SUP is 0.
    Unmap {
        /// PARAMETER LIST LENGTH.
        length: u16,
    },
    /// SYNCHRONIZE CACHE (SBC-4 5.33, 5.34).
    SynchronizeCache(CacheRange),
    /// PRE-FETCH (SBC-4 5.13, 5.14).
    PreFetch(CacheRange),
    /// READ DEFECT DATA (SBC-4 5.19, 5.20).
    ReadDefectData {
        /// CDB length: ten or twelve bytes.
        size: CdbSize,
        /// REQ_PLIST, REQ_GLIST and DEFECT LIST FORMAT, returned in the header of the lists.
        lists: u8,
        /// ALLOCATION LENGTH: the most bytes to return.
        allocation: u32,
    },
    /// GET LBA STATUS(16) (SBC-4 5.8).
    GetLbaStatus {
        /// First block to describe.
        lba: Lba,
        /// ALLOCATION LENGTH: the most bytes to return.
        allocation: u32,
    },
    /// RESERVE (SPC-2 7.21, 7.22): the whole logical unit, for this I_T nexus.
    Reserve {
        /// CDB length: six or ten bytes.
        size: CdbSize,
    },
    /// RELEASE (SPC-2 7.16, 7.17).
    Release {
        /// CDB length: six or ten bytes.
        size: CdbSize,
    },
    /// PERSISTENT RESERVE IN (SPC-4 6.15).
    PersistentReserveIn {
        /// Service action.
        action: InAction,
        /// ALLOCATION LENGTH: the most bytes to return.
        allocation: u16,
    },
    /// PERSISTENT RESERVE OUT (SPC-4 6.16).
    PersistentReserveOut {
        /// Service action.
        action: OutAction,
        /// TYPE, for the service actions that use it. The scope is always the logical unit.
        kind: Option<ReservationType>,
        /// PARAMETER LIST LENGTH.
        length: u32,
    },
    /// REPORT SUPPORTED OPERATION CODES.
    ReportOpcodes(ReportOpcodes),
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4 6.36).
    ReportTaskManagement {
        /// REPD: return the extended parameter data.
        extended: bool,
        /// ALLOCATION LENGTH: the most bytes to return.
        allocation: u32,
    },
    /// REPORT TARGET PORT GROUPS (SPC-4 6.37).
    ReportTargetPortGroups {
        /// PARAMETER DATA FORMAT 001b: return the extended header.
        extended: bool,
        /// ALLOCATION LENGTH: the most bytes to return.
        allocation: u32,
    },
    /// SET TARGET PORT GROUPS (SPC-4 6.45).
    SetTargetPortGroups {
        /// PARAMETER LIST LENGTH.
        length: u32,
    },
    /// START STOP UNIT.
    StartStop(StartStop),
    /// PREVENT ALLOW MEDIUM REMOVAL (SBC-4 5.12).
    PreventAllow {
        /// Prevent medium removal.
        prevent: bool,
    },
    /// SEND DIAGNOSTIC (SPC-4 6.42): default self-test or no operation.
    SendDiagnostic {
        /// SELFTEST: run the default self-test.
        self_test: bool,
    },
    /// EXTENDED COPY(LID1) (SPC-4 6.4; SPC-3 6.3).
    ExtendedCopy {
        /// PARAMETER LIST LENGTH; zero copies nothing and is valid.
        length: u32,
    },
    /// RECEIVE COPY RESULTS; SPC-4 calls its actions RECEIVE COPY STATUS(LID1) and so on (6.17 to
    /// 6.26).
    ReceiveCopyResults {
        /// Service action.
        action: CopyResults,
        /// LIST IDENTIFIER of the copy.
        list: u8,
        /// ALLOCATION LENGTH: the most bytes to return.
        allocation: u32,
    },
}
