//! The work of histories.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The work of histories.
        #[derive(Debug, Default)]
        pub struct Totals { $($(#[$doc])* pub $name: AtomicU64,)* }

        impl Totals {
            /// Adds the work of others.
            pub fn add(&self, other: &Totals) {
                $(self.$name.fetch_add(other.$name.load(Ordering::Relaxed), Ordering::Relaxed);)*
            }

            /// Returns the names and the counts.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

totals! {
    /// Histories.
    histories,
    /// Seconds of simulated time.
    seconds,
    /// Steps of threads.
    steps,
    /// Changes that were answered.
    writes,
    /// Reads that were answered.
    reads,
    /// Requests that were refused.
    refused,
    /// Requests that hosts have given up.
    aborts,
    /// Faults.
    faults,
    /// Ends of a process: power failures, kills and orderly ones.
    ends,
    /// Sessions of the link.
    sessions,
    /// Bytes that have crossed the link.
    link_bytes,
    /// Returns without changed content whose bytes were counted.
    quiet_returns,
}

impl Totals {
    pub(crate) fn count(figure: &AtomicU64) {
        figure.fetch_add(1, Ordering::Relaxed);
    }
}
