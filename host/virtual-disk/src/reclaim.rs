//! The number of blocks per iteration of `esxcli storage vmfs unmap`.

use crate::transfer::EsxiRelease;

/// The default number of blocks per iteration.
pub const DEFAULT_UNIT: u64 = 200;

/// The space of a datastore, in its blocks of 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatastoreSpace {
    /// Blocks available for files, used or free.
    pub total: u64,
    /// Free blocks.
    pub free: u64,
}

impl DatastoreSpace {
    /// Returns whether at least 75 % are in use.
    pub fn is_three_quarters_full(&self) -> bool {
        self.total.saturating_sub(self.free).saturating_mul(4) >= self.total.saturating_mul(3)
    }
}

/// The block counts that a host accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountRule {
    /// Any count: ESXi 5.5 before Update 2.
    Any,
    /// Since 5.5 Patch 3: at most 1 % of the free blocks, and only the default on a datastore that
    /// is 75 % full. Another count is silently replaced by the default.
    OnePercent,
}

/// Returns the number of blocks per iteration.
pub fn unit(asked: Option<u64>, space: DatastoreSpace, rule: CountRule) -> u64 {
    let asked = asked.unwrap_or(DEFAULT_UNIT).max(1);
    match rule {
        CountRule::Any => asked,
        CountRule::OnePercent if space.is_three_quarters_full() || asked > space.free / 100 => DEFAULT_UNIT,
        CountRule::OnePercent => asked,
    }
}

/// Returns the blocks of the balloon file of `vmkfstools -y`: this percentage of the free blocks,
/// at most 99 %.
pub fn balloon_blocks(percent: u32, space: DatastoreSpace) -> u64 {
    let part = u128::from(space.free) * u128::from(percent.min(99)) / 100;
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Formats the line that a host logs for each iteration.
pub fn log_line(blocks: u64, uuid: &str) -> String {
    format!("Unmap: Async Unmapped {blocks} blocks from volume {uuid}")
}

/// Returns the block count of a log line, if it refers to this datastore.
pub fn logged_blocks(line: &str, uuid: &str) -> Option<u64> {
    let (blocks, volume) = line.split_once("Unmap: Async Unmapped ")?.1.split_once(" blocks from volume ")?;
    blocks.parse().ok().filter(|_| volume == uuid)
}

/// Returns whether the release reclaims space in the background and lacks `vmkfstools -y`.
pub fn has_automatic_unmap(release: EsxiRelease) -> bool {
    release == EsxiRelease::Esxi6
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TB: u64 = 1 << 20;

    #[test]
    fn unmap_unit_of_one_terabyte_matches_the_guide() {
        let space = DatastoreSpace { total: 4 * TB, free: TB };
        let unit = |asked| unit(Some(asked), DatastoreSpace { total: 2 * TB, ..space }, CountRule::OnePercent);
        assert_eq!(unit(10_485), 10_485, "1 % of 1 048 576, rounded down");
        assert_eq!(unit(10_486), 200, "anything larger is overridden");
        assert_eq!(unit(60_000), 200);
    }

    #[test]
    fn datastore_75_percent_full_uses_the_default_unit() {
        let at = |free| unit(Some(300), DatastoreSpace { total: 4 * TB, free }, CountRule::OnePercent);
        assert_eq!(at(TB), 200, "exactly 75 %");
        assert_eq!(at(TB + 1), 300, "one block less");
    }

    #[test]
    fn any_unmap_unit_is_accepted_before_the_patch() {
        let space = DatastoreSpace { total: 4 * TB, free: 1000 };
        assert_eq!(unit(Some(256_000), space, CountRule::Any), 256_000);
        assert_eq!(unit(None, space, CountRule::Any), 200);
    }

    #[test]
    fn balloon_takes_at_most_99_percent() {
        let space = DatastoreSpace { total: 1000, free: 1000 };
        assert_eq!([60, 99, 100].map(|percent| balloon_blocks(percent, space)), [600, 990, 990]);
    }

    #[test]
    fn unmap_log_line_matches_the_guide() {
        let line = "Unmap: Async Unmapped 5000 blocks from volume 545d6633-4e026dce-d8b2-90e2ba392174";
        assert_eq!(log_line(5000, "545d6633-4e026dce-d8b2-90e2ba392174"), line);
    }

    proptest! {
        #[test]
        fn unmap_unit_is_the_request_or_the_default(asked in 1u64..1 << 24, total in 1u64..1 << 24, free in 0u64..1 << 24) {
            let space = DatastoreSpace { total, free: free.min(total) };
            let taken = unit(Some(asked), space, CountRule::OnePercent);
            prop_assert!(taken == asked || taken == DEFAULT_UNIT);
            prop_assert!(taken <= DEFAULT_UNIT || taken * 100 <= space.free);
        }
    }
}
