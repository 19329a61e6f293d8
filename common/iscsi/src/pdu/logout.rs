//! Logout Request and Logout Response (RFC 7143 11.14, 11.15).

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U16, U32},
    transmute, transmute_ref,
};

use super::wire::{BHS_LEN, Bhs, Encode, FINAL, Frame, IMMEDIATE, Opcode, PduError, TargetSn, TargetSnWire};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LogoutRequestBhs {
    opcode: u8,
    reason: u8,
    reserved_2: [u8; 2],
    lengths: [u8; 4],
    reserved_8: [u8; 8],
    initiator_task_tag: U32,
    cid: U16,
    reserved_22: U16,
    cmd_sn: U32,
    exp_stat_sn: U32,
    reserved_32: [u8; 16],
}
const _: () = assert!(size_of::<LogoutRequestBhs>() == BHS_LEN);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LogoutResponseBhs {
    opcode: u8,
    flags: u8,
    response: u8,
    reserved_3: u8,
    lengths: [u8; 4],
    reserved_8: [u8; 8],
    initiator_task_tag: U32,
    reserved_20: U32,
    sn: TargetSnWire,
    reserved_36: U32,
    time_to_wait: U16,
    time_to_retain: U16,
    reserved_44: U32,
}
const _: () = assert!(size_of::<LogoutResponseBhs>() == BHS_LEN);

/// Reasons for a logout (RFC 7143 11.14.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogoutReason {
    /// Close the session: all its connections and tasks.
    CloseSession,
    /// Close the connection named by CID.
    CloseConnection,
    /// Remove the connection for recovery; requires error recovery level 2.
    RemoveForRecovery,
    /// A reserved value.
    Other(u8),
}

impl LogoutReason {
    fn code(self) -> u8 {
        match self {
            Self::CloseSession => 0,
            Self::CloseConnection => 1,
            Self::RemoveForRecovery => 2,
            Self::Other(code) => code,
        }
    }
}

/// A Logout Request (RFC 7143 11.14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogoutRequest {
    /// Immediate delivery: uses no CmdSN.
    pub immediate: bool,
    /// Reason.
    pub reason: LogoutReason,
    /// The request's tag.
    pub initiator_task_tag: u32,
    /// Connection to close; ignored when the session is closed.
    pub cid: u16,
    /// CmdSN.
    pub cmd_sn: u32,
    /// ExpStatSN.
    pub exp_stat_sn: u32,
}

impl LogoutRequest {
    /// Decodes the PDU from a frame.
    pub fn load(frame: &Frame) -> Self {
        let wire: &LogoutRequestBhs = transmute_ref!(&frame.bhs);
        let reason = match wire.reason & 0x7f {
            0 => LogoutReason::CloseSession,
            1 => LogoutReason::CloseConnection,
            2 => LogoutReason::RemoveForRecovery,
            other => LogoutReason::Other(other),
        };
        Self {
            immediate: wire.opcode & IMMEDIATE != 0,
            reason,
            initiator_task_tag: wire.initiator_task_tag.get(),
            cid: wire.cid.get(),
            cmd_sn: wire.cmd_sn.get(),
            exp_stat_sn: wire.exp_stat_sn.get(),
        }
    }
}

impl Encode for LogoutRequest {
    fn bhs(&self) -> Bhs {
        transmute!(LogoutRequestBhs {
            opcode: Opcode::LogoutRequest as u8 | if self.immediate { IMMEDIATE } else { 0 },
            reason: FINAL | self.reason.code(),
            reserved_2: [0; 2],
            lengths: [0; 4],
            reserved_8: [0; 8],
            initiator_task_tag: self.initiator_task_tag.into(),
            cid: self.cid.into(),
            reserved_22: 0.into(),
            cmd_sn: self.cmd_sn.into(),
            exp_stat_sn: self.exp_stat_sn.into(),
            reserved_32: [0; 16],
        })
    }
}

/// Results of a logout (RFC 7143 11.15.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LogoutResult {
    /// Connection or session closed successfully.
    Closed = 0,
    /// CID not found.
    NoSuchConnection = 1,
    /// Connection recovery not supported.
    RecoveryNotSupported = 2,
    /// Cleanup failed.
    CleanupFailed = 3,
}

/// A Logout Response (RFC 7143 11.15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogoutResponse {
    /// Result.
    pub result: LogoutResult,
    /// Tag of the request.
    pub initiator_task_tag: u32,
    /// Sequence numbers.
    pub sn: TargetSn,
    /// Time2Wait, in seconds.
    pub time_to_wait: u16,
    /// Time2Retain, in seconds.
    pub time_to_retain: u16,
}

impl LogoutResponse {
    /// Decodes the PDU from a frame.
    pub fn load(frame: &Frame) -> Result<Self, PduError> {
        let wire: &LogoutResponseBhs = transmute_ref!(&frame.bhs);
        let result = match wire.response {
            0 => LogoutResult::Closed,
            1 => LogoutResult::NoSuchConnection,
            2 => LogoutResult::RecoveryNotSupported,
            3 => LogoutResult::CleanupFailed,
            _ => return Err(PduError::Field { byte: 2 }),
        };
        Ok(Self {
            result,
            initiator_task_tag: wire.initiator_task_tag.get(),
            sn: wire.sn.load(),
            time_to_wait: wire.time_to_wait.get(),
            time_to_retain: wire.time_to_retain.get(),
        })
    }
}

impl Encode for LogoutResponse {
    fn bhs(&self) -> Bhs {
        transmute!(LogoutResponseBhs {
            opcode: Opcode::LogoutResponse as u8,
            flags: FINAL,
            response: self.result as u8,
            reserved_3: 0,
            lengths: [0; 4],
            reserved_8: [0; 8],
            initiator_task_tag: self.initiator_task_tag.into(),
            reserved_20: 0.into(),
            sn: self.sn.into(),
            reserved_36: 0.into(),
            time_to_wait: self.time_to_wait.into(),
            time_to_retain: self.time_to_retain.into(),
            reserved_44: 0.into(),
        })
    }
}
