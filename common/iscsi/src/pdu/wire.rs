//! The parts that all PDUs share: the basic header segment, opcodes, frames and sequence numbers.

use bytes::Bytes;
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian::U32};

use crate::length::{len_u8, len_u32};

/// Length of a basic header segment (RFC 7143 11.2.1).
pub const BHS_LEN: usize = 48;

/// Offset of the first byte after the basic header segment, as [`PduError::Field`] reports it.
pub(super) const AFTER_BHS: u16 = 48;
const _: () = assert!(AFTER_BHS as usize == BHS_LEN);

/// A basic header segment as it is on the wire.
pub type Bhs = [u8; BHS_LEN];

/// "No tag": the reserved value of initiator and target task tags (RFC 7143 11.2.1.8).
pub const NO_TAG: u32 = 0xffff_ffff;

/// Bit 0x80 of byte 1: final in most PDUs, always set in the others.
pub(super) const FINAL: u8 = 0x80;
/// Bit 0x40 of byte 0: the command is for immediate delivery (RFC 7143 11.2.1.1).
pub(super) const IMMEDIATE: u8 = 0x40;

/// A logical unit number in its eight-byte form (SAM-5 4.7). The SCSI layer interprets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WireLun(pub u64);

/// Opcodes (RFC 7143 11.2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// NOP-Out.
    NopOut = 0x00,
    /// SCSI Command.
    ScsiCommand = 0x01,
    /// SCSI Task Management Function Request.
    TaskManagementRequest = 0x02,
    /// Login Request.
    LoginRequest = 0x03,
    /// Text Request.
    TextRequest = 0x04,
    /// SCSI Data-Out.
    DataOut = 0x05,
    /// Logout Request.
    LogoutRequest = 0x06,
    /// SNACK Request.
    Snack = 0x10,
    /// NOP-In.
    NopIn = 0x20,
    /// SCSI Response.
    ScsiResponse = 0x21,
    /// SCSI Task Management Function Response.
    TaskManagementResponse = 0x22,
    /// Login Response.
    LoginResponse = 0x23,
    /// Text Response.
    TextResponse = 0x24,
    /// SCSI Data-In.
    DataIn = 0x25,
    /// Logout Response.
    LogoutResponse = 0x26,
    /// Ready To Transfer.
    R2t = 0x31,
    /// Asynchronous Message.
    AsyncMessage = 0x32,
    /// Reject.
    Reject = 0x3f,
}

impl Opcode {
    /// Returns the opcode in byte 0 of a header; `None` if it is reserved or vendor specific.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte & 0x3f {
            0x00 => Self::NopOut,
            0x01 => Self::ScsiCommand,
            0x02 => Self::TaskManagementRequest,
            0x03 => Self::LoginRequest,
            0x04 => Self::TextRequest,
            0x05 => Self::DataOut,
            0x06 => Self::LogoutRequest,
            0x10 => Self::Snack,
            0x20 => Self::NopIn,
            0x21 => Self::ScsiResponse,
            0x22 => Self::TaskManagementResponse,
            0x23 => Self::LoginResponse,
            0x24 => Self::TextResponse,
            0x25 => Self::DataIn,
            0x26 => Self::LogoutResponse,
            0x31 => Self::R2t,
            0x32 => Self::AsyncMessage,
            0x3f => Self::Reject,
            _ => return None,
        })
    }
}

/// Why a complete PDU could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PduError {
    /// RFC 7143 does not define the opcode.
    #[error("unknown opcode {0:#04x}")]
    UnknownOpcode(u8),
    /// A header field has a value that RFC 7143 reserves.
    #[error("header byte {byte} has a reserved or invalid value")]
    Field {
        /// Offset of the field in the header segments.
        byte: u16,
    },
}

/// One PDU of the stream. Length and header digest are checked, the contents are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The basic header segment.
    pub bhs: Bhs,
    /// The additional header segments, with their padding.
    pub ahs: Bytes,
    /// The data segment without its padding; a view of the receive buffer.
    pub data: Bytes,
    /// False if a data digest was negotiated and does not match. The header is valid in that case,
    /// the data is not.
    pub data_digest_ok: bool,
}

/// A data segment of fewer bytes is copied out of the receive buffer, because a view of it would
/// keep the whole buffer alive.
const COPY_BELOW: usize = 64 << 10;

impl Frame {
    /// Returns the frame with header segments and a small data segment that share no memory with
    /// the receive buffer.
    pub(crate) fn unshared(mut self) -> Self {
        if self.data.len() < COPY_BELOW {
            self.data = Bytes::copy_from_slice(&self.data);
        }
        self.ahs = Bytes::copy_from_slice(&self.ahs);
        self
    }

    /// Returns the opcode; `None` if RFC 7143 does not define it.
    pub fn opcode(&self) -> Option<Opcode> {
        Opcode::from_byte(self.bhs[0])
    }

    /// Returns true if the immediate-delivery bit is set.
    pub fn is_immediate(&self) -> bool {
        self.bhs[0] & IMMEDIATE != 0
    }

    /// Returns true if the F bit is set.
    pub fn is_final(&self) -> bool {
        self.bhs[1] & FINAL != 0
    }

    /// Returns the initiator task tag, which has the same position in every PDU (RFC 7143
    /// 11.2.1.8).
    pub fn initiator_task_tag(&self) -> u32 {
        u32::from_be_bytes([self.bhs[16], self.bhs[17], self.bhs[18], self.bhs[19]])
    }

    /// Builds the frame that `pdu` would be on the wire, for tests and for relaying.
    pub fn of(pdu: &impl Encode) -> Self {
        let (mut bhs, ahs, data) = (pdu.bhs(), pdu.ahs(), pdu.data());
        set_lengths(&mut bhs, ahs.len(), data.len());
        Self { bhs, ahs, data, data_digest_ok: true }
    }
}

/// A typed PDU that can be encoded.
pub trait Encode {
    /// Returns the basic header segment. The sender fills in TotalAHSLength and DataSegmentLength.
    fn bhs(&self) -> Bhs;

    /// Returns the additional header segments, padded to words.
    fn ahs(&self) -> Bytes {
        Bytes::new()
    }

    /// Returns the data segment without padding.
    fn data(&self) -> Bytes {
        Bytes::new()
    }
}

/// Writes TotalAHSLength (in words, RFC 7143 11.2.1.5) and DataSegmentLength (24 bits, 11.2.1.6).
pub(crate) fn set_lengths(bhs: &mut Bhs, ahs_len: usize, data_len: usize) {
    debug_assert!(ahs_len.is_multiple_of(4) && ahs_len / 4 <= 0xff && data_len < 1 << 24);
    bhs[4] = len_u8(ahs_len / 4);
    bhs[5..8].copy_from_slice(&len_u32(data_len).to_be_bytes()[1..]);
}

/// Returns the number of padding bytes after `len` bytes (RFC 7143 11.1: segments are padded to
/// four-byte words).
pub(crate) const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// The sequence numbers that every target PDU carries (RFC 7143 4.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetSn {
    /// StatSN: number of the response on this connection.
    pub stat_sn: u32,
    /// ExpCmdSN: the next CmdSN the target expects.
    pub exp_cmd_sn: u32,
    /// MaxCmdSN: the highest CmdSN the target accepts.
    pub max_cmd_sn: u32,
}

/// The wire form of [`TargetSn`]: bytes 24 to 35 of the header of every target PDU.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct TargetSnWire {
    stat_sn: U32,
    exp_cmd_sn: U32,
    max_cmd_sn: U32,
}
const _: () = assert!(size_of::<TargetSnWire>() == 12);

impl TargetSnWire {
    pub(super) fn load(&self) -> TargetSn {
        TargetSn { stat_sn: self.stat_sn.get(), exp_cmd_sn: self.exp_cmd_sn.get(), max_cmd_sn: self.max_cmd_sn.get() }
    }
}

impl From<TargetSn> for TargetSnWire {
    fn from(sn: TargetSn) -> Self {
        Self { stat_sn: sn.stat_sn.into(), exp_cmd_sn: sn.exp_cmd_sn.into(), max_cmd_sn: sn.max_cmd_sn.into() }
    }
}
