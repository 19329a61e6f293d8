//! The choices of `ibid top`: the screen, and the order of its rows.

use clap::ValueEnum;

/// A screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Screen {
    /// The array, with its last ten minutes
    Array,
    /// Volumes
    #[default]
    Volumes,
    /// Hosts
    Hosts,
    /// Hosts on volumes
    Connections,
    /// iSCSI portals
    Ports,
    /// VAAI commands by host and volume
    Vaai,
}

impl Screen {
    pub(super) const ALL: [Self; 6] =
        [Self::Array, Self::Volumes, Self::Hosts, Self::Connections, Self::Ports, Self::Vaai];

    /// Returns the title of the screen.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Array => "Array",
            Self::Volumes => "Volumes",
            Self::Hosts => "Hosts",
            Self::Connections => "Host/volume",
            Self::Ports => "Ports",
            Self::Vaai => "VAAI",
        }
    }

    /// Returns the screen that is this far to the right.
    pub(super) fn step(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|screen| *screen == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }
}

/// An order of rows, largest first but for names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Commands per second
    #[default]
    Commands,
    /// Bytes per second
    Bytes,
    /// Mean latency of reads or writes, the greater one
    Latency,
    /// Name
    Name,
}

impl Order {
    /// Returns the title of the order.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Commands => "commands",
            Self::Bytes => "bytes",
            Self::Latency => "latency",
            Self::Name => "name",
        }
    }

    /// Returns the next choice.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Commands => Self::Bytes,
            Self::Bytes => Self::Latency,
            Self::Latency => Self::Name,
            Self::Name => Self::Commands,
        }
    }
}
