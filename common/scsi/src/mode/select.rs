//! MODE SELECT parameter lists. A list is applied entirely or not at all.

use super::format::{HEADER_6_BYTES, HEADER_10_BYTES, LONG_DESCRIPTOR_BYTES, LONGLBA, SHORT_DESCRIPTOR_BYTES, SPF};
use super::pages::Page;
use super::{ModeSettings, ModeState};
use crate::be::{bit_number, get_u16, get_u24, get_u32, get_u64, to_u16};
use crate::cdb::CdbSize;
use crate::sense::Sense;
use types::LBA_BYTES;

/// PS, reserved in MODE SELECT.
const PS: u8 = 0x80;

/// Returns the settings after a MODE SELECT. An empty list changes nothing (SPC-4 6.11).
pub fn mode_select(state: &ModeState, size: CdbSize, page_format: bool, list: &[u8]) -> Result<ModeSettings, Sense> {
    let mut settings = state.current;
    if list.is_empty() {
        return Ok(settings);
    }
    // Without PF the list has a vendor-specific format, and none is defined.
    if !page_format {
        return Err(Sense::invalid_cdb_field(1, Some(4)));
    }
    let mut at = check_header(state, size, list)?;
    while at < list.len() {
        at = take_page(state, list, at, &mut settings)?;
    }
    Ok(settings)
}

/// Checks the header and the block descriptor; returns the offset of the pages. MODE DATA LENGTH is
/// reserved, and the DEVICE-SPECIFIC PARAMETER is ignored (SBC-4 6.5.1).
fn check_header(state: &ModeState, size: CdbSize, list: &[u8]) -> Result<usize, Sense> {
    let six = size == CdbSize::Six;
    let header_bytes = if six { HEADER_6_BYTES } else { HEADER_10_BYTES };
    let Some((header, rest)) = list.split_at_checked(header_bytes) else {
        return Err(Sense::parameter_list_length());
    };
    let (medium_at, length_at) = if six { (1, 3) } else { (2, 6) };
    if header[medium_at] != 0 {
        return Err(Sense::invalid_parameter(to_u16(medium_at), None));
    }
    let long = !six && header[4] & LONGLBA != 0;
    let length = if six { usize::from(header[3]) } else { usize::from(get_u16(header, 6)) };
    if length == 0 {
        return Ok(header_bytes);
    }
    if length != if long { LONG_DESCRIPTOR_BYTES } else { SHORT_DESCRIPTOR_BYTES } {
        return Err(Sense::invalid_parameter(length_at, None));
    }
    let descriptor = rest.get(..length).ok_or(Sense::parameter_list_length())?;
    check_descriptor(state, long, descriptor, to_u16(header_bytes))?;
    Ok(header_bytes + length)
}

/// Checks a block descriptor. It may repeat capacity and block length but not change them. Zero
/// blocks or all ones leave the capacity unchanged (SBC-4 6.5.2.2).
fn check_descriptor(state: &ModeState, long: bool, descriptor: &[u8], at: u16) -> Result<(), Sense> {
    let (blocks, all_ones, block_bytes, block_bytes_at) = if long {
        (get_u64(descriptor, 0), u64::MAX, get_u32(descriptor, 12), 12)
    } else {
        (u64::from(get_u32(descriptor, 0)), u64::from(u32::MAX), get_u24(descriptor, 5), 5)
    };
    if blocks != 0 && blocks != all_ones && blocks != state.blocks {
        return Err(Sense::invalid_parameter(at, None));
    }
    if u64::from(block_bytes) != LBA_BYTES {
        return Err(Sense::invalid_parameter(at + block_bytes_at, None));
    }
    Ok(())
}

/// Checks the page at `at` against the changeable bits and applies it; returns the offset of the
/// next page.
fn take_page(state: &ModeState, list: &[u8], at: usize, settings: &mut ModeSettings) -> Result<usize, Sense> {
    let field = |offset: usize, bit| Sense::invalid_parameter(to_u16(at + offset), bit);
    let [first, second, ..] = list[at..] else { return Err(Sense::parameter_list_length()) };
    if first & PS != 0 {
        return Err(field(0, Some(7)));
    }
    let code = first & !SPF;
    let page = match first & SPF != 0 {
        false => Page::find(code, 0x00).ok_or(field(0, Some(5)))?,
        // A page without subpages does not exist in the subpage format, so the SPF bit is in error.
        true if second == 0 => return Err(field(1, None)),
        true => Page::find(code, second).ok_or(field(0, Some(6)))?,
    };
    let (now, changeable) = ((page.bytes)(state, &state.current), (page.changeable)(state));
    let header = page.header_bytes();
    let length = list.get(at..at + header).ok_or(Sense::parameter_list_length())?;
    // Page code and subpage code were compared above; only the length can differ.
    if length[1..] != now[1..header] {
        return Err(field(header / 2, None));
    }
    let new = list.get(at..at + now.len()).ok_or(Sense::parameter_list_length())?;
    for (offset, byte) in new.iter().enumerate().skip(header) {
        let fixed = (byte ^ now[offset]) & !changeable[offset];
        if fixed != 0 {
            return Err(field(offset, Some(bit_number(fixed.ilog2()))));
        }
    }
    (page.apply)(new, settings);
    Ok(at + now.len())
}
