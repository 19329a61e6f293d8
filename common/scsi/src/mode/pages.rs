//! The mode pages: one table of their content, the bits that hosts may change, and how a change is
//! applied.

use super::{ModeSettings, ModeState};
use crate::be::to_u8;
use crate::provisioning::Thresholds;

/// WCE, byte 2 of the Caching page.
const WCE: u8 = 0x04;
/// D_SENSE, byte 2 of the Control page.
const D_SENSE: u8 = 0x04;
/// GLTSD, byte 2 of the Control page: no log parameters can be saved.
const GLTSD: u8 = 0x02;
/// TAS, byte 5 of the Control page: commands aborted by another nexus end with TASK ABORTED.
const TAS: u8 = 0x40;
/// SWP, byte 4 of the Control page.
const SWP: u8 = 0x08;
/// QUEUE ALGORITHM MODIFIER 1h, byte 3 of the Control page: commands may be reordered. QERR is 0:
/// after an error, other commands continue.
const UNRESTRICTED_REORDERING: u8 = 0x10;
/// AWRE and ARRE, byte 2 of the Read-Write Error Recovery page: bad blocks are reallocated
/// automatically.
const AWRE_ARRE: u8 = 0xc0;
/// DEXCPT, byte 2 of the Informational Exceptions Control page: exceptions are not reported.
const DEXCPT: u8 = 0x08;

/// One mode page.
pub(super) struct Page {
    /// PAGE CODE.
    pub(super) code: u8,
    /// SUBPAGE CODE, or zero.
    pub(super) subpage: u8,
    /// Returns the bytes of the page for the given settings, starting at the page code.
    pub(super) bytes: fn(&ModeState, &ModeSettings) -> Vec<u8>,
    /// Returns the mask of the bits that hosts may change, of equal length; zero in the header.
    pub(super) changeable: fn(&ModeState) -> Vec<u8>,
    /// Applies the changeable bits of new bytes.
    pub(super) apply: fn(&[u8], &mut ModeSettings),
}

/// The pages, in ascending order of their codes and subpage codes.
pub(super) const PAGES: &[Page] = &[
    // Read-Write Error Recovery (SBC-4 6.5.8).
    Page { bytes: |_, _| filled(0x01, 12, &[(2, AWRE_ARRE)]), ..fixed(0x01, 0x00, |_| vec![0; 12]) },
    // Disconnect-Reconnect (SPC-4 7.5.9): iSCSI negotiates burst lengths at login instead.
    Page { bytes: |_, _| filled(0x02, 16, &[]), ..fixed(0x02, 0x00, |_| vec![0; 16]) },
    // Caching (SBC-4 6.5.6).
    Page {
        code: 0x08,
        subpage: 0x00,
        bytes: |_, settings| filled(0x08, 20, &[(2, if settings.write_cache { WCE } else { 0 })]),
        changeable: |state| mask(20, &[(2, if state.write_cache_changeable { WCE } else { 0 })]),
        apply: |bytes, settings| settings.write_cache = bytes[2] & WCE != 0,
    },
    // Control (SPC-4 7.5.8).
    Page {
        code: 0x0a,
        subpage: 0x00,
        bytes: |_, settings| {
            let d_sense = if settings.descriptor_sense { D_SENSE } else { 0 };
            let swp = if settings.write_protect { SWP } else { 0 };
            filled(0x0a, 12, &[(2, GLTSD | d_sense), (3, UNRESTRICTED_REORDERING), (4, swp), (5, TAS)])
        },
        changeable: |_| mask(12, &[(2, D_SENSE), (4, SWP)]),
        apply: |bytes, settings| {
            settings.descriptor_sense = bytes[2] & D_SENSE != 0;
            settings.write_protect = bytes[4] & SWP != 0;
        },
    },
    // Informational Exceptions Control (SPC-4 7.5.11).
    Page { bytes: |_, _| filled(0x1c, 12, &[(2, DEXCPT)]), ..fixed(0x1c, 0x00, |_| vec![0; 12]) },
    // Logical Block Provisioning (SBC-4 6.5.7): administrators set the thresholds, hosts read them.
    Page {
        bytes: |state, _| state.thresholds.page(),
        ..fixed(Thresholds::PAGE, Thresholds::SUBPAGE, |_| vec![0; Thresholds::PAGE_BYTES])
    },
];

/// Defines a page that hosts cannot change, without its bytes.
const fn fixed(code: u8, subpage: u8, changeable: fn(&ModeState) -> Vec<u8>) -> Page {
    Page { code, subpage, bytes: |_, _| Vec::new(), changeable, apply: |_, _| {} }
}

impl Page {
    /// Returns the page of a code and a subpage code.
    pub(super) fn find(code: u8, subpage: u8) -> Option<&'static Self> {
        PAGES.iter().find(|page| (page.code, page.subpage) == (code, subpage))
    }

    /// Returns the length of the header: page code, subpage code if there is one, and length.
    pub(super) fn header_bytes(&self) -> usize {
        if self.subpage == 0 { 2 } else { 4 }
    }
}

/// Returns a page of `length` bytes with its header and the given bytes; all others are zero. PS is
/// 0: not saved.
fn filled(code: u8, length: usize, bytes: &[(usize, u8)]) -> Vec<u8> {
    let mut page = mask(length, bytes);
    page[0] = code;
    page[1] = to_u8(length - 2);
    page
}

fn mask(length: usize, bytes: &[(usize, u8)]) -> Vec<u8> {
    let mut page = vec![0; length];
    for (at, byte) in bytes {
        page[*at] = *byte;
    }
    page
}
