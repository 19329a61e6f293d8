//! Thin provisioning: how its resources are counted, and the soft thresholds of which hosts are told (SBC-4 4.7.3.8,
//! 6.5.7).
//!
//! Two resources have a threshold each. What the *array* has left: shared with all its volumes, told when it gets less
//! ("armed decreasing"). What the *volume* has mapped: its own, told when it gets more ("armed increasing").

use crate::be::put;
use crate::sense::{Sense, asc};

/// THRESHOLD EXPONENT of VPD page B2h: resources are counted in threshold sets of 2^11 blocks, which is 1 MiB. 32 bits of
/// them are 4 PiB.
pub const THRESHOLD_EXPONENT: u8 = 11;
/// Bytes of a threshold set.
pub const THRESHOLD_SET_BYTES: u64 = 512 << THRESHOLD_EXPONENT;

/// A resource, by its number in threshold descriptors and in log page 0Ch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Resource {
    /// Available LBA mapping resources: what the array has left.
    Available = 0x01,
    /// Used LBA mapping resources: what the volume has mapped.
    Used = 0x02,
}

/// Whole threshold sets in `bytes`; what 32 bits cannot count is told as the most that they can.
pub fn threshold_sets(bytes: u64) -> u32 {
    u32::try_from(bytes / THRESHOLD_SET_BYTES).unwrap_or(u32::MAX)
}

/// The soft thresholds of a logical unit, in threshold sets; `None` where nobody wants to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thresholds {
    /// Told when no more than this is [`Resource::Available`].
    pub available: Option<u32>,
    /// Told when this much is [`Resource::Used`].
    pub used: Option<u32>,
}

impl Thresholds {
    /// PAGE CODE of the Logical Block Provisioning mode page.
    pub const PAGE: u8 = 0x1c;
    /// SUBPAGE CODE of that page.
    pub const SUBPAGE: u8 = 0x02;
    /// Length of that page with both descriptors.
    pub const PAGE_BYTES: usize = FIRST_DESCRIPTOR + 2 * DESCRIPTOR_BYTES;

    /// The mode page, from its page code on. SITUA is 0: every nexus is told.
    pub(crate) fn page(&self) -> Vec<u8> {
        let mut page = vec![0; Self::PAGE_BYTES];
        page[0] = crate::mode::format::SPF | Self::PAGE;
        page[1] = Self::SUBPAGE;
        put(&mut page, 2, ((Self::PAGE_BYTES - 4) as u16).to_be_bytes());
        for (resource, count) in [(Resource::Available, self.available), (Resource::Used, self.used)] {
            let at = resource.descriptor_at();
            page[at] = if count.is_some() { ENABLED } else { 0 } | resource.arming();
            page[at + 1] = resource as u8;
            put(&mut page, at + 4, count.unwrap_or(0).to_be_bytes());
        }
        page
    }
}

/// Where the threshold descriptors of the mode page begin.
const FIRST_DESCRIPTOR: usize = 16;
const DESCRIPTOR_BYTES: usize = 8;
/// ENABLED, byte 0 of a threshold descriptor; THRESHOLD TYPE is 000b, a soft threshold that counts sets.
const ENABLED: u8 = 0x80;

impl Resource {
    /// THRESHOLD ARMING: 000b is armed decreasing, 001b armed increasing.
    fn arming(self) -> u8 {
        match self {
            Self::Available => 0,
            Self::Used => 1,
        }
    }

    /// Offset of its threshold descriptor in the mode page.
    fn descriptor_at(self) -> usize {
        match self {
            Self::Available => FIRST_DESCRIPTOR,
            Self::Used => FIRST_DESCRIPTOR + DESCRIPTOR_BYTES,
        }
    }

    /// What hosts are told when its threshold is reached: INFORMATION is the place of the threshold's descriptor in the
    /// mode page (SBC-4 4.7.3.8.6).
    pub fn threshold_reached(self) -> Sense {
        Sense::unit_attention(asc::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED)
            .with_information(self.descriptor_at() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_whole_mebibytes() {
        assert_eq!(THRESHOLD_SET_BYTES, 1 << 20);
        assert_eq!(threshold_sets((5 << 20) - 1), 4);
        assert_eq!(threshold_sets(u64::MAX), u32::MAX);
    }

    #[test]
    fn the_news_points_at_the_descriptor_of_its_threshold() {
        let page = Thresholds { available: Some(5), used: Some(6) }.page();
        for (resource, count) in [(Resource::Available, 5), (Resource::Used, 6)] {
            let sense = resource.threshold_reached();
            let at = sense.information.expect("an offset") as usize;
            assert_eq!((sense.key as u8, sense.asc.0), (0x6, 0x3807));
            assert_eq!((page[at + 1], page[at + 7]), (resource as u8, count));
        }
    }
}
