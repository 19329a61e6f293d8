//! MODE SENSE data.

use super::ModeState;
use super::format::{HEADER_6_BYTES, HEADER_10_BYTES, LONGLBA};
use super::pages::{PAGES, Page};
use crate::be::{get_u16, to_u8, to_u16};
use crate::capacity::LBA_BYTES_U32;
use crate::cdb::{CdbSize, ModeSense, PageControl};
use crate::sense::{Sense, asc};

const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;
/// WP of the DEVICE-SPECIFIC PARAMETER field (SBC-4 6.5.1).
const WP: u8 = 0x80;
/// DPOFUA: the DPO and FUA bits are supported.
const DPOFUA: u8 = 0x10;

/// Returns the mode parameters that a MODE SENSE requests, before truncation to its allocation
/// length.
pub fn mode_sense(state: &ModeState, request: &ModeSense) -> Result<Vec<u8>, Sense> {
    let pages = select_pages(request)?;
    let descriptor = if request.no_block_descriptors { Vec::new() } else { block_descriptor(state, request.long_lba) };
    let mut body = descriptor.clone();
    for page in pages {
        body.extend(page_bytes(page, state, request.control)?);
    }
    let write_protected = state.read_only || state.current.write_protect;
    let device_specific = DPOFUA | if write_protected { WP } else { 0 };
    // MODE DATA LENGTH does not count itself. All pages together are far below 255 bytes.
    let mut out = if request.size == CdbSize::Six {
        let length = to_u8(HEADER_6_BYTES - 1 + body.len());
        vec![length, 0, device_specific, to_u8(descriptor.len())]
    } else {
        let [high, low] = to_u16(HEADER_10_BYTES - 2 + body.len()).to_be_bytes();
        let long = if request.long_lba && !descriptor.is_empty() { LONGLBA } else { 0 };
        vec![high, low, 0, device_specific, long, 0, 0, to_u8(descriptor.len())]
    };
    out.extend(body);
    Ok(out)
}

/// Selects the requested pages (SPC-4 table 155): one page, a page with its subpages, or all.
fn select_pages(request: &ModeSense) -> Result<Vec<&'static Page>, Sense> {
    let is_page = |page: &&Page| request.page == ALL_PAGES || page.code == request.page;
    let is_subpage = |page: &&Page| request.subpage == ALL_SUBPAGES || page.subpage == request.subpage;
    if !PAGES.iter().any(|page| is_page(&page)) {
        return Err(Sense::invalid_cdb_field(2, Some(5)));
    }
    let pages: Vec<_> = PAGES.iter().filter(is_page).filter(is_subpage).collect();
    // All pages can be requested without subpages or with all, but not with one subpage.
    let is_odd = request.page == ALL_PAGES && !matches!(request.subpage, 0x00 | ALL_SUBPAGES);
    if pages.is_empty() || is_odd { Err(Sense::invalid_cdb_field(3, None)) } else { Ok(pages) }
}

fn page_bytes(page: &Page, state: &ModeState, control: PageControl) -> Result<Vec<u8>, Sense> {
    match control {
        PageControl::Current => Ok((page.bytes)(state, &state.current)),
        PageControl::Default => Ok((page.bytes)(state, &state.default)),
        PageControl::Changeable => {
            let mut bytes = (page.changeable)(state);
            // A mask also contains the codes and the length.
            let header = page.header_bytes();
            bytes[..header].copy_from_slice(&(page.bytes)(state, &state.current)[..header]);
            Ok(bytes)
        }
        PageControl::Saved => Err(Sense::illegal(asc::SAVING_PARAMETERS_NOT_SUPPORTED)),
    }
}

/// Encodes the mode parameter block descriptor, short (SBC-4 6.5.2.2) or long (6.5.2.3).
fn block_descriptor(state: &ModeState, long: bool) -> Vec<u8> {
    let block_bytes = LBA_BYTES_U32.to_be_bytes();
    if long {
        return [state.blocks.to_be_bytes().as_slice(), &[0; 4], &block_bytes].concat();
    }
    let blocks = u32::try_from(state.blocks).unwrap_or(u32::MAX).to_be_bytes();
    // The block length has three bytes; the first of the four is zero, the reserved byte.
    [blocks, block_bytes].concat()
}

/// Returns page `code` of MODE SENSE data for a CDB of `size`, for the initiator; `None` if it is
/// missing or cut.
pub fn find_page(data: &[u8], size: CdbSize, code: u8) -> Option<&[u8]> {
    let (header_bytes, descriptor_bytes) = if size == CdbSize::Six {
        (HEADER_6_BYTES, usize::from(*data.get(3)?))
    } else {
        (HEADER_10_BYTES, usize::from(get_u16(data.get(..HEADER_10_BYTES)?, 6)))
    };
    let mut rest = data.get(header_bytes + descriptor_bytes..)?;
    while let [first, second, ..] = *rest {
        let has_subpage = first & 0x40 != 0;
        let length = if has_subpage { 4 + usize::from(get_u16(rest.get(..4)?, 2)) } else { 2 + usize::from(second) };
        let (page, next) = rest.split_at_checked(length)?;
        if first & 0x7f == code {
            return Some(page);
        }
        rest = next;
    }
    None
}
