//! LOG SENSE data (SPC-4 6.8, 7.3; SBC-4 6.4).

use crate::be::to_u16;
use crate::cdb::LogSense;
use crate::provisioning::Resource;
use crate::sense::Sense;

/// Page 00h: the supported pages; with subpage FFh, also the subpages.
const SUPPORTED_PAGES: u8 = 0x00;
/// Page 0Ch: thin provisioning (SBC-4 6.4.5).
pub const LOGICAL_BLOCK_PROVISIONING: u8 = 0x0c;
const NO_SUBPAGE: u8 = 0x00;
const ALL_SUBPAGES: u8 = 0xff;
/// DS, byte 0 of a page: its parameters are not saved.
const DS: u8 = 0x80;
/// SPF, byte 0 of a page: it has a subpage code.
const SPF: u8 = 0x40;
/// FORMAT AND LINKING 11b of a parameter control byte: a list in binary (SPC-4 7.3.2.2.2.5).
const BINARY_LIST: u8 = 0x03;
/// SCOPE: dedicated to the logical unit, or possibly shared with others.
const DEDICATED: u8 = 0x01;
const SHARED: u8 = 0x02;

/// The values of log page 0Ch, in threshold sets ([`crate::provisioning::THRESHOLD_SET_BYTES`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Free space of the array, shared by all volumes.
    pub available: u32,
    /// Mapped space of the volume.
    pub used: u32,
}

/// Returns the log page that a LOG SENSE requests, before truncation to its allocation length.
pub fn log_sense(resources: &Resources, request: &LogSense) -> Result<Vec<u8>, Sense> {
    match (request.page, request.subpage) {
        (SUPPORTED_PAGES, NO_SUBPAGE) => list_of_pages(request, DS, &[SUPPORTED_PAGES, LOGICAL_BLOCK_PROVISIONING]),
        (SUPPORTED_PAGES, ALL_SUBPAGES) => {
            let pairs = [SUPPORTED_PAGES, NO_SUBPAGE, SUPPORTED_PAGES, ALL_SUBPAGES];
            let provisioning = [LOGICAL_BLOCK_PROVISIONING, NO_SUBPAGE];
            list_of_pages(request, DS | SPF, &[&pairs[..], &provisioning[..]].concat())
        }
        (LOGICAL_BLOCK_PROVISIONING, NO_SUBPAGE | ALL_SUBPAGES) => provisioning(resources, request),
        (SUPPORTED_PAGES | LOGICAL_BLOCK_PROVISIONING, _) => Err(Sense::invalid_cdb_field(3, None)),
        _ => Err(Sense::invalid_cdb_field(2, Some(5))),
    }
}

/// Encodes a page of codes. It has no parameters, so PARAMETER POINTER must be zero.
fn list_of_pages(request: &LogSense, flags: u8, codes: &[u8]) -> Result<Vec<u8>, Sense> {
    if request.pointer != 0 {
        return Err(Sense::invalid_cdb_field(5, None));
    }
    Ok(page(flags | SUPPORTED_PAGES, request.subpage, codes))
}

/// Encodes the parameters from PARAMETER POINTER on. A pointer after the last one is refused (SPC-4
/// 6.8).
fn provisioning(resources: &Resources, request: &LogSense) -> Result<Vec<u8>, Sense> {
    let parameters = [(Resource::Available, resources.available, SHARED), (Resource::Used, resources.used, DEDICATED)];
    let mut body = Vec::new();
    for (resource, count, scope) in parameters {
        if resource as u16 >= request.pointer {
            body.extend((resource as u16).to_be_bytes());
            body.extend([BINARY_LIST, 8]);
            body.extend(count.to_be_bytes());
            body.extend([scope, 0, 0, 0]);
        }
    }
    if body.is_empty() {
        return Err(Sense::invalid_cdb_field(5, None));
    }
    Ok(page(DS | LOGICAL_BLOCK_PROVISIONING, NO_SUBPAGE, &body))
}

fn page(first: u8, subpage: u8, body: &[u8]) -> Vec<u8> {
    let [high, low] = to_u16(body.len()).to_be_bytes();
    [&[first, subpage, high, low], body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOURCES: Resources = Resources { available: 0x0102_0304, used: 5 };

    fn ask(page: u8, subpage: u8, pointer: u16) -> Result<Vec<u8>, Sense> {
        log_sense(&RESOURCES, &LogSense { page, subpage, pointer, allocation: u16::MAX })
    }

    #[test]
    fn golden_provisioning_page() {
        let available = [0, 1, 0x03, 8, 1, 2, 3, 4, 0x02, 0, 0, 0];
        let used = [0, 2, 0x03, 8, 0, 0, 0, 5, 0x01, 0, 0, 0];
        assert_eq!(ask(0x0c, 0, 0), Ok([&[0x8c, 0, 0, 24][..], &available, &used].concat()));
        assert_eq!(ask(0x0c, 0xff, 1), ask(0x0c, 0, 0));
        assert_eq!(ask(0x0c, 0, 2), Ok([&[0x8c, 0, 0, 12][..], &used].concat()));
    }

    #[test]
    fn golden_lists_of_log_pages() {
        assert_eq!(ask(0, 0, 0), Ok(vec![0x80, 0, 0, 2, 0x00, 0x0c]));
        assert_eq!(ask(0, 0xff, 0), Ok(vec![0xc0, 0xff, 0, 6, 0x00, 0x00, 0x00, 0xff, 0x0c, 0x00]));
    }

    #[test]
    fn unsupported_log_pages_are_refused() {
        assert_eq!(ask(0x0c, 0, 3), Err(Sense::invalid_cdb_field(5, None)));
        assert_eq!(ask(0, 0, 1), Err(Sense::invalid_cdb_field(5, None)));
        assert_eq!(ask(0x0c, 1, 0), Err(Sense::invalid_cdb_field(3, None)));
        assert_eq!(ask(0, 1, 0), Err(Sense::invalid_cdb_field(3, None)));
        assert_eq!(ask(0x0d, 0, 0), Err(Sense::invalid_cdb_field(2, Some(5))));
    }
}
