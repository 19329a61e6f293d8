//! The mode pages: one table for what they hold, which bits hosts may change, and how a change is taken up.

use super::{ModeSettings, ModeState};
use crate::provisioning::Thresholds;

/// WCE, byte 2 of the Caching page.
const WCE: u8 = 0x04;
/// D_SENSE, byte 2 of the Control page.
const D_SENSE: u8 = 0x04;
/// GLTSD, byte 2 of the Control page: there are no log parameters to save.
const GLTSD: u8 = 0x02;
/// TAS, byte 5 of the Control page: commands that another nexus aborts are answered TASK ABORTED.
const TAS: u8 = 0x40;
/// SWP, byte 4 of the Control page.
const SWP: u8 = 0x08;
/// QUEUE ALGORITHM MODIFIER 1h, byte 3 of the Control page: commands may be reordered. QERR is 0: other commands go on.
const UNRESTRICTED_REORDERING: u8 = 0x10;
/// AWRE and ARRE, byte 2 of the Read-Write Error Recovery page: bad blocks are moved without asking.
const AWRE_ARRE: u8 = 0xc0;
/// DEXCPT, byte 2 of the Informational Exceptions Control page: no exceptions are reported that way.
const DEXCPT: u8 = 0x08;

/// One mode page.
pub(super) struct Page {
    /// PAGE CODE.
    pub(super) code: u8,
    /// SUBPAGE CODE; zero for a page without one.
    pub(super) subpage: u8,
    /// Its bytes under some settings, from the page code on.
    pub(super) bytes: fn(&ModeState, &ModeSettings) -> Vec<u8>,
    /// The bits that hosts may change: the same length, header included and zero.
    pub(super) changeable: fn(&ModeState) -> Vec<u8>,
    /// Takes up the changeable bits of new bytes.
    pub(super) apply: fn(&[u8], &mut ModeSettings),
}

/// The pages, in ascending order of their codes and subpage codes.
pub(super) const PAGES: &[Page] = &[
    // Read-Write Error Recovery (SBC-4 6.5.8).
    Page { bytes: |_, _| filled(0x01, 12, &[(2, AWRE_ARRE)]), ..fixed(0x01, 0x00, |_| vec![0; 12]) },
    // Disconnect-Reconnect (SPC-4 7.5.9): iSCSI negotiates its bursts at login instead.
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

/// A page of which hosts change nothing, without its bytes.
const fn fixed(code: u8, subpage: u8, changeable: fn(&ModeState) -> Vec<u8>) -> Page {
    Page { code, subpage, bytes: |_, _| Vec::new(), changeable, apply: |_, _| {} }
}

impl Page {
    /// The page of a code and a subpage code.
    pub(super) fn find(code: u8, subpage: u8) -> Option<&'static Self> {
        PAGES.iter().find(|page| (page.code, page.subpage) == (code, subpage))
    }

    /// Bytes before what the page holds: page code and length, and between them the subpage code where there is one.
    pub(super) fn header_bytes(&self) -> usize {
        if self.subpage == 0 { 2 } else { 4 }
    }
}

/// A page of `length` bytes with its header and the bytes named; all others are zero. PS is 0: nothing is saved.
fn filled(code: u8, length: usize, bytes: &[(usize, u8)]) -> Vec<u8> {
    let mut page = mask(length, bytes);
    page[0] = code;
    page[1] = (length - 2) as u8;
    page
}

fn mask(length: usize, bytes: &[(usize, u8)]) -> Vec<u8> {
    let mut page = vec![0; length];
    for (at, byte) in bytes {
        page[*at] = *byte;
    }
    page
}
