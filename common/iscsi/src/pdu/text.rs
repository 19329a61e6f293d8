//! Text Request and Text Response (RFC 7143 11.10, 11.11).

use bytes::Bytes;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U32, U64},
    transmute, transmute_ref,
};

use super::wire::{BHS_LEN, Bhs, Encode, FINAL, Frame, IMMEDIATE, Opcode, TargetSn, TargetSnWire, WireLun};

const CONTINUE: u8 = 0x40;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TextRequestBhs {
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
const _: () = assert!(size_of::<TextRequestBhs>() == BHS_LEN);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TextResponseBhs {
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
const _: () = assert!(size_of::<TextResponseBhs>() == BHS_LEN);

fn flags(final_: bool, continued: bool) -> u8 {
    (if final_ { FINAL } else { 0 }) | (if continued { CONTINUE } else { 0 })
}

/// A Text Request: keys sent by the initiator in the full feature phase (RFC 7143 11.10).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextRequest {
    /// Immediate delivery: uses no CmdSN.
    pub immediate: bool,
    /// F: the initiator has no more text.
    pub final_: bool,
    /// C: the text continues in the next PDU.
    pub continued: bool,
    /// Logical unit, copied from the previous response.
    pub lun: WireLun,
    /// The exchange's tag.
    pub initiator_task_tag: u32,
    /// [`NO_TAG`](super::NO_TAG) in the first request, else copied from the last response.
    pub target_transfer_tag: u32,
    /// CmdSN.
    pub cmd_sn: u32,
    /// ExpStatSN.
    pub exp_stat_sn: u32,
    /// Text.
    pub data: Bytes,
}

impl TextRequest {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Self {
        let wire: &TextRequestBhs = transmute_ref!(&frame.bhs);
        Self {
            immediate: wire.opcode & IMMEDIATE != 0,
            final_: wire.flags & FINAL != 0,
            continued: wire.flags & CONTINUE != 0,
            lun: WireLun(wire.lun.get()),
            initiator_task_tag: wire.initiator_task_tag.get(),
            target_transfer_tag: wire.target_transfer_tag.get(),
            cmd_sn: wire.cmd_sn.get(),
            exp_stat_sn: wire.exp_stat_sn.get(),
            data: frame.data,
        }
    }
}

impl Encode for TextRequest {
    fn bhs(&self) -> Bhs {
        transmute!(TextRequestBhs {
            opcode: Opcode::TextRequest as u8 | if self.immediate { IMMEDIATE } else { 0 },
            flags: flags(self.final_, self.continued),
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

/// A Text Response: keys sent by the target in the full feature phase (RFC 7143 11.11).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextResponse {
    /// F: the exchange is complete.
    pub final_: bool,
    /// C: the text continues in the next PDU.
    pub continued: bool,
    /// Logical unit, for the initiator to copy.
    pub lun: WireLun,
    /// Tag of the request.
    pub initiator_task_tag: u32,
    /// [`NO_TAG`](super::NO_TAG) if the exchange is complete.
    pub target_transfer_tag: u32,
    /// Sequence numbers.
    pub sn: TargetSn,
    /// Text.
    pub data: Bytes,
}

impl TextResponse {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Self {
        let wire: &TextResponseBhs = transmute_ref!(&frame.bhs);
        Self {
            final_: wire.flags & FINAL != 0,
            continued: wire.flags & CONTINUE != 0,
            lun: WireLun(wire.lun.get()),
            initiator_task_tag: wire.initiator_task_tag.get(),
            target_transfer_tag: wire.target_transfer_tag.get(),
            sn: wire.sn.load(),
            data: frame.data,
        }
    }
}

impl Encode for TextResponse {
    fn bhs(&self) -> Bhs {
        transmute!(TextResponseBhs {
            opcode: Opcode::TextResponse as u8,
            flags: flags(self.final_, self.continued),
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
