//! PERSISTENT RESERVE IN data (SPC-4 6.15), and its decoders for the initiator.

use super::{Registration, Reservations};
use crate::be::{get_u32, get_u64, to_u32};
use crate::persistent_reservation::types::{InAction, ReservationType};

const HEADER_BYTES: usize = 8;
/// R_HOLDER and ALL_TG_PT of a full status descriptor.
const R_HOLDER: u8 = 0x01;
const ALL_TG_PT: u8 = 0x02;
/// RESERVE(6) with registrations.
const CRH: u8 = 0x10;
/// CRH, SIP_C, ATP_C, PTPL_C: RESERVE(6) with registrations, SPEC_I_PT, ALL_TG_PT, APTPL.
const CAPABILITIES: u8 = CRH | 0x08 | 0x04 | 0x01;
/// TMV: the type mask is valid.
const TMV: u8 = 0x80;
/// PTPL_A: APTPL is in force.
const PTPL_A: u8 = 0x01;

impl Reservations {
    /// Encodes the parameter data, before truncation to the allocation length.
    pub fn read(&self, action: InAction) -> Vec<u8> {
        match action {
            InAction::ReadKeys => {
                self.with_header(self.registrations.iter().flat_map(|r| r.key.to_be_bytes()).collect())
            }
            InAction::ReadReservation => self.with_header(self.reservation_descriptor()),
            InAction::ReportCapabilities => self.capabilities().to_vec(),
            InAction::ReadFullStatus => {
                self.with_header(self.registrations.iter().flat_map(|r| self.full_status(r)).collect())
            }
        }
    }

    /// As [`Self::read`], of a logical unit that refuses RESERVE(6) and RESERVE(10): CRH is zero.
    pub fn read_without_classic(&self, action: InAction) -> Vec<u8> {
        let mut data = self.read(action);
        if action == InAction::ReportCapabilities {
            data[2] &= !CRH;
        }
        data
    }

    /// Prepends PRGENERATION and ADDITIONAL LENGTH to a body.
    fn with_header(&self, body: Vec<u8>) -> Vec<u8> {
        [self.generation.to_be_bytes().as_slice(), &to_u32(body.len()).to_be_bytes(), &body].concat()
    }

    /// Encodes the reservation in 16 bytes, or nothing. The key is zero if all registrants hold
    /// (SPC-4 6.15.3.2).
    fn reservation_descriptor(&self) -> Vec<u8> {
        let Some(reservation) = &self.reservation else { return Vec::new() };
        let shared = reservation.kind.is_all_registrants();
        let key = if shared { 0 } else { self.key_of(&reservation.holder).unwrap_or(0) };
        [key.to_be_bytes().as_slice(), &[0, 0, 0, 0, 0, reservation.kind as u8, 0, 0]].concat()
    }

    fn capabilities(&self) -> [u8; 8] {
        let mask = ReservationType::ALL.into_iter().fold(0u16, |mask, kind| mask | type_bit(kind));
        let [high, low] = mask.to_be_bytes();
        [0, 8, CAPABILITIES, TMV | if self.persist { PTPL_A } else { 0 }, high, low, 0, 0]
    }

    /// Encodes a full status descriptor (SPC-4 6.15.5.2).
    fn full_status(&self, registration: &Registration) -> Vec<u8> {
        let holds = self.holds(&registration.nexus);
        let kind = self.reservation.as_ref().filter(|_| holds).map_or(0, |reservation| reservation.kind as u8);
        let flags = if holds { R_HOLDER } else { 0 } | if registration.all_target_ports { ALL_TG_PT } else { 0 };
        let transport_id = registration.nexus.transport_id();
        let mut out = registration.key.to_be_bytes().to_vec();
        out.extend([0, 0, 0, 0, flags, kind, 0, 0, 0, 0]);
        out.extend(registration.nexus.target_port().to_be_bytes());
        out.extend(to_u32(transport_id.len()).to_be_bytes());
        out.extend(transport_id);
        out
    }
}

/// Returns the bit of a type in the PERSISTENT RESERVATION TYPE MASK, whose first byte is the high
/// one (SPC-4 table 235).
fn type_bit(kind: ReservationType) -> u16 {
    match kind {
        ReservationType::ExclusiveAccessAllRegistrants => 0x0001,
        other => 0x0100 << (other as u8),
    }
}

/// Decodes READ KEYS data: PRGENERATION and the keys; `None` if the header is cut.
pub fn parse_keys(bytes: &[u8]) -> Option<(u32, Vec<u64>)> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let length = rest.len().min(get_u32(header, 4) as usize);
    let (keys, _) = rest[..length].as_chunks::<8>();
    Some((get_u32(header, 0), keys.iter().map(|key| u64::from_be_bytes(*key)).collect()))
}

/// Decodes READ RESERVATION data: key and type; `None` if there is no reservation or the data is
/// cut.
pub fn parse_reservation(bytes: &[u8]) -> Option<(u64, ReservationType)> {
    let body = bytes.get(HEADER_BYTES..HEADER_BYTES + 16)?;
    if get_u32(bytes, 4) < 16 {
        return None;
    }
    Some((get_u64(body, 0), ReservationType::from_code(body[13] & 0x0f)?))
}
