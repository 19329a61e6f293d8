//! Task management (RFC 7143 11.5, 11.6).

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U32, U64},
    transmute, transmute_ref,
};

use super::wire::{BHS_LEN, Bhs, Encode, FINAL, Frame, IMMEDIATE, Opcode, PduError, TargetSn, TargetSnWire, WireLun};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestBhs {
    opcode: u8,
    function: u8,
    reserved_2: [u8; 2],
    lengths: [u8; 4],
    lun: U64,
    initiator_task_tag: U32,
    referenced_task_tag: U32,
    cmd_sn: U32,
    exp_stat_sn: U32,
    ref_cmd_sn: U32,
    exp_data_sn: U32,
    reserved_40: [u8; 8],
}
const _: () = assert!(size_of::<RequestBhs>() == BHS_LEN);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ResponseBhs {
    opcode: u8,
    flags: u8,
    response: u8,
    reserved_3: u8,
    lengths: [u8; 4],
    reserved_8: [u8; 8],
    initiator_task_tag: U32,
    reserved_20: U32,
    sn: TargetSnWire,
    reserved_36: [u8; 12],
}
const _: () = assert!(size_of::<ResponseBhs>() == BHS_LEN);

/// Task management functions (RFC 7143 11.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskFunction {
    /// ABORT TASK: the one task named by the referenced task tag.
    AbortTask,
    /// ABORT TASK SET: all tasks of this session on the logical unit.
    AbortTaskSet,
    /// CLEAR ACA.
    ClearAca,
    /// CLEAR TASK SET: all tasks of every session on the logical unit.
    ClearTaskSet,
    /// LOGICAL UNIT RESET.
    LogicalUnitReset,
    /// TARGET WARM RESET.
    TargetWarmReset,
    /// TARGET COLD RESET: a warm reset that also closes the sessions.
    TargetColdReset,
    /// TASK REASSIGN: requires error recovery level 2.
    TaskReassign,
    /// Any other value.
    Other(u8),
}

impl TaskFunction {
    /// Returns the function with this code.
    pub fn from_code(code: u8) -> Self {
        match code {
            1 => Self::AbortTask,
            2 => Self::AbortTaskSet,
            3 => Self::ClearAca,
            4 => Self::ClearTaskSet,
            5 => Self::LogicalUnitReset,
            6 => Self::TargetWarmReset,
            7 => Self::TargetColdReset,
            8 => Self::TaskReassign,
            other => Self::Other(other),
        }
    }

    /// Returns the code of the function.
    pub fn code(self) -> u8 {
        match self {
            Self::AbortTask => 1,
            Self::AbortTaskSet => 2,
            Self::ClearAca => 3,
            Self::ClearTaskSet => 4,
            Self::LogicalUnitReset => 5,
            Self::TargetWarmReset => 6,
            Self::TargetColdReset => 7,
            Self::TaskReassign => 8,
            Self::Other(code) => code,
        }
    }
}

/// A task management function request (RFC 7143 11.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskManagementRequest {
    /// Immediate delivery: uses no CmdSN.
    pub immediate: bool,
    /// Function.
    pub function: TaskFunction,
    /// Logical unit, for the functions that address one.
    pub lun: WireLun,
    /// The request's own tag.
    pub initiator_task_tag: u32,
    /// The task to abort or reassign, else [`NO_TAG`](super::NO_TAG).
    pub referenced_task_tag: u32,
    /// CmdSN.
    pub cmd_sn: u32,
    /// ExpStatSN.
    pub exp_stat_sn: u32,
    /// CmdSN of the task to abort.
    pub ref_cmd_sn: u32,
    /// ExpDataSN, for TASK REASSIGN.
    pub exp_data_sn: u32,
}

impl TaskManagementRequest {
    /// Decodes the PDU from a frame.
    pub fn load(frame: &Frame) -> Self {
        let wire: &RequestBhs = transmute_ref!(&frame.bhs);
        Self {
            immediate: wire.opcode & IMMEDIATE != 0,
            function: TaskFunction::from_code(wire.function & 0x7f),
            lun: WireLun(wire.lun.get()),
            initiator_task_tag: wire.initiator_task_tag.get(),
            referenced_task_tag: wire.referenced_task_tag.get(),
            cmd_sn: wire.cmd_sn.get(),
            exp_stat_sn: wire.exp_stat_sn.get(),
            ref_cmd_sn: wire.ref_cmd_sn.get(),
            exp_data_sn: wire.exp_data_sn.get(),
        }
    }
}

impl Encode for TaskManagementRequest {
    fn bhs(&self) -> Bhs {
        transmute!(RequestBhs {
            opcode: Opcode::TaskManagementRequest as u8 | if self.immediate { IMMEDIATE } else { 0 },
            function: FINAL | self.function.code(),
            reserved_2: [0; 2],
            lengths: [0; 4],
            lun: self.lun.0.into(),
            initiator_task_tag: self.initiator_task_tag.into(),
            referenced_task_tag: self.referenced_task_tag.into(),
            cmd_sn: self.cmd_sn.into(),
            exp_stat_sn: self.exp_stat_sn.into(),
            ref_cmd_sn: self.ref_cmd_sn.into(),
            exp_data_sn: self.exp_data_sn.into(),
            reserved_40: [0; 8],
        })
    }
}

/// Outcomes of a task management function (RFC 7143 11.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TaskOutcome {
    /// Function complete.
    Complete = 0,
    /// Task does not exist.
    NoSuchTask = 1,
    /// LUN does not exist.
    NoSuchLun = 2,
    /// Task still allegiant.
    StillAllegiant = 3,
    /// Task allegiance reassignment not supported.
    ReassignNotSupported = 4,
    /// Task management function not supported.
    NotSupported = 5,
    /// Function authorization failed.
    NotAuthorized = 6,
    /// Function rejected.
    Rejected = 255,
}

impl TaskOutcome {
    /// Returns the outcome with this code; `None` for a reserved code.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Complete,
            1 => Self::NoSuchTask,
            2 => Self::NoSuchLun,
            3 => Self::StillAllegiant,
            4 => Self::ReassignNotSupported,
            5 => Self::NotSupported,
            6 => Self::NotAuthorized,
            255 => Self::Rejected,
            _ => return None,
        })
    }
}

/// A Task Management Function Response (RFC 7143 11.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskManagementResponse {
    /// Outcome.
    pub outcome: TaskOutcome,
    /// Tag of the request.
    pub initiator_task_tag: u32,
    /// Sequence numbers.
    pub sn: TargetSn,
}

impl TaskManagementResponse {
    /// Decodes the PDU from a frame.
    pub fn load(frame: &Frame) -> Result<Self, PduError> {
        let wire: &ResponseBhs = transmute_ref!(&frame.bhs);
        Ok(Self {
            outcome: TaskOutcome::from_code(wire.response).ok_or(PduError::Field { byte: 2 })?,
            initiator_task_tag: wire.initiator_task_tag.get(),
            sn: wire.sn.load(),
        })
    }
}

impl Encode for TaskManagementResponse {
    fn bhs(&self) -> Bhs {
        transmute!(ResponseBhs {
            opcode: Opcode::TaskManagementResponse as u8,
            flags: FINAL,
            response: self.outcome as u8,
            reserved_3: 0,
            lengths: [0; 4],
            reserved_8: [0; 8],
            initiator_task_tag: self.initiator_task_tag.into(),
            reserved_20: 0.into(),
            sn: self.sn.into(),
            reserved_36: [0; 12],
        })
    }
}
