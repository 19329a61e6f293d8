//! Reject (RFC 7143 11.17).

use bytes::Bytes;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian::U32, transmute, transmute_ref};

use super::wire::{BHS_LEN, Bhs, Encode, FINAL, Frame, NO_TAG, Opcode, PduError, TargetSn, TargetSnWire};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RejectBhs {
    opcode: u8,
    flags: u8,
    reason: u8,
    reserved_3: u8,
    lengths: [u8; 4],
    reserved_8: [u8; 8],
    all_ones: U32,
    reserved_20: U32,
    sn: TargetSnWire,
    data_sn: U32,
    reserved_40: [u8; 8],
}
const _: () = assert!(size_of::<RejectBhs>() == BHS_LEN);

/// Reject reasons (RFC 7143 11.17.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RejectReason {
    /// Data (payload) digest error.
    DataDigestError = 0x02,
    /// SNACK reject.
    SnackReject = 0x03,
    /// Protocol error.
    ProtocolError = 0x04,
    /// Command not supported.
    CommandNotSupported = 0x05,
    /// Immediate command reject: too many immediate commands.
    TooManyImmediateCommands = 0x06,
    /// Task in progress.
    TaskInProgress = 0x07,
    /// Invalid data acknowledgement.
    InvalidDataAck = 0x08,
    /// Invalid PDU field.
    InvalidPduField = 0x09,
    /// Long operation reject: out of resources.
    LongOperationReject = 0x0a,
    /// Waiting for logout.
    WaitingForLogout = 0x0c,
}

/// A Reject (RFC 7143 11.17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Reason.
    pub reason: RejectReason,
    /// Sequence numbers.
    pub sn: TargetSn,
    /// DataSN or R2TSN, for SNACKs.
    pub data_sn: u32,
    /// Copy of the header segments of the rejected PDU.
    pub header: Bytes,
}

impl Reject {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Result<Self, PduError> {
        let wire: &RejectBhs = transmute_ref!(&frame.bhs);
        let reason = match wire.reason {
            0x02 => RejectReason::DataDigestError,
            0x03 => RejectReason::SnackReject,
            0x04 => RejectReason::ProtocolError,
            0x05 => RejectReason::CommandNotSupported,
            0x06 => RejectReason::TooManyImmediateCommands,
            0x07 => RejectReason::TaskInProgress,
            0x08 => RejectReason::InvalidDataAck,
            0x09 => RejectReason::InvalidPduField,
            0x0a => RejectReason::LongOperationReject,
            0x0c => RejectReason::WaitingForLogout,
            _ => return Err(PduError::Field { byte: 2 }),
        };
        Ok(Self { reason, sn: wire.sn.load(), data_sn: wire.data_sn.get(), header: frame.data })
    }
}

impl Encode for Reject {
    fn bhs(&self) -> Bhs {
        transmute!(RejectBhs {
            opcode: Opcode::Reject as u8,
            flags: FINAL,
            reason: self.reason as u8,
            reserved_3: 0,
            lengths: [0; 4],
            reserved_8: [0; 8],
            all_ones: NO_TAG.into(),
            reserved_20: 0.into(),
            sn: self.sn.into(),
            data_sn: self.data_sn.into(),
            reserved_40: [0; 8],
        })
    }

    fn data(&self) -> Bytes {
        self.header.clone()
    }
}
