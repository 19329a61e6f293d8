//! Thin provisioning: resource counts and the soft thresholds reported to hosts (SBC-4 4.7.3.8,
//! 6.5.7).
//!
//! Two resources have a threshold each. The available space of the *array* is shared by all
//! volumes; its threshold is reported when the value falls ("armed decreasing"). The mapped space
//! of the *volume* belongs to it alone; its threshold is reported when the value rises ("armed
//! increasing").

use crate::be::{put, to_u16};
use crate::sense::{Sense, asc};

/// THRESHOLD EXPONENT of VPD page B2h: resources are counted in threshold sets of 2^11 blocks,
/// which is 1 MiB. A 32-bit count covers 4 PiB.
pub const THRESHOLD_EXPONENT: u8 = 11;
/// Bytes of a threshold set.
pub const THRESHOLD_SET_BYTES: u64 = 512 << THRESHOLD_EXPONENT;

/// A resource, by its number in threshold descriptors and in log page 0Ch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Resource {
    /// Available LBA mapping resources: the free space of the array.
    Available = 0x01,
    /// Used LBA mapping resources: the mapped space of the volume.
    Used = 0x02,
}

/// Returns the whole threshold sets in `bytes`, at most the largest 32-bit number.
pub fn threshold_sets(bytes: u64) -> u32 {
    u32::try_from(bytes / THRESHOLD_SET_BYTES).unwrap_or(u32::MAX)
}

/// The soft thresholds of a logical unit, in threshold sets; `None` disables a threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thresholds {
    /// Reached when [`Resource::Available`] falls to this value.
    pub available: Option<u32>,
    /// Reached when [`Resource::Used`] rises to this value.
    pub used: Option<u32>,
}

impl Thresholds {
    /// PAGE CODE of the Logical Block Provisioning mode page.
    pub const PAGE: u8 = 0x1c;
    /// SUBPAGE CODE of that page.
    pub const SUBPAGE: u8 = 0x02;
    /// Length of that page with both descriptors.
    pub const PAGE_BYTES: usize = FIRST_DESCRIPTOR + 2 * DESCRIPTOR_BYTES;

    /// Returns the mode page, starting at its page code. SITUA is 0: every nexus is notified.
    pub(crate) fn page(&self) -> Vec<u8> {
        let mut page = vec![0; Self::PAGE_BYTES];
        page[0] = crate::mode::format::SPF | Self::PAGE;
        page[1] = Self::SUBPAGE;
        put(&mut page, 2, to_u16(Self::PAGE_BYTES - 4).to_be_bytes());
        for (resource, count) in [(Resource::Available, self.available), (Resource::Used, self.used)] {
            let at = resource.descriptor_at();
            page[at] = if count.is_some() { ENABLED } else { 0 } | resource.arming();
            page[at + 1] = resource as u8;
            put(&mut page, at + 4, count.unwrap_or(0).to_be_bytes());
        }
        page
    }
}

/// Offset of the threshold descriptors in the mode page.
const FIRST_DESCRIPTOR: usize = 16;
const DESCRIPTOR_BYTES: usize = 8;
/// ENABLED, byte 0 of a threshold descriptor; THRESHOLD TYPE is 000b, a soft threshold that counts
/// sets.
const ENABLED: u8 = 0x80;

impl Resource {
    /// THRESHOLD ARMING: 000b is armed decreasing, 001b armed increasing.
    fn arming(self) -> u8 {
        match self {
            Self::Available => 0,
            Self::Used => 1,
        }
    }

    /// Returns the offset of its threshold descriptor in the mode page.
    fn descriptor_at(self) -> usize {
        match self {
            Self::Available => FIRST_DESCRIPTOR,
            Self::Used => FIRST_DESCRIPTOR + DESCRIPTOR_BYTES,
        }
    }

    /// Returns the unit attention for a reached threshold. INFORMATION is the offset of its
    /// descriptor in the mode page (SBC-4 4.7.3.8.6).
    pub fn threshold_reached(self) -> Sense {
        Sense::unit_attention(asc::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED)
            .with_information(self.descriptor_at() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_sets_are_whole_mebibytes() {
        assert_eq!(THRESHOLD_SET_BYTES, 1 << 20);
        assert_eq!(threshold_sets((5 << 20) - 1), 4);
        assert_eq!(threshold_sets(u64::MAX), u32::MAX);
    }

    #[test]
    fn threshold_attention_points_at_its_descriptor() {
        let page = Thresholds { available: Some(5), used: Some(6) }.page();
        for (resource, count) in [(Resource::Available, 5), (Resource::Used, 6)] {
            let sense = resource.threshold_reached();
            let at = sense.information.and_then(|at| usize::try_from(at).ok()).expect("an offset");
            assert_eq!((sense.key as u8, sense.asc.0), (0x6, 0x3807));
            assert_eq!((page[at + 1], page[at + 7]), (resource as u8, count));
        }
    }
}
