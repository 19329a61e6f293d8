//! SNACK Request (RFC 7143 11.16). It is only decoded: error recovery above level 0 is not offered.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U32, U64},
    transmute, transmute_ref,
};

use super::wire::{BHS_LEN, Bhs, Encode, FINAL, Frame, Opcode, WireLun};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct SnackBhs {
    opcode: u8,
    kind: u8,
    reserved_2: [u8; 2],
    lengths: [u8; 4],
    lun: U64,
    initiator_task_tag: U32,
    target_transfer_tag: U32,
    reserved_24: U32,
    exp_stat_sn: U32,
    reserved_32: U64,
    beg_run: U32,
    run_length: U32,
}
const _: () = assert!(size_of::<SnackBhs>() == BHS_LEN);

/// A request for retransmission, or an acknowledgement of data (RFC 7143 11.16).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snack {
    /// Type: 0 data or R2T, 1 status, 2 data acknowledgement, 3 R-data.
    pub kind: u8,
    /// Logical unit, for a data acknowledgement.
    pub lun: WireLun,
    /// The task's tag.
    pub initiator_task_tag: u32,
    /// Target transfer tag or SNACK tag.
    pub target_transfer_tag: u32,
    /// ExpStatSN.
    pub exp_stat_sn: u32,
    /// BegRun.
    pub beg_run: u32,
    /// RunLength.
    pub run_length: u32,
}

impl Snack {
    /// Decodes the PDU from a frame.
    pub fn load(frame: &Frame) -> Self {
        let wire: &SnackBhs = transmute_ref!(&frame.bhs);
        Self {
            kind: wire.kind & 0x0f,
            lun: WireLun(wire.lun.get()),
            initiator_task_tag: wire.initiator_task_tag.get(),
            target_transfer_tag: wire.target_transfer_tag.get(),
            exp_stat_sn: wire.exp_stat_sn.get(),
            beg_run: wire.beg_run.get(),
            run_length: wire.run_length.get(),
        }
    }
}

impl Encode for Snack {
    fn bhs(&self) -> Bhs {
        transmute!(SnackBhs {
            opcode: Opcode::Snack as u8,
            kind: FINAL | self.kind,
            reserved_2: [0; 2],
            lengths: [0; 4],
            lun: self.lun.0.into(),
            initiator_task_tag: self.initiator_task_tag.into(),
            target_transfer_tag: self.target_transfer_tag.into(),
            reserved_24: 0.into(),
            exp_stat_sn: self.exp_stat_sn.into(),
            reserved_32: 0.into(),
            beg_run: self.beg_run.into(),
            run_length: self.run_length.into(),
        })
    }
}
