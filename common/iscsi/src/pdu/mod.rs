//! Protocol data units: one file per PDU, each with the layout of the wire and the meaning of its fields.
//!
//! RFC 7143 11.1: All iSCSI PDUs have one or more header segments and, optionally, a data segment. After the entire
//! header segment group, a header digest MAY follow. The data segment MAY also be followed by a data digest.
//!
//! A [`Frame`] is a PDU cut out of the byte stream by the [`Decoder`]; `load` turns a frame into a typed PDU, and
//! [`Encode`] turns a typed PDU into the 48 bytes of the basic header segment that [`Output`](crate::Output) sends.

use bytes::Bytes;
use thiserror::Error;

mod ahs;
mod async_message;
mod data;
mod decoder;
mod login;
mod logout;
mod nop;
mod r2t;
mod reject;
mod scsi;
mod snack;
mod task;
mod text;

pub use ahs::{MAX_CDB_LEN, encode_ahs};
pub use async_message::{AsyncEvent, AsyncMessage};
pub use data::{DataIn, DataOut};
pub use decoder::{DecodeError, DecodeLimits, Decoder};
pub use login::{LoginRequest, LoginResponse, Stage};
pub use logout::{LogoutReason, LogoutRequest, LogoutResponse, LogoutResult};
pub use nop::{NopIn, NopOut};
pub use r2t::R2t;
pub use reject::{Reject, RejectReason};
pub use scsi::{Residual, ScsiCommand, ScsiResponse, TaskAttribute};
pub use snack::Snack;
pub use task::{TaskFunction, TaskManagementRequest, TaskManagementResponse, TaskOutcome};
pub use text::{TextRequest, TextResponse};

/// Length of a basic header segment (RFC 7143 11.2.1).
pub const BHS_LEN: usize = 48;

/// A basic header segment as it is on the wire.
pub type Bhs = [u8; BHS_LEN];

/// "No tag": the reserved value of initiator and target task tags (RFC 7143 11.2.1.8).
pub const NO_TAG: u32 = 0xffff_ffff;

/// Bit 0x80 of byte 1 in most PDUs: final, or a fixed one.
pub(crate) const FINAL: u8 = 0x80;
/// Bit 0x40 of byte 0: the command is for immediate delivery (RFC 7143 11.2.1.1).
pub(crate) const IMMEDIATE: u8 = 0x40;

/// A logical unit number in its eight-byte form (SAM-5 4.7), as iSCSI carries it; its inside is the business of the
/// SCSI layer.
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
    /// The opcode in byte 0 of a header, or none when it is reserved or vendor specific.
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

/// Why a complete PDU has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PduError {
    /// The opcode is none of RFC 7143's.
    #[error("unknown opcode {0:#04x}")]
    UnknownOpcode(u8),
    /// A field of the header has a value the RFC reserves.
    #[error("header byte {byte} holds a reserved or impossible value")]
    Field {
        /// Offset of the field in the header segments.
        byte: u16,
    },
}

/// One PDU cut out of the stream: checked for length and digests, not yet for meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The basic header segment.
    pub bhs: Bhs,
    /// The additional header segments, with their padding.
    pub ahs: Bytes,
    /// The data segment, without its padding; a view into the receive buffer.
    pub data: Bytes,
    /// False when a data digest was negotiated and did not match: the header can be trusted, the data cannot.
    pub data_digest_ok: bool,
}

impl Frame {
    /// The opcode, when RFC 7143 defines it.
    pub fn opcode(&self) -> Option<Opcode> {
        Opcode::from_byte(self.bhs[0])
    }

    /// Whether the immediate-delivery bit is set.
    pub fn is_immediate(&self) -> bool {
        self.bhs[0] & IMMEDIATE != 0
    }

    /// Whether the F bit is set.
    pub fn is_final(&self) -> bool {
        self.bhs[1] & FINAL != 0
    }

    /// The initiator task tag: the same place in every PDU (RFC 7143 11.2.1.8).
    pub fn initiator_task_tag(&self) -> u32 {
        u32::from_be_bytes([self.bhs[16], self.bhs[17], self.bhs[18], self.bhs[19]])
    }

    /// A frame that holds what `pdu` would put on the wire: for tests and for relaying.
    pub fn of(pdu: &impl Encode) -> Self {
        let (mut bhs, ahs, data) = (pdu.bhs(), pdu.ahs(), pdu.data());
        set_lengths(&mut bhs, ahs.len(), data.len());
        Self { bhs, ahs, data, data_digest_ok: true }
    }
}

/// A typed PDU that can be put on the wire.
pub trait Encode {
    /// The basic header segment; TotalAHSLength and DataSegmentLength are filled in by the sender.
    fn bhs(&self) -> Bhs;

    /// Additional header segments, padded to words.
    fn ahs(&self) -> Bytes {
        Bytes::new()
    }

    /// The data segment, without padding.
    fn data(&self) -> Bytes {
        Bytes::new()
    }
}

/// Writes TotalAHSLength (in words, RFC 7143 11.2.1.5) and DataSegmentLength (24 bits, 11.2.1.6).
pub(crate) fn set_lengths(bhs: &mut Bhs, ahs_len: usize, data_len: usize) {
    debug_assert!(ahs_len.is_multiple_of(4) && ahs_len / 4 <= 0xff && data_len < 1 << 24);
    bhs[4] = (ahs_len / 4) as u8;
    bhs[5..8].copy_from_slice(&(data_len as u32).to_be_bytes()[1..]);
}

/// Bytes of padding after `len` bytes (RFC 7143 11.1: segments are padded to words of four bytes).
pub(crate) const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// StatSN, ExpCmdSN and MaxCmdSN: what every PDU of a target says about the sequences (RFC 7143 4.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetSn {
    /// StatSN: numbers the responses of the connection.
    pub stat_sn: u32,
    /// ExpCmdSN: the next CmdSN the target expects.
    pub exp_cmd_sn: u32,
    /// MaxCmdSN: the highest CmdSN the target accepts.
    pub max_cmd_sn: u32,
}

/// Any PDU, either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant is the type of the same name
pub enum Pdu {
    NopOut(NopOut),
    ScsiCommand(ScsiCommand),
    TaskManagementRequest(TaskManagementRequest),
    LoginRequest(LoginRequest),
    TextRequest(TextRequest),
    DataOut(DataOut),
    LogoutRequest(LogoutRequest),
    Snack(Snack),
    NopIn(NopIn),
    ScsiResponse(ScsiResponse),
    TaskManagementResponse(TaskManagementResponse),
    LoginResponse(LoginResponse),
    TextResponse(TextResponse),
    DataIn(DataIn),
    LogoutResponse(LogoutResponse),
    R2t(R2t),
    AsyncMessage(AsyncMessage),
    Reject(Reject),
}

impl Pdu {
    /// The meaning of a frame.
    pub fn load(frame: Frame) -> Result<Self, PduError> {
        let opcode = frame.opcode().ok_or(PduError::UnknownOpcode(frame.bhs[0] & 0x3f))?;
        Ok(match opcode {
            Opcode::NopOut => Self::NopOut(NopOut::load(frame)),
            Opcode::ScsiCommand => Self::ScsiCommand(ScsiCommand::load(frame)?),
            Opcode::TaskManagementRequest => Self::TaskManagementRequest(TaskManagementRequest::load(&frame)),
            Opcode::LoginRequest => Self::LoginRequest(LoginRequest::load(frame)?),
            Opcode::TextRequest => Self::TextRequest(TextRequest::load(frame)),
            Opcode::DataOut => Self::DataOut(DataOut::load(frame)),
            Opcode::LogoutRequest => Self::LogoutRequest(LogoutRequest::load(&frame)),
            Opcode::Snack => Self::Snack(Snack::load(&frame)),
            Opcode::NopIn => Self::NopIn(NopIn::load(frame)),
            Opcode::ScsiResponse => Self::ScsiResponse(ScsiResponse::load(frame)?),
            Opcode::TaskManagementResponse => Self::TaskManagementResponse(TaskManagementResponse::load(&frame)?),
            Opcode::LoginResponse => Self::LoginResponse(LoginResponse::load(frame)?),
            Opcode::TextResponse => Self::TextResponse(TextResponse::load(frame)),
            Opcode::DataIn => Self::DataIn(DataIn::load(frame)),
            Opcode::LogoutResponse => Self::LogoutResponse(LogoutResponse::load(&frame)?),
            Opcode::R2t => Self::R2t(R2t::load(&frame)),
            Opcode::AsyncMessage => Self::AsyncMessage(AsyncMessage::load(frame)?),
            Opcode::Reject => Self::Reject(Reject::load(frame)?),
        })
    }
}

#[cfg(test)]
mod tests;
