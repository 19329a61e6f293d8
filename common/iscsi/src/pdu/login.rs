//! Login Request and Login Response (RFC 7143 11.12, 11.13).

use bytes::Bytes;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U16, U32},
    transmute, transmute_ref,
};

use super::wire::{BHS_LEN, Bhs, Encode, Frame, IMMEDIATE, Opcode, PduError, TargetSn, TargetSnWire};

const TRANSIT: u8 = 0x80;
const CONTINUE: u8 = 0x40;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LoginRequestBhs {
    opcode: u8,
    flags: u8,
    version_max: u8,
    version_min: u8,
    lengths: [u8; 4],
    isid: [u8; 6],
    tsih: U16,
    initiator_task_tag: U32,
    cid: U16,
    reserved_22: U16,
    cmd_sn: U32,
    exp_stat_sn: U32,
    reserved_32: [u8; 16],
}
const _: () = assert!(size_of::<LoginRequestBhs>() == BHS_LEN);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LoginResponseBhs {
    opcode: u8,
    flags: u8,
    version_max: u8,
    version_active: u8,
    lengths: [u8; 4],
    isid: [u8; 6],
    tsih: U16,
    initiator_task_tag: U32,
    reserved_20: U32,
    sn: TargetSnWire,
    status_class: u8,
    status_detail: u8,
    reserved_38: [u8; 10],
}
const _: () = assert!(size_of::<LoginResponseBhs>() == BHS_LEN);

/// Stages of the login phase (RFC 7143 11.12.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// SecurityNegotiation.
    #[default]
    Security = 0,
    /// LoginOperationalNegotiation.
    Operational = 1,
    /// FullFeaturePhase.
    FullFeature = 3,
}

impl Stage {
    fn from_bits(bits: u8) -> Result<Self, PduError> {
        match bits & 3 {
            0 => Ok(Self::Security),
            1 => Ok(Self::Operational),
            3 => Ok(Self::FullFeature),
            _ => Err(PduError::Field { byte: 1 }),
        }
    }
}

fn flags(current: Stage, transit_to: Option<Stage>, continued: bool) -> u8 {
    let transit = transit_to.map_or(0, |next| TRANSIT | next as u8);
    transit | ((current as u8) << 2) | if continued { CONTINUE } else { 0 }
}

fn transit_of(flags: u8) -> Result<Option<Stage>, PduError> {
    if flags & TRANSIT == 0 { Ok(None) } else { Stage::from_bits(flags).map(Some) }
}

/// A Login Request (RFC 7143 11.12).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginRequest {
    /// CSG.
    pub stage: Stage,
    /// T and NSG: the initiator is ready to move to this stage.
    pub transit_to: Option<Stage>,
    /// C: the text continues in the next PDU.
    pub continued: bool,
    /// Version-max.
    pub version_max: u8,
    /// Version-min.
    pub version_min: u8,
    /// ISID.
    pub isid: [u8; 6],
    /// TSIH: zero for a new session.
    pub tsih: u16,
    /// The login's tag.
    pub initiator_task_tag: u32,
    /// CID.
    pub cid: u16,
    /// CmdSN; on a leading login, the first one of the session.
    pub cmd_sn: u32,
    /// ExpStatSN.
    pub exp_stat_sn: u32,
    /// Text.
    pub data: Bytes,
}

impl LoginRequest {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Result<Self, PduError> {
        let wire: &LoginRequestBhs = transmute_ref!(&frame.bhs);
        Ok(Self {
            stage: Stage::from_bits(wire.flags >> 2)?,
            transit_to: transit_of(wire.flags)?,
            continued: wire.flags & CONTINUE != 0,
            version_max: wire.version_max,
            version_min: wire.version_min,
            isid: wire.isid,
            tsih: wire.tsih.get(),
            initiator_task_tag: wire.initiator_task_tag.get(),
            cid: wire.cid.get(),
            cmd_sn: wire.cmd_sn.get(),
            exp_stat_sn: wire.exp_stat_sn.get(),
            data: frame.data,
        })
    }
}

impl Encode for LoginRequest {
    fn bhs(&self) -> Bhs {
        transmute!(LoginRequestBhs {
            opcode: Opcode::LoginRequest as u8 | IMMEDIATE,
            flags: flags(self.stage, self.transit_to, self.continued),
            version_max: self.version_max,
            version_min: self.version_min,
            lengths: [0; 4],
            isid: self.isid,
            tsih: self.tsih.into(),
            initiator_task_tag: self.initiator_task_tag.into(),
            cid: self.cid.into(),
            reserved_22: 0.into(),
            cmd_sn: self.cmd_sn.into(),
            exp_stat_sn: self.exp_stat_sn.into(),
            reserved_32: [0; 16],
        })
    }

    fn data(&self) -> Bytes {
        self.data.clone()
    }
}

/// A Login Response (RFC 7143 11.13).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginResponse {
    /// CSG.
    pub stage: Stage,
    /// T and NSG: the target agrees to move to this stage.
    pub transit_to: Option<Stage>,
    /// C: the text continues in the next PDU.
    pub continued: bool,
    /// Version-max.
    pub version_max: u8,
    /// Version-active.
    pub version_active: u8,
    /// ISID, copied from the request.
    pub isid: [u8; 6],
    /// TSIH: the handle of the session, valid in the final response.
    pub tsih: u16,
    /// The login's tag.
    pub initiator_task_tag: u32,
    /// Sequence numbers.
    pub sn: TargetSn,
    /// Status-Class and Status-Detail, as one number: 0x0201 is an authentication failure.
    pub status: u16,
    /// Text.
    pub data: Bytes,
}

impl LoginResponse {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Result<Self, PduError> {
        let wire: &LoginResponseBhs = transmute_ref!(&frame.bhs);
        let status = u16::from_be_bytes([wire.status_class, wire.status_detail]);
        // With an error status the stages have no meaning (RFC 7143 11.13.5), so any value is
        // accepted.
        let (stage, transit_to) = match (Stage::from_bits(wire.flags >> 2), transit_of(wire.flags)) {
            (Ok(stage), Ok(transit_to)) => (stage, transit_to),
            _ if status != 0 => (Stage::Security, None),
            _ => return Err(PduError::Field { byte: 1 }),
        };
        Ok(Self {
            stage,
            transit_to,
            continued: wire.flags & CONTINUE != 0,
            version_max: wire.version_max,
            version_active: wire.version_active,
            isid: wire.isid,
            tsih: wire.tsih.get(),
            initiator_task_tag: wire.initiator_task_tag.get(),
            sn: wire.sn.load(),
            status,
            data: frame.data,
        })
    }
}

impl Encode for LoginResponse {
    fn bhs(&self) -> Bhs {
        let [status_class, status_detail] = self.status.to_be_bytes();
        transmute!(LoginResponseBhs {
            opcode: Opcode::LoginResponse as u8,
            flags: flags(self.stage, self.transit_to, self.continued),
            version_max: self.version_max,
            version_active: self.version_active,
            lengths: [0; 4],
            isid: self.isid,
            tsih: self.tsih.into(),
            initiator_task_tag: self.initiator_task_tag.into(),
            reserved_20: 0.into(),
            sn: self.sn.into(),
            status_class,
            status_detail,
            reserved_38: [0; 10],
        })
    }

    fn data(&self) -> Bytes {
        self.data.clone()
    }
}
