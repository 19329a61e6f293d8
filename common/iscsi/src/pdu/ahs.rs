//! Additional header segments (RFC 7143 11.2.2): the extended CDB, and the expected read length of
//! a bidirectional command.

use bytes::{BufMut, Bytes, BytesMut};

use super::wire::{AFTER_BHS, PduError, padding};
use crate::length::len_u16;

/// Longest accepted CDB in bytes: the limit of SPC-5 variable-length CDBs.
pub const MAX_CDB_LEN: usize = 260;

const EXTENDED_CDB: u8 = 0x01;
const BIDIRECTIONAL_READ_LENGTH: u8 = 0x02;

/// The contents of the additional header segments of a SCSI Command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AdditionalHeaders {
    /// CDB bytes from byte 16 on.
    pub(super) extended_cdb: Bytes,
    /// Bidirectional Read Expected Data Transfer Length.
    pub(super) expected_read: Option<u32>,
}

/// Decodes a list of additional header segments.
///
/// RFC 7143 11.2.2.2: AHSLength contains the effective length in bytes of the AHS, excluding
/// AHSType and AHSLength and padding, if any.
pub(super) fn load(ahs: &Bytes) -> Result<AdditionalHeaders, PduError> {
    let mut additional = AdditionalHeaders::default();
    let mut at = 0usize;
    while at < ahs.len() {
        let here = PduError::Field { byte: AFTER_BHS.saturating_add(len_u16(at)) };
        // TotalAHSLength counts words, so a segment header is never truncated.
        let header = ahs.get(at..at + 4).ok_or(here)?;
        let length = usize::from(u16::from_be_bytes([header[0], header[1]]));
        let end = at + 3 + length;
        if length == 0 || end > ahs.len() {
            return Err(here);
        }
        match header[2] {
            EXTENDED_CDB if 16 + length - 1 <= MAX_CDB_LEN => additional.extended_cdb = ahs.slice(at + 4..end),
            BIDIRECTIONAL_READ_LENGTH if length == 5 => {
                let v = &ahs[at + 4..end];
                additional.expected_read = Some(u32::from_be_bytes([v[0], v[1], v[2], v[3]]));
            }
            _ => return Err(here),
        }
        at = end + padding(end);
    }
    Ok(additional)
}

/// Encodes the additional header segments of a SCSI Command: the CDB bytes after the first 16, and
/// the read length of a bidirectional command.
pub fn encode_ahs(extended_cdb: &[u8], expected_read: Option<u32>) -> Bytes {
    let mut out = BytesMut::new();
    if !extended_cdb.is_empty() {
        out.put_u16(len_u16(extended_cdb.len() + 1));
        out.put_u8(EXTENDED_CDB);
        out.put_u8(0);
        out.put_slice(extended_cdb);
        out.put_bytes(0, padding(out.len()));
    }
    if let Some(length) = expected_read {
        out.put_u16(5);
        out.put_u8(BIDIRECTIONAL_READ_LENGTH);
        out.put_u8(0);
        out.put_u32(length);
    }
    out.freeze()
}
