//! Asynchronous Message (RFC 7143 11.9).

use bytes::{BufMut, Bytes, BytesMut};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    big_endian::{U16, U32, U64},
    transmute, transmute_ref,
};

use super::wire::{
    AFTER_BHS, BHS_LEN, Bhs, Encode, FINAL, Frame, NO_TAG, Opcode, PduError, TargetSn, TargetSnWire, WireLun,
};
use crate::length::len_u16;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AsyncMessageBhs {
    opcode: u8,
    flags: u8,
    reserved_2: [u8; 2],
    lengths: [u8; 4],
    lun: U64,
    all_ones: U32,
    reserved_20: U32,
    sn: TargetSnWire,
    async_event: u8,
    async_vcode: u8,
    parameter_1: U16,
    parameter_2: U16,
    parameter_3: U16,
    reserved_44: U32,
}
const _: () = assert!(size_of::<AsyncMessageBhs>() == BHS_LEN);

/// Asynchronous events (RFC 7143 11.9.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// A SCSI asynchronous event, with its sense data.
    Scsi {
        /// Sense data.
        sense: Bytes,
    },
    /// The target requests a Logout of this connection within `time_3` seconds.
    LogoutRequest {
        /// Parameter3.
        time_3: u16,
    },
    /// The target will drop the connection `cid`.
    ConnectionDrop {
        /// Parameter1.
        cid: u16,
        /// Parameter2: seconds to wait before reconnecting.
        time_to_wait: u16,
        /// Parameter3: seconds for which the connection's tasks are kept.
        time_to_retain: u16,
    },
    /// The target will drop all connections of the session.
    SessionDrop {
        /// Parameter2: seconds to wait before reconnecting.
        time_to_wait: u16,
        /// Parameter3: seconds for which the session's tasks are kept.
        time_to_retain: u16,
    },
    /// The target requests parameter negotiation within `time_3` seconds.
    Negotiation {
        /// Parameter3.
        time_3: u16,
    },
    /// All active tasks of the logical unit are being terminated (TaskReporting=FastAbort).
    TasksTerminated {
        /// Parameter1.
        parameter_1: u16,
    },
    /// Vendor specific.
    Vendor {
        /// AsyncVCode.
        code: u8,
    },
}

/// An asynchronous message from the target (RFC 7143 11.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsyncMessage {
    /// Logical unit, for events that concern one.
    pub lun: WireLun,
    /// Sequence numbers.
    pub sn: TargetSn,
    /// Event.
    pub event: AsyncEvent,
}

impl AsyncMessage {
    /// Decodes the PDU from a frame.
    pub fn load(frame: Frame) -> Result<Self, PduError> {
        let wire: &AsyncMessageBhs = transmute_ref!(&frame.bhs);
        let (p1, p2, p3) = (wire.parameter_1.get(), wire.parameter_2.get(), wire.parameter_3.get());
        let event = match wire.async_event {
            0 => AsyncEvent::Scsi { sense: sense_of(&frame.data)? },
            1 => AsyncEvent::LogoutRequest { time_3: p3 },
            2 => AsyncEvent::ConnectionDrop { cid: p1, time_to_wait: p2, time_to_retain: p3 },
            3 => AsyncEvent::SessionDrop { time_to_wait: p2, time_to_retain: p3 },
            4 => AsyncEvent::Negotiation { time_3: p3 },
            5 => AsyncEvent::TasksTerminated { parameter_1: p1 },
            255 => AsyncEvent::Vendor { code: wire.async_vcode },
            _ => return Err(PduError::Field { byte: 36 }),
        };
        Ok(Self { lun: WireLun(wire.lun.get()), sn: wire.sn.load(), event })
    }
}

impl Encode for AsyncMessage {
    fn bhs(&self) -> Bhs {
        let (event, vcode, p1, p2, p3) = match self.event {
            AsyncEvent::Scsi { .. } => (0, 0, 0, 0, 0),
            AsyncEvent::LogoutRequest { time_3 } => (1, 0, 0, 0, time_3),
            AsyncEvent::ConnectionDrop { cid, time_to_wait, time_to_retain } => {
                (2, 0, cid, time_to_wait, time_to_retain)
            }
            AsyncEvent::SessionDrop { time_to_wait, time_to_retain } => (3, 0, 0, time_to_wait, time_to_retain),
            AsyncEvent::Negotiation { time_3 } => (4, 0, 0, 0, time_3),
            AsyncEvent::TasksTerminated { parameter_1 } => (5, 0, parameter_1, 0, 0),
            AsyncEvent::Vendor { code } => (255, code, 0, 0, 0),
        };
        transmute!(AsyncMessageBhs {
            opcode: Opcode::AsyncMessage as u8,
            flags: FINAL,
            reserved_2: [0; 2],
            lengths: [0; 4],
            lun: self.lun.0.into(),
            all_ones: NO_TAG.into(),
            reserved_20: 0.into(),
            sn: self.sn.into(),
            async_event: event,
            async_vcode: vcode,
            parameter_1: p1.into(),
            parameter_2: p2.into(),
            parameter_3: p3.into(),
            reserved_44: 0.into(),
        })
    }

    fn data(&self) -> Bytes {
        let AsyncEvent::Scsi { sense } = &self.event else { return Bytes::new() };
        let mut out = BytesMut::with_capacity(2 + sense.len());
        out.put_u16(len_u16(sense.len()));
        out.put_slice(sense);
        out.freeze()
    }
}

/// RFC 7143 11.9.4: the data segment is SenseLength (2 bytes), sense data, and iSCSI event data.
fn sense_of(data: &Bytes) -> Result<Bytes, PduError> {
    let malformed = PduError::Field { byte: AFTER_BHS };
    let head = data.first_chunk::<2>().ok_or(malformed)?;
    let end = 2 + usize::from(u16::from_be_bytes(*head));
    if end > data.len() {
        return Err(malformed);
    }
    Ok(data.slice(2..end))
}
