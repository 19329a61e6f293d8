//! Reservations as bytes, for APTPL: the state that survives a power loss (SPC-4 5.13.5).
//!
//! | offset | bytes | content |
//! | --- | --- | --- |
//! | 0 | 8 | magic `IBIDPRSV` |
//! | 8 | 2 | version, 1 |
//! | 10 | 1 | flags: bit 0 APTPL |
//! | 11 | 1 | type of the reservation, 0 for none |
//! | 12 | 4 | PRGENERATION |
//! | 16 | 4 | index of the holder among the registrations, FFFFFFFFh for none |
//! | 20 | 4 | number of registrations |
//! | 24 | … | registrations: key (8), target port (2), flags (1), length of the name (1), name |
//! | end | 4 | CRC-32C of all bytes before |
//!
//! Bit 0 of the flags of a registration is ALL_TG_PT.
//! All integers are big-endian, as in all of SCSI. A RESERVE(6) is not included because a reset
//! ends it.

use super::{MAX_REGISTRATIONS, Registration, Reservation, Reservations};
use crate::be::{get_u16, get_u32, get_u64, put, to_u8, to_u32};
use crate::persistent_reservation::nexus::NexusId;
use crate::persistent_reservation::types::ReservationType;
use thiserror::Error;

const MAGIC: &[u8; 8] = b"IBIDPRSV";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;
const NO_HOLDER: u32 = u32::MAX;
const APTPL: u8 = 0x01;
const ALL_TG_PT: u8 = 0x01;

/// Why bytes are not a valid image of reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ImageError {
    /// Too short, or without the magic.
    #[error("not an image of reservations")]
    NotAnImage,
    /// Written by a later version.
    #[error("image of reservations has version {0}, supported is {VERSION}")]
    Version(u16),
    /// The checksum is wrong.
    #[error("image of reservations damaged: checksum mismatch")]
    Checksum,
    /// The checksum is right, but the content is inconsistent.
    #[error("image of reservations damaged: inconsistent content")]
    Contents,
}

impl Reservations {
    /// Encodes the persistent state.
    pub fn to_image(&self) -> Vec<u8> {
        let holder = self.reservation.as_ref().and_then(|reservation| {
            self.registrations.iter().position(|registration| registration.nexus == reservation.holder)
        });
        let mut out = vec![0; HEADER_BYTES];
        put(&mut out, 0, *MAGIC);
        put(&mut out, 8, VERSION.to_be_bytes());
        out[10] = if self.persist { APTPL } else { 0 };
        out[11] = self.reservation.as_ref().map_or(0, |reservation| reservation.kind as u8);
        put(&mut out, 12, self.generation.to_be_bytes());
        put(&mut out, 16, holder.map_or(NO_HOLDER, to_u32).to_be_bytes());
        put(&mut out, 20, to_u32(self.registrations.len()).to_be_bytes());
        for registration in &self.registrations {
            let name = registration.nexus.initiator_port();
            out.extend(registration.key.to_be_bytes());
            out.extend(registration.nexus.target_port().to_be_bytes());
            // NexusId keeps names below 256 bytes.
            out.extend([if registration.all_target_ports { ALL_TG_PT } else { 0 }, to_u8(name.len())]);
            out.extend(name);
        }
        let checksum = crc32c::crc32c(&out);
        out.extend(checksum.to_be_bytes());
        out
    }

    /// Decodes an image written by [`Self::to_image`].
    pub fn from_image(bytes: &[u8]) -> Result<Self, ImageError> {
        if bytes.len() < HEADER_BYTES + CHECKSUM_BYTES || bytes[..8] != *MAGIC {
            return Err(ImageError::NotAnImage);
        }
        let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        if crc32c::crc32c(body) != get_u32(checksum, 0) {
            return Err(ImageError::Checksum);
        }
        let version = get_u16(body, 8);
        if version != VERSION {
            return Err(ImageError::Version(version));
        }
        let registrations = parse_registrations(&body[HEADER_BYTES..], get_u32(body, 20) as usize)?;
        let reservation = match (body[11], get_u32(body, 16)) {
            (0, NO_HOLDER) => None,
            (kind, place) => {
                let kind = ReservationType::from_code(kind).ok_or(ImageError::Contents)?;
                let holder = registrations.get(place as usize).ok_or(ImageError::Contents)?.nexus.clone();
                Some(Reservation { kind, holder })
            }
        };
        let persist = body[10] & APTPL != 0;
        Ok(Self { generation: get_u32(body, 12), registrations, reservation, persist, classic: None })
    }

    /// Decodes an image that zeros follow. Zeros alone are a state without reservations.
    pub fn from_padded_image(bytes: &[u8]) -> Result<Self, ImageError> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(Self::default());
        }
        let mut length = HEADER_BYTES;
        let count = bytes.get(20..HEADER_BYTES).map_or(0, |_| get_u32(bytes, 20));
        for _ in 0..count {
            let name = bytes.get(length + ENTRY_BYTES - 1).ok_or(ImageError::Contents)?;
            length += ENTRY_BYTES + usize::from(*name);
        }
        Self::from_image(bytes.get(..length + CHECKSUM_BYTES).ok_or(ImageError::NotAnImage)?)
    }

    /// Returns the state after a power loss: all of it with APTPL, otherwise none. PRGENERATION
    /// starts at zero in either case (SPC-4 6.15.2).
    pub fn after_power_loss(self) -> Self {
        if self.persist { Self { generation: 0, classic: None, ..self } } else { Self::default() }
    }
}

fn parse_registrations(mut rest: &[u8], count: usize) -> Result<Vec<Registration>, ImageError> {
    if count > MAX_REGISTRATIONS {
        return Err(ImageError::Contents);
    }
    let mut found: Vec<Registration> = Vec::with_capacity(count);
    for _ in 0..count {
        let (entry, next) = rest.split_at_checked(ENTRY_BYTES).ok_or(ImageError::Contents)?;
        let (name, next) = next.split_at_checked(usize::from(entry[11])).ok_or(ImageError::Contents)?;
        rest = next;
        let nexus = NexusId::of_port(name, get_u16(entry, 8));
        let (key, all_target_ports) = (get_u64(entry, 0), entry[10] & ALL_TG_PT != 0);
        if key == 0 || found.iter().any(|registration| registration.nexus == nexus) {
            return Err(ImageError::Contents);
        }
        found.push(Registration { nexus, key, all_target_ports });
    }
    if rest.is_empty() { Ok(found) } else { Err(ImageError::Contents) }
}
