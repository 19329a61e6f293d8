//! NOP-Out and NOP-In: pings in both directions (RFC 7143 11.18, 11.19).

use bytes::Bytes;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U32, U64},
    transmute, transmute_ref,
};

use super::wire::{BHS_LEN, Bhs, Encode, FINAL, Frame, IMMEDIATE, Opcode, TargetSn, TargetSnWire, WireLun};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NopOutBhs {
    opcode: u8,
    flags: u8,
    reserved_2: [u8; 2],
    lengths: [u8; 4],
    lun: U64,
    initiator_task_tag: U32,
    target_transfer_tag: U32,
    cmd_sn: U32,
    exp_stat_sn: U32,
    reserved_32: [u8; 16],
}
const _: () = assert!(size_of::<NopOutBhs>() == BHS_LEN);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NopInBhs {
    opcode: u8,
    flags: u8,
    reserved_2: [u8; 2],
    lengths: [u8; 4],
    lun: U64,
    initiator_task_tag: U32,
    target_transfer_tag: U32,
    sn: TargetSnWire,
    reserved_36: [u8; 12],
}
const _: () = assert!(size_of::<NopInBhs>() == BHS_LEN);

/// A ping from the initiator, or its response to a ping from the target (RFC 7143 11.18).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NopOut {
    /// Immediate delivery: uses no CmdSN.
    pub immediate: bool,
    /// Copied from the NOP-In in a response.
    pub lun: WireLun,
    /// [`NO_TAG`](super::NO_TAG) if no response is requested.
    pub initiator_task_tag: u32,
    /// In a response, copied from the NOP-In; else [`NO_TAG`](super::NO_TAG).
    pub target_transfer_tag: u32,
    /// CmdSN.
    pub cmd_sn: u32,
    /// ExpStatSN.
    pub exp_stat_sn: u32,
    /// Ping data; the target echoes it.
    pub data: Bytes,
}

impl NopOut {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Self {
        let wire: &NopOutBhs = transmute_ref!(&frame.bhs);
        Self {
            immediate: wire.opcode & IMMEDIATE != 0,
            lun: WireLun(wire.lun.get()),
            initiator_task_tag: wire.initiator_task_tag.get(),
            target_transfer_tag: wire.target_transfer_tag.get(),
            cmd_sn: wire.cmd_sn.get(),
            exp_stat_sn: wire.exp_stat_sn.get(),
            data: frame.data,
        }
    }
}

impl Encode for NopOut {
    fn bhs(&self) -> Bhs {
        transmute!(NopOutBhs {
            opcode: Opcode::NopOut as u8 | if self.immediate { IMMEDIATE } else { 0 },
            flags: FINAL,
            reserved_2: [0; 2],
            lengths: [0; 4],
            lun: self.lun.0.into(),
            initiator_task_tag: self.initiator_task_tag.into(),
            target_transfer_tag: self.target_transfer_tag.into(),
            cmd_sn: self.cmd_sn.into(),
            exp_stat_sn: self.exp_stat_sn.into(),
            reserved_32: [0; 16],
        })
    }

    fn data(&self) -> Bytes {
        self.data.clone()
    }
}

/// A ping from the target, or its response to a ping from the initiator (RFC 7143 11.19).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NopIn {
    /// Logical unit, if the target transfer tag is valid.
    pub lun: WireLun,
    /// In a response, copied from the NOP-Out; else [`NO_TAG`](super::NO_TAG).
    pub initiator_task_tag: u32,
    /// [`NO_TAG`](super::NO_TAG) if no response is requested.
    pub target_transfer_tag: u32,
    /// Sequence numbers.
    pub sn: TargetSn,
    /// Echo of the ping data.
    pub data: Bytes,
}

impl NopIn {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Self {
        let wire: &NopInBhs = transmute_ref!(&frame.bhs);
        Self {
            lun: WireLun(wire.lun.get()),
            initiator_task_tag: wire.initiator_task_tag.get(),
            target_transfer_tag: wire.target_transfer_tag.get(),
            sn: wire.sn.load(),
            data: frame.data,
        }
    }
}

impl Encode for NopIn {
    fn bhs(&self) -> Bhs {
        transmute!(NopInBhs {
            opcode: Opcode::NopIn as u8,
            flags: FINAL,
            reserved_2: [0; 2],
            lengths: [0; 4],
            lun: self.lun.0.into(),
            initiator_task_tag: self.initiator_task_tag.into(),
            target_transfer_tag: self.target_transfer_tag.into(),
            sn: self.sn.into(),
            reserved_36: [0; 12],
        })
    }

    fn data(&self) -> Bytes {
        self.data.clone()
    }
}
