//! Protocol data units: one file per PDU, each with the wire layout and the meaning of its fields.
//!
//! RFC 7143 11.1: All iSCSI PDUs have one or more header segments and, optionally, a data segment.
//! After the entire header segment group, a header digest MAY follow. The data segment MAY also be
//! followed by a data digest.
//!
//! The [`Decoder`] splits the byte stream into [`Frame`]s. `load` decodes a frame into a typed PDU.
//! [`Encode`] turns a typed PDU into the 48-byte basic header segment that
//! [`Output`](crate::Output) sends.

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
mod wire;

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
pub use wire::{BHS_LEN, Bhs, Encode, Frame, NO_TAG, Opcode, PduError, TargetSn, WireLun};
pub(crate) use wire::{padding, set_lengths};

/// A PDU of either direction.
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
    /// Decodes a frame.
    ///
    /// # Errors
    ///
    /// Fails if the opcode is unknown or a field has a reserved value.
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
