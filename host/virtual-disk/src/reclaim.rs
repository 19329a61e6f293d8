//! How many blocks `esxcli storage vmfs unmap` takes at a time.

use crate::transfer::Release;

/// Blocks an iteration, when nobody says otherwise or the rules do.
pub const DEFAULT_UNIT: u64 = 200;

/// The room of a datastore, in its blocks of 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All blocks that files can have.
    pub total: u64,
    /// Those that no file has.
    pub free: u64,
}

impl Space {
    /// True when at least 75 % are in use.
    pub fn is_three_quarters_full(&self) -> bool {
        self.total.saturating_sub(self.free).saturating_mul(4) >= self.total.saturating_mul(3)
    }
}

/// Which block counts a host accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountRule {
    /// Any: ESXi 5.5 until Update 2.
    Any,
    /// Since 5.5 Patch 3: at most 1 % of the free blocks, and only the default on a datastore that is 75 % full. Another
    /// count is taken without a word, and the default used.
    OnePercent,
}

/// The blocks of one iteration.
pub fn unit(asked: Option<u64>, space: Space, rule: CountRule) -> u64 {
    let asked = asked.unwrap_or(DEFAULT_UNIT).max(1);
    match rule {
        CountRule::Any => asked,
        CountRule::OnePercent if space.is_three_quarters_full() || asked > space.free / 100 => DEFAULT_UNIT,
        CountRule::OnePercent => asked,
    }
}

/// The blocks of the balloon of `vmkfstools -y`: this percentage of the free blocks, at most 99.
pub fn balloon_blocks(percent: u32, space: Space) -> u64 {
    let part = u128::from(space.free) * u128::from(percent.min(99)) / 100;
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// The line that a host's log gets for each iteration.
pub fn log_line(blocks: u64, uuid: &str) -> String {
    format!("Unmap: Async Unmapped {blocks} blocks from volume {uuid}")
}

/// The blocks that a line of a host's log tells of, where it is one of this datastore.
pub fn logged_blocks(line: &str, uuid: &str) -> Option<u64> {
    let (blocks, volume) = line.split_once("Unmap: Async Unmapped ")?.1.split_once(" blocks from volume ")?;
    blocks.parse().ok().filter(|_| volume == uuid)
}

/// The first release whose hosts reclaim in the background, and whose `vmkfstools -y` is gone.
pub fn has_automatic_unmap(release: Release) -> bool {
    release == Release::Esxi6
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TB: u64 = 1 << 20;

    #[test]
    fn the_guides_example_of_a_terabyte() {
        let space = Space { total: 4 * TB, free: TB };
        let unit = |asked| unit(Some(asked), Space { total: 2 * TB, ..space }, CountRule::OnePercent);
        assert_eq!(unit(10_485), 10_485, "1 % of 1 048 576, rounded down");
        assert_eq!(unit(10_486), 200, "anything larger is overridden");
        assert_eq!(unit(60_000), 200);
    }

    #[test]
    fn a_datastore_that_is_three_quarters_full_takes_the_default_only() {
        let at = |free| unit(Some(300), Space { total: 4 * TB, free }, CountRule::OnePercent);
        assert_eq!(at(TB), 200, "exactly 75 %");
        assert_eq!(at(TB + 1), 300, "one block less");
    }

    #[test]
    fn before_the_patch_any_count_was_taken() {
        let space = Space { total: 4 * TB, free: 1000 };
        assert_eq!(unit(Some(256_000), space, CountRule::Any), 256_000);
        assert_eq!(unit(None, space, CountRule::Any), 200);
    }

    #[test]
    fn the_balloon_takes_at_most_99_percent() {
        let space = Space { total: 1000, free: 1000 };
        assert_eq!([60, 99, 100].map(|percent| balloon_blocks(percent, space)), [600, 990, 990]);
    }

    #[test]
    fn the_log_line_is_the_guides() {
        let line = "Unmap: Async Unmapped 5000 blocks from volume 545d6633-4e026dce-d8b2-90e2ba392174";
        assert_eq!(log_line(5000, "545d6633-4e026dce-d8b2-90e2ba392174"), line);
    }

    proptest! {
        #[test]
        fn a_count_is_obeyed_or_the_default(asked in 1u64..1 << 24, total in 1u64..1 << 24, free in 0u64..1 << 24) {
            let space = Space { total, free: free.min(total) };
            let taken = unit(Some(asked), space, CountRule::OnePercent);
            prop_assert!(taken == asked || taken == DEFAULT_UNIT);
            prop_assert!(taken <= DEFAULT_UNIT || taken * 100 <= space.free);
        }
    }
}
