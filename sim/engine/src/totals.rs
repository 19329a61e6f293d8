//! Counters of a run or of a campaign.

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one run or of many.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// Number of counters.
            pub const COUNTERS: usize = [$(stringify!($name)),*].len();

            /// Adds the counters of `other`.
            pub fn add(&mut self, other: &Totals) {
                $(self.$name += other.$name;)*
            }

            /// Returns all counters in the order of their declaration.
            pub fn counts(&self) -> [u64; Self::COUNTERS] {
                [$(self.$name),*]
            }

            /// Creates totals from counters in that order. `None` if their number differs.
            pub fn from_counts(counts: &[u64]) -> Option<Self> {
                let [$($name),*] = *<&[u64; Self::COUNTERS]>::try_from(counts).ok()?;
                Some(Self { $($name),* })
            }
        }
    };
}

totals! {
    /// Runs.
    runs,
    /// Crashes, including those during recovery.
    crashes,
    /// Crashes during recovery.
    crashes_in_recovery,
    /// Crashes of the process only: the cache of the drive survived.
    process_crashes,
    /// Operations submitted.
    submitted,
    /// Operations answered.
    answered,
    /// Operations refused for lack of space.
    refused,
    /// Unanswered operations that were present after a crash.
    present,
    /// Unanswered operations that were absent after a crash.
    absent,
    /// Drive failures.
    failures,
    /// Places of the drive damaged: flipped bits or unreadable sectors.
    damages,
    /// Arrays that were not opened because of damage, with an error that names it.
    closed,
    /// Accesses, reads and computations that hung for seconds or minutes.
    hung,
    /// Writes, flushes and allocations.
    ios,
    /// Arrays checked by fsck after a crash.
    fscks,
    /// Comparisons of space accounting with the stored data.
    accounting_checks,
    /// Checkpoints counted and audited under load.
    censuses,
    /// Segments scrubbed under load.
    scrubs,
    /// Times that the array was open and compressed stored data again.
    recompressions,
}
