//! SCSI Data-Out and SCSI Data-In (RFC 7143 11.7).

use bytes::Bytes;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U32, U64},
    transmute, transmute_ref,
};

use super::scsi::Residual;
use super::wire::{BHS_LEN, Bhs, Encode, FINAL, Frame, NO_TAG, Opcode, TargetSn, TargetSnWire, WireLun};

const ACKNOWLEDGE: u8 = 0x40;
const STATUS: u8 = 0x01;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct DataOutBhs {
    opcode: u8,
    flags: u8,
    reserved_2: [u8; 2],
    lengths: [u8; 4],
    lun: U64,
    initiator_task_tag: U32,
    target_transfer_tag: U32,
    reserved_24: U32,
    exp_stat_sn: U32,
    reserved_32: U32,
    data_sn: U32,
    buffer_offset: U32,
    reserved_44: U32,
}
const _: () = assert!(size_of::<DataOutBhs>() == BHS_LEN);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct DataInBhs {
    opcode: u8,
    flags: u8,
    reserved_2: u8,
    status: u8,
    lengths: [u8; 4],
    lun: U64,
    initiator_task_tag: U32,
    target_transfer_tag: U32,
    sn: TargetSnWire,
    data_sn: U32,
    buffer_offset: U32,
    residual_count: U32,
}
const _: () = assert!(size_of::<DataInBhs>() == BHS_LEN);

/// Write data, solicited by an R2T or unsolicited (RFC 7143 11.7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataOut {
    /// F: the last PDU of the sequence.
    pub final_: bool,
    /// Logical unit; valid with a valid target transfer tag.
    pub lun: WireLun,
    /// The task's tag.
    pub initiator_task_tag: u32,
    /// Copied from the R2T, or [`NO_TAG`] for unsolicited data.
    pub target_transfer_tag: u32,
    /// ExpStatSN.
    pub exp_stat_sn: u32,
    /// DataSN: numbers the PDUs of a sequence from zero.
    pub data_sn: u32,
    /// Offset of this segment in the command's data, in bytes.
    pub buffer_offset: u32,
    /// The data.
    pub data: Bytes,
}

impl DataOut {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Self {
        let wire: &DataOutBhs = transmute_ref!(&frame.bhs);
        Self {
            final_: wire.flags & FINAL != 0,
            lun: WireLun(wire.lun.get()),
            initiator_task_tag: wire.initiator_task_tag.get(),
            target_transfer_tag: wire.target_transfer_tag.get(),
            exp_stat_sn: wire.exp_stat_sn.get(),
            data_sn: wire.data_sn.get(),
            buffer_offset: wire.buffer_offset.get(),
            data: frame.data,
        }
    }
}

impl Encode for DataOut {
    fn bhs(&self) -> Bhs {
        transmute!(DataOutBhs {
            opcode: Opcode::DataOut as u8,
            flags: if self.final_ { FINAL } else { 0 },
            reserved_2: [0; 2],
            lengths: [0; 4],
            lun: self.lun.0.into(),
            initiator_task_tag: self.initiator_task_tag.into(),
            target_transfer_tag: self.target_transfer_tag.into(),
            reserved_24: 0.into(),
            exp_stat_sn: self.exp_stat_sn.into(),
            reserved_32: 0.into(),
            data_sn: self.data_sn.into(),
            buffer_offset: self.buffer_offset.into(),
            reserved_44: 0.into(),
        })
    }

    fn data(&self) -> Bytes {
        self.data.clone()
    }
}

/// Read data; the last PDU may carry the status of the command (RFC 7143 11.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataIn {
    /// F: the last PDU of the sequence.
    pub final_: bool,
    /// A: requests an acknowledgement from the initiator; only used with error recovery.
    pub acknowledge: bool,
    /// S: status and residual of the command. No SCSI Response follows.
    pub status: Option<(u8, Residual)>,
    /// Logical unit; valid with a valid target transfer tag.
    pub lun: WireLun,
    /// The task's tag.
    pub initiator_task_tag: u32,
    /// [`NO_TAG`] unless `acknowledge` is set.
    pub target_transfer_tag: u32,
    /// Sequence numbers; StatSN is sent only with a status.
    pub sn: TargetSn,
    /// DataSN: numbers the Data-In and R2T PDUs of the command from zero.
    pub data_sn: u32,
    /// Offset of this segment in the command's data, in bytes.
    pub buffer_offset: u32,
    /// The data.
    pub data: Bytes,
}

impl Default for DataIn {
    fn default() -> Self {
        Self {
            final_: false,
            acknowledge: false,
            status: None,
            lun: WireLun::default(),
            initiator_task_tag: NO_TAG,
            target_transfer_tag: NO_TAG,
            sn: TargetSn::default(),
            data_sn: 0,
            buffer_offset: 0,
            data: Bytes::new(),
        }
    }
}

impl DataIn {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Self {
        let wire: &DataInBhs = transmute_ref!(&frame.bhs);
        let status =
            (wire.flags & STATUS != 0).then(|| (wire.status, Residual::load(wire.flags, wire.residual_count.get())));
        Self {
            final_: wire.flags & FINAL != 0,
            acknowledge: wire.flags & ACKNOWLEDGE != 0,
            status,
            lun: WireLun(wire.lun.get()),
            initiator_task_tag: wire.initiator_task_tag.get(),
            target_transfer_tag: wire.target_transfer_tag.get(),
            sn: wire.sn.load(),
            data_sn: wire.data_sn.get(),
            buffer_offset: wire.buffer_offset.get(),
            data: frame.data,
        }
    }
}

impl Encode for DataIn {
    fn bhs(&self) -> Bhs {
        let bit = |on: bool, mask: u8| if on { mask } else { 0 };
        let (status, residual) = self.status.unwrap_or_default();
        let status_flag = bit(self.status.is_some(), STATUS);
        let stat_sn = if self.status.is_some() { self.sn.stat_sn } else { 0 };
        let sn = TargetSn { stat_sn, ..self.sn };
        transmute!(DataInBhs {
            opcode: Opcode::DataIn as u8,
            flags: bit(self.final_, FINAL) | bit(self.acknowledge, ACKNOWLEDGE) | status_flag | residual.flags(),
            reserved_2: 0,
            status,
            lengths: [0; 4],
            lun: self.lun.0.into(),
            initiator_task_tag: self.initiator_task_tag.into(),
            target_transfer_tag: self.target_transfer_tag.into(),
            sn: sn.into(),
            data_sn: self.data_sn.into(),
            buffer_offset: self.buffer_offset.into(),
            residual_count: residual.count().into(),
        })
    }

    fn data(&self) -> Bytes {
        self.data.clone()
    }
}
