//! The bugs that can be injected, to show that the simulator detects them.

use crate::disk::DriveBug;

/// A bug injected into the drive or the array, to show that the simulator detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum InjectedBug {
    /// Do not flush writes to the log.
    SkipLogFlush,
    /// Do not flush writes to the superblock.
    SkipSuperblockFlush,
    /// Omit the flush before the superblock write.
    SkipCheckpointFlush,
    /// Omit one flush in three.
    SkipSomeFlushes,
    /// Make nothing durable in recovery (process crash, then power loss).
    SkipRecoveryFlush,
    /// Open an array without the operations that a damaged log has lost.
    AcceptLogLoss,
    /// Damage both copies of metadata where one is damaged.
    DamageBothCopies,
    /// Answer SYNCHRONIZE CACHE and FUA writes of a write cache before they are durable.
    AnswerFlushEarly,
    /// Lose a block of 8 KiB if power fails while a part of it is written.
    LoseNeighbours,
    /// Report the end of a hung write or flush before it is done.
    CompleteHungIo,
    /// Count space in a checkpoint that is not pinned.
    UnpinnedCensus,
    /// Answer a write before it is durable if more than 32 operations are open.
    AnswerWhenBusy,
    /// Fail every read of metadata that is not in memory.
    FailPageReads,
    /// Report success for a write that stored only its first sectors.
    IgnoreShortWrites,
    /// Discard the bytes before a free segment with it.
    DiscardTooMuch,
    /// Take work in flight for a block for work on the next block with the same id.
    RepeatTickets,
    /// Report what a scrub finds although the segment is being written.
    ImpatientScrub,
}

impl InjectedBug {
    /// Returns the bug of the drive, if it is one, while the array works or (`recovers`) is opened.
    /// `log` are the offsets of the log.
    pub fn of_drive(self, log: (u64, u64), recovers: bool) -> Option<DriveBug> {
        match self {
            Self::SkipLogFlush => Some(DriveBug::Durable { from: log.0, to: log.1 }),
            Self::SkipSuperblockFlush => Some(DriveBug::Durable { from: 0, to: log.0 }),
            Self::SkipCheckpointFlush => Some(DriveBug::Flush),
            Self::SkipSomeFlushes => Some(DriveBug::SomeFlushes(3)),
            Self::SkipRecoveryFlush => recovers.then_some(DriveBug::NothingDurable),
            Self::DamageBothCopies => Some(DriveBug::EqualSectors),
            Self::LoseNeighbours => Some(DriveBug::Neighbours),
            Self::IgnoreShortWrites => Some(DriveBug::ShortWrites),
            Self::DiscardTooMuch => Some(DriveBug::Discards),
            Self::AcceptLogLoss
            | Self::AnswerFlushEarly
            | Self::CompleteHungIo
            | Self::UnpinnedCensus
            | Self::AnswerWhenBusy
            | Self::ImpatientScrub
            | Self::RepeatTickets
            | Self::FailPageReads => None,
        }
    }
}
