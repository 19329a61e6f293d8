//! Ready To Transfer (RFC 7143 11.8).

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U32, U64},
    transmute, transmute_ref,
};

use super::wire::{BHS_LEN, Bhs, Encode, FINAL, Frame, Opcode, TargetSn, TargetSnWire, WireLun};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct R2tBhs {
    opcode: u8,
    flags: u8,
    reserved_2: [u8; 2],
    lengths: [u8; 4],
    lun: U64,
    initiator_task_tag: U32,
    target_transfer_tag: U32,
    sn: TargetSnWire,
    r2t_sn: U32,
    buffer_offset: U32,
    desired_data_transfer_length: U32,
}
const _: () = assert!(size_of::<R2tBhs>() == BHS_LEN);

/// Requests a part of a command's write data (RFC 7143 11.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct R2t {
    /// Logical unit.
    pub lun: WireLun,
    /// The task's tag.
    pub initiator_task_tag: u32,
    /// The initiator copies it into the Data-Out PDUs of this sequence.
    pub target_transfer_tag: u32,
    /// Sequence numbers. StatSN is the next one and is not consumed.
    pub sn: TargetSn,
    /// R2TSN: numbers the R2Ts of the command from zero.
    pub r2t_sn: u32,
    /// Offset of the first requested byte.
    pub buffer_offset: u32,
    /// Number of requested bytes: from 1 to MaxBurstLength.
    pub desired_length: u32,
}

impl R2t {
    /// Decodes the PDU from a frame.
    pub fn load(frame: &Frame) -> Self {
        let wire: &R2tBhs = transmute_ref!(&frame.bhs);
        Self {
            lun: WireLun(wire.lun.get()),
            initiator_task_tag: wire.initiator_task_tag.get(),
            target_transfer_tag: wire.target_transfer_tag.get(),
            sn: wire.sn.load(),
            r2t_sn: wire.r2t_sn.get(),
            buffer_offset: wire.buffer_offset.get(),
            desired_length: wire.desired_data_transfer_length.get(),
        }
    }
}

impl Encode for R2t {
    fn bhs(&self) -> Bhs {
        transmute!(R2tBhs {
            opcode: Opcode::R2t as u8,
            flags: FINAL,
            reserved_2: [0; 2],
            lengths: [0; 4],
            lun: self.lun.0.into(),
            initiator_task_tag: self.initiator_task_tag.into(),
            target_transfer_tag: self.target_transfer_tag.into(),
            sn: self.sn.into(),
            r2t_sn: self.r2t_sn.into(),
            buffer_offset: self.buffer_offset.into(),
            desired_data_transfer_length: self.desired_length.into(),
        })
    }
}
