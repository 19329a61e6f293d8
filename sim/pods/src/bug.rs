//! Bugs that can be injected.

use pod::Bug;

/// A bug, to show that the simulator finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimBug {
    /// A rule of the state machine that it breaks.
    Machine(Bug),
    /// The tail of the array that serves alone does not enter its deltas.
    TailNotInDelta,
    /// The source ignores the mask of its peer.
    NoMask,
    /// The clocks of the arrays run at rates that differ by 10 %.
    ClockDrift,
}

impl SimBug {
    /// Returns every bug with its name.
    pub fn all() -> impl Iterator<Item = (SimBug, &'static str)> {
        let own = [
            (SimBug::TailNotInDelta, "tail-not-in-delta"),
            (SimBug::NoMask, "no-mask"),
            (SimBug::ClockDrift, "clock-drift"),
        ];
        Bug::ALL.iter().map(|(bug, name)| (SimBug::Machine(*bug), *name)).chain(own)
    }

    /// Returns the bug with this name.
    ///
    /// # Errors
    ///
    /// The names that exist.
    pub fn parse(name: &str) -> Result<SimBug, String> {
        let names: Vec<_> = Self::all().map(|(_, name)| name).collect();
        let found = Self::all().find(|(_, known)| *known == name);
        found.map(|(bug, _)| bug).ok_or_else(|| format!("no such bug; there are {}", names.join(", ")))
    }

    pub(crate) fn of_machine(self) -> Option<Bug> {
        match self {
            SimBug::Machine(bug) => Some(bug),
            _ => None,
        }
    }
}
