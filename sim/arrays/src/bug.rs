//! Bugs that can be planted, to show that the simulator finds them.

use crate::site::GEOMETRY;
use engine_sim::disk::DriveBug;
use ondisk::SUPERBLOCK_AREA_BYTES;

macro_rules! bugs {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SimBug { $($(#[$doc])* $variant,)* }

        impl SimBug {
            /// Every bug, with its name on the command line.
            pub const ALL: &[(SimBug, &str)] = &[$((SimBug::$variant, $name),)*];
        }
    };
}

bugs! {
    /// The array that orders answers when its own log is durable.
    OwnDurability = "own-durability",
    /// The array that follows reports a record when it has received it.
    AckBeforeFlush = "ack-before-flush",
    /// The array that yields leaves its tail out of its mask.
    MaskWithoutTail = "mask-without-tail",
    /// The tail of the array that serves alone does not enter its deltas.
    TailNotInDelta = "tail-not-in-delta",
    /// Changes that are made alone do not enter the deltas.
    DeltaForgotten = "delta-forgotten",
    /// Reads are answered without a lease.
    ReadWithoutLease = "read-without-lease",
    /// A forward of an earlier session is carried out.
    RequestsOutliveSession = "requests-outlive-session",
    /// An array that returns is sent all content.
    ResendAll = "resend-all",
    /// A forward is answered when its record arrives.
    AnswerForwardEarly = "answer-forward-early",
    /// The log of the second array is not flushed.
    SkipLogFlush = "skip-log-flush",
    /// The clocks of the arrays run at rates that differ by 10 %.
    ClockDrift = "clock-drift",
}

impl SimBug {
    /// Returns the bug with this name.
    ///
    /// # Errors
    ///
    /// The names that exist.
    pub fn parse(name: &str) -> Result<SimBug, String> {
        let names = || Self::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(bug, _)| *bug).ok_or_else(|| format!("no such bug; there are {}", names()))
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(bug, _)| *bug == self).map_or("", |(_, name)| name)
    }

    /// Returns the bug of the second array's drive, if it is one.
    pub(crate) fn of_drive(self) -> Option<DriveBug> {
        let (from, to) = (SUPERBLOCK_AREA_BYTES, SUPERBLOCK_AREA_BYTES + GEOMETRY.log_bytes);
        (self == Self::SkipLogFlush).then_some(DriveBug::Durable { from, to })
    }
}
