//! SCSI Command and SCSI Response (RFC 7143 11.3, 11.4).

use bytes::{BufMut, Bytes, BytesMut};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U32, U64},
    transmute, transmute_ref,
};

use super::ahs;
use super::wire::{
    AFTER_BHS, BHS_LEN, Bhs, Encode, FINAL, Frame, IMMEDIATE, Opcode, PduError, TargetSn, TargetSnWire, WireLun,
};
use crate::length::len_u16;

const READ: u8 = 0x40;
const WRITE: u8 = 0x20;
const ATTRIBUTE: u8 = 0x07;

const BIDI_OVERFLOW: u8 = 0x10;
const BIDI_UNDERFLOW: u8 = 0x08;
pub(super) const OVERFLOW: u8 = 0x04;
pub(super) const UNDERFLOW: u8 = 0x02;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ScsiCommandBhs {
    opcode: u8,
    flags: u8,
    reserved_2: [u8; 2],
    lengths: [u8; 4],
    lun: U64,
    initiator_task_tag: U32,
    expected_data_transfer_length: U32,
    cmd_sn: U32,
    exp_stat_sn: U32,
    cdb: [u8; 16],
}
const _: () = assert!(size_of::<ScsiCommandBhs>() == BHS_LEN);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ScsiResponseBhs {
    opcode: u8,
    flags: u8,
    response: u8,
    status: u8,
    lengths: [u8; 4],
    reserved_8: [u8; 8],
    initiator_task_tag: U32,
    snack_tag: U32,
    sn: TargetSnWire,
    exp_data_sn: U32,
    bidi_residual_count: U32,
    residual_count: U32,
}
const _: () = assert!(size_of::<ScsiResponseBhs>() == BHS_LEN);

/// Task attributes (RFC 7143 11.3.1, SAM-5 8.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TaskAttribute {
    /// Untagged; treated as simple.
    #[default]
    Untagged = 0,
    /// SIMPLE.
    Simple = 1,
    /// ORDERED.
    Ordered = 2,
    /// HEAD OF QUEUE.
    HeadOfQueue = 3,
    /// ACA.
    Aca = 4,
}

/// A SCSI command (RFC 7143 11.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScsiCommand {
    /// Immediate delivery: uses no CmdSN.
    pub immediate: bool,
    /// F: no unsolicited Data-Out PDUs follow.
    pub final_: bool,
    /// R: data is expected from the target.
    pub read: bool,
    /// W: data is expected to go to the target.
    pub write: bool,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Logical unit.
    pub lun: WireLun,
    /// The task's tag.
    pub initiator_task_tag: u32,
    /// Expected Data Transfer Length: bytes to write when W is set, else bytes to read.
    pub expected_length: u32,
    /// Bidirectional Read Expected Data Transfer Length, when R and W are both set.
    pub expected_read: Option<u32>,
    /// CmdSN.
    pub cmd_sn: u32,
    /// ExpStatSN.
    pub exp_stat_sn: u32,
    /// The first sixteen bytes of the CDB.
    pub cdb: [u8; 16],
    /// CDB bytes from byte 16 on.
    pub extended_cdb: Bytes,
    /// Immediate data.
    pub data: Bytes,
}

impl ScsiCommand {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Result<Self, PduError> {
        let wire: &ScsiCommandBhs = transmute_ref!(&frame.bhs);
        let attribute = match wire.flags & ATTRIBUTE {
            0 => TaskAttribute::Untagged,
            1 => TaskAttribute::Simple,
            2 => TaskAttribute::Ordered,
            3 => TaskAttribute::HeadOfQueue,
            4 => TaskAttribute::Aca,
            _ => return Err(PduError::Field { byte: 1 }),
        };
        let additional = ahs::load(&frame.ahs)?;
        Ok(Self {
            immediate: wire.opcode & IMMEDIATE != 0,
            final_: wire.flags & FINAL != 0,
            read: wire.flags & READ != 0,
            write: wire.flags & WRITE != 0,
            attribute,
            lun: WireLun(wire.lun.get()),
            initiator_task_tag: wire.initiator_task_tag.get(),
            expected_length: wire.expected_data_transfer_length.get(),
            expected_read: additional.expected_read,
            cmd_sn: wire.cmd_sn.get(),
            exp_stat_sn: wire.exp_stat_sn.get(),
            cdb: wire.cdb,
            extended_cdb: additional.extended_cdb,
            data: frame.data,
        })
    }
}

impl Encode for ScsiCommand {
    fn bhs(&self) -> Bhs {
        let bit = |on: bool, mask: u8| if on { mask } else { 0 };
        transmute!(ScsiCommandBhs {
            opcode: Opcode::ScsiCommand as u8 | bit(self.immediate, IMMEDIATE),
            flags: bit(self.final_, FINAL) | bit(self.read, READ) | bit(self.write, WRITE) | self.attribute as u8,
            reserved_2: [0; 2],
            lengths: [0; 4],
            lun: self.lun.0.into(),
            initiator_task_tag: self.initiator_task_tag.into(),
            expected_data_transfer_length: self.expected_length.into(),
            cmd_sn: self.cmd_sn.into(),
            exp_stat_sn: self.exp_stat_sn.into(),
            cdb: self.cdb,
        })
    }

    fn ahs(&self) -> Bytes {
        if self.extended_cdb.is_empty() && self.expected_read.is_none() {
            return Bytes::new();
        }
        ahs::encode_ahs(&self.extended_cdb, self.expected_read)
    }

    fn data(&self) -> Bytes {
        self.data.clone()
    }
}

/// Difference between the bytes a command wanted to transfer and the bytes the initiator expected
/// (RFC 7143 11.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residual {
    /// No difference.
    #[default]
    None,
    /// This many expected bytes were not transferred (U).
    Underflow(u32),
    /// This many bytes were not transferred because the initiator expected fewer (O).
    Overflow(u32),
}

impl Residual {
    /// Computes the residual of a command that wanted to transfer `wanted` bytes.
    pub fn of(expected: u32, wanted: u64) -> Self {
        let expected = u64::from(expected);
        // Residual Count has 32 bits; a larger overflow saturates.
        let clamp = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
        match wanted.cmp(&expected) {
            std::cmp::Ordering::Equal => Self::None,
            std::cmp::Ordering::Less => Self::Underflow(clamp(expected - wanted)),
            std::cmp::Ordering::Greater => Self::Overflow(clamp(wanted - expected)),
        }
    }

    pub(super) fn load(flags: u8, count: u32) -> Self {
        match (flags & OVERFLOW != 0, flags & UNDERFLOW != 0) {
            (true, false) => Self::Overflow(count),
            (false, true) => Self::Underflow(count),
            _ => Self::None,
        }
    }

    pub(super) fn flags(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Underflow(_) => UNDERFLOW,
            Self::Overflow(_) => OVERFLOW,
        }
    }

    pub(super) fn count(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Underflow(count) | Self::Overflow(count) => count,
        }
    }
}

/// A SCSI Response (RFC 7143 11.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScsiResponse {
    /// True for "target failure", false for "command completed at target" (RFC 7143 11.4.3).
    pub target_failure: bool,
    /// SCSI status.
    pub status: u8,
    /// The task's tag.
    pub initiator_task_tag: u32,
    /// SNACK tag: zero without error recovery.
    pub snack_tag: u32,
    /// Sequence numbers.
    pub sn: TargetSn,
    /// Number of Data-In PDUs sent for the command.
    pub exp_data_sn: u32,
    /// Residual of the read half of a bidirectional command.
    pub bidi_residual: Residual,
    /// Residual.
    pub residual: Residual,
    /// Sense data, without its length field.
    pub sense: Bytes,
    /// Response data after the sense data.
    pub response_data: Bytes,
}

impl ScsiResponse {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Result<Self, PduError> {
        let wire: &ScsiResponseBhs = transmute_ref!(&frame.bhs);
        let (sense, response_data) = split_sense(&frame.data)?;
        // The o and u bits are two places above the O and U bits.
        Ok(Self {
            target_failure: wire.response != 0,
            status: wire.status,
            initiator_task_tag: wire.initiator_task_tag.get(),
            snack_tag: wire.snack_tag.get(),
            sn: wire.sn.load(),
            exp_data_sn: wire.exp_data_sn.get(),
            bidi_residual: Residual::load(wire.flags >> 2, wire.bidi_residual_count.get()),
            residual: Residual::load(wire.flags, wire.residual_count.get()),
            sense,
            response_data,
        })
    }
}

impl Encode for ScsiResponse {
    fn bhs(&self) -> Bhs {
        let bidi = match self.bidi_residual {
            Residual::None => 0,
            Residual::Underflow(_) => BIDI_UNDERFLOW,
            Residual::Overflow(_) => BIDI_OVERFLOW,
        };
        transmute!(ScsiResponseBhs {
            opcode: Opcode::ScsiResponse as u8,
            flags: FINAL | bidi | self.residual.flags(),
            response: u8::from(self.target_failure),
            status: self.status,
            lengths: [0; 4],
            reserved_8: [0; 8],
            initiator_task_tag: self.initiator_task_tag.into(),
            snack_tag: self.snack_tag.into(),
            sn: self.sn.into(),
            exp_data_sn: self.exp_data_sn.into(),
            bidi_residual_count: self.bidi_residual.count().into(),
            residual_count: self.residual.count().into(),
        })
    }

    fn data(&self) -> Bytes {
        if self.sense.is_empty() && self.response_data.is_empty() {
            return Bytes::new();
        }
        let mut out = BytesMut::with_capacity(2 + self.sense.len() + self.response_data.len());
        out.put_u16(len_u16(self.sense.len()));
        out.put_slice(&self.sense);
        out.put_slice(&self.response_data);
        out.freeze()
    }
}

/// RFC 7143 11.4.7: the data segment is SenseLength (2 bytes), sense data, and response data.
fn split_sense(data: &Bytes) -> Result<(Bytes, Bytes), PduError> {
    if data.is_empty() {
        return Ok((Bytes::new(), Bytes::new()));
    }
    let malformed = PduError::Field { byte: AFTER_BHS };
    let head = data.first_chunk::<2>().ok_or(malformed)?;
    let end = 2 + usize::from(u16::from_be_bytes(*head));
    if end > data.len() {
        return Err(malformed);
    }
    Ok((data.slice(2..end), data.slice(end..)))
}
