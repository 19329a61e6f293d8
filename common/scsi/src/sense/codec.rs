//! The two formats of sense data: fixed (SPC-4 4.5.3) and descriptor (SPC-4 4.5.2).

use super::{Asc, Sense, SenseKey, Specific};
use crate::be::{get_u16, get_u32, get_u64, put, to_u8};
use thiserror::Error;

/// Length of our fixed format sense data: through the sense key specific field.
const FIXED_BYTES: usize = 18;
/// Header of descriptor format sense data.
const DESCRIPTOR_HEADER_BYTES: usize = 8;
const RESPONSE_FIXED: u8 = 0x70;
const RESPONSE_FIXED_DEFERRED: u8 = 0x71;
const RESPONSE_DESCRIPTOR: u8 = 0x72;
const RESPONSE_DESCRIPTOR_DEFERRED: u8 = 0x73;
const DESCRIPTOR_INFORMATION: u8 = 0x00;
const DESCRIPTOR_COMMAND_SPECIFIC: u8 = 0x01;
const DESCRIPTOR_SENSE_KEY_SPECIFIC: u8 = 0x02;
/// VALID of the INFORMATION field.
const VALID: u8 = 0x80;
const SKSV: u8 = 0x80;
const COMMAND_DATA: u8 = 0x40;
const SEGMENT_DESCRIPTOR: u8 = 0x20;
const BPV: u8 = 0x08;

/// Sense data format, selected by the D_SENSE bit of the Control mode page (SPC-4 7.5.8) or the
/// DESC bit of REQUEST SENSE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SenseFormat {
    /// Response code 70h. INFORMATION has 32 bits: a larger value is omitted.
    #[default]
    Fixed,
    /// Response code 72h.
    Descriptor,
}

/// Why bytes are not valid sense data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SenseError {
    /// Shorter than the header of its format.
    #[error("sense data truncated at {0} bytes")]
    Short(usize),
    /// The response code is not 70h to 73h.
    #[error("sense data has unknown response code {0:#04x}")]
    ResponseCode(u8),
}

impl SenseFormat {
    /// Returns the format for a D_SENSE or DESC bit.
    pub fn from_bit(descriptor: bool) -> Self {
        if descriptor { Self::Descriptor } else { Self::Fixed }
    }
}

impl Sense {
    /// Encodes the sense data.
    pub fn to_bytes(&self, format: SenseFormat) -> Vec<u8> {
        match format {
            SenseFormat::Fixed => self.to_fixed().to_vec(),
            SenseFormat::Descriptor => self.to_descriptor(),
        }
    }

    fn to_fixed(self) -> [u8; FIXED_BYTES] {
        let mut out = [0; FIXED_BYTES];
        out[0] = RESPONSE_FIXED;
        if let Some(information) = self.information.and_then(|i| u32::try_from(i).ok()) {
            out[0] |= VALID;
            put(&mut out, 3, information.to_be_bytes());
        }
        out[2] = self.key as u8;
        out[7] = to_u8(FIXED_BYTES - DESCRIPTOR_HEADER_BYTES);
        if let Some(value) = self.command_specific.and_then(|v| u32::try_from(v).ok()) {
            put(&mut out, 8, value.to_be_bytes());
        }
        put(&mut out, 12, self.asc.0.to_be_bytes());
        if let Some(specific) = self.specific {
            put(&mut out, 15, specific.to_bytes());
        }
        out
    }

    fn to_descriptor(self) -> Vec<u8> {
        let mut out = vec![0; DESCRIPTOR_HEADER_BYTES];
        out[0] = RESPONSE_DESCRIPTOR;
        out[1] = self.key as u8;
        put(&mut out, 2, self.asc.0.to_be_bytes());
        if let Some(information) = self.information {
            out.extend([DESCRIPTOR_INFORMATION, 0x0a, VALID, 0]);
            out.extend(information.to_be_bytes());
        }
        if let Some(value) = self.command_specific {
            out.extend([DESCRIPTOR_COMMAND_SPECIFIC, 0x0a, 0, 0]);
            out.extend(value.to_be_bytes());
        }
        if let Some(specific) = self.specific {
            out.extend([DESCRIPTOR_SENSE_KEY_SPECIFIC, 0x06, 0, 0]);
            out.extend(specific.to_bytes());
            out.push(0);
        }
        out[7] = to_u8(out.len() - DESCRIPTOR_HEADER_BYTES);
        out
    }

    /// Decodes sense data of either format. Deferred errors (71h, 73h) decode as current ones.
    /// Unknown descriptors are skipped, and the available part of data cut after the header is used
    /// (SPC-4 4.5.1).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SenseError> {
        let response = bytes.first().ok_or(SenseError::Short(0))? & 0x7f;
        match response {
            RESPONSE_FIXED | RESPONSE_FIXED_DEFERRED => Self::from_fixed(bytes),
            RESPONSE_DESCRIPTOR | RESPONSE_DESCRIPTOR_DEFERRED => Self::from_descriptor(bytes),
            other => Err(SenseError::ResponseCode(other)),
        }
    }

    fn from_fixed(bytes: &[u8]) -> Result<Self, SenseError> {
        if bytes.len() < DESCRIPTOR_HEADER_BYTES {
            return Err(SenseError::Short(bytes.len()));
        }
        // Missing bytes read as zero: a target may send fewer than 18 (SPC-4 4.5.3).
        let mut whole = [0; FIXED_BYTES];
        let length = bytes.len().min(FIXED_BYTES).min(DESCRIPTOR_HEADER_BYTES + usize::from(bytes[7]));
        whole[..length].copy_from_slice(&bytes[..length]);
        let key = SenseKey::from_nibble(whole[2]);
        let command_specific = get_u32(&whole, 8);
        Ok(Self {
            key,
            asc: Asc(get_u16(&whole, 12)),
            information: (whole[0] & VALID != 0).then(|| u64::from(get_u32(&whole, 3))),
            command_specific: (command_specific != 0).then_some(u64::from(command_specific)),
            specific: Specific::from_bytes(key, &whole[15..18]),
        })
    }

    fn from_descriptor(bytes: &[u8]) -> Result<Self, SenseError> {
        if bytes.len() < DESCRIPTOR_HEADER_BYTES {
            return Err(SenseError::Short(bytes.len()));
        }
        let mut sense = Self::new(SenseKey::from_nibble(bytes[1]), Asc(get_u16(bytes, 2)));
        let end = bytes.len().min(DESCRIPTOR_HEADER_BYTES + usize::from(bytes[7]));
        let mut rest = &bytes[DESCRIPTOR_HEADER_BYTES..end];
        while let [kind, length, ..] = *rest {
            let Some((descriptor, next)) = rest.split_at_checked(2 + usize::from(length)) else { break };
            rest = next;
            match kind {
                DESCRIPTOR_INFORMATION if descriptor.len() >= 12 && descriptor[2] & VALID != 0 => {
                    sense.information = Some(get_u64(descriptor, 4));
                }
                DESCRIPTOR_COMMAND_SPECIFIC if descriptor.len() >= 12 => {
                    sense.command_specific = Some(get_u64(descriptor, 4));
                }
                DESCRIPTOR_SENSE_KEY_SPECIFIC if descriptor.len() >= 7 => {
                    sense.specific = Specific::from_bytes(sense.key, &descriptor[4..7]);
                }
                _ => {}
            }
        }
        Ok(sense)
    }
}

impl Specific {
    fn to_bytes(self) -> [u8; 3] {
        let (flags, value) = match self {
            Self::Field { in_cdb, byte, bit } => (if in_cdb { COMMAND_DATA } else { 0 } | bit_pointer(bit), byte),
            Self::Segment { in_descriptor, byte, bit } => {
                (if in_descriptor { SEGMENT_DESCRIPTOR } else { 0 } | bit_pointer(bit), byte)
            }
            Self::Progress(progress) => (0, progress),
        };
        let [high, low] = value.to_be_bytes();
        [SKSV | flags, high, low]
    }

    /// `bytes` holds three; their meaning depends on the sense key (SPC-4 table 37).
    fn from_bytes(key: SenseKey, bytes: &[u8]) -> Option<Self> {
        let flags = bytes[0];
        if flags & SKSV == 0 {
            return None;
        }
        let byte = get_u16(bytes, 1);
        let bit = (flags & BPV != 0).then_some(flags & 0x07);
        match key {
            SenseKey::IllegalRequest => Some(Self::Field { in_cdb: flags & COMMAND_DATA != 0, byte, bit }),
            SenseKey::CopyAborted => Some(Self::Segment { in_descriptor: flags & SEGMENT_DESCRIPTOR != 0, byte, bit }),
            SenseKey::NotReady | SenseKey::NoSense => Some(Self::Progress(byte)),
            _ => None,
        }
    }
}

fn bit_pointer(bit: Option<u8>) -> u8 {
    bit.map_or(0, |bit| BPV | (bit & 0x07))
}
