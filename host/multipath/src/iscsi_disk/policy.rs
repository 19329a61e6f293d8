//! Path selection with ESXi's policies.

use scsi::port_groups::AccessState;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// I/O limit of round robin recommended for the array.
pub const BEST_IO_LIMIT: u32 = 1;

/// A path selection policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathPolicy {
    /// `VMW_PSP_RR`: rotates over the paths.
    RoundRobin {
        /// Commands per path before the next path is used, at least 1. ESXi's default is 1000.
        iops: u32,
    },
    /// `VMW_PSP_FIXED`: one path by its index from 0, while it is alive.
    Fixed {
        /// Index of the path.
        preferred: usize,
    },
    /// `VMW_PSP_MRU`: the most recently used path, until it fails.
    MostRecentlyUsed,
}

impl PathPolicy {
    /// Returns ESXi's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RoundRobin { .. } => "VMW_PSP_RR",
            Self::Fixed { .. } => "VMW_PSP_FIXED",
            Self::MostRecentlyUsed => "VMW_PSP_MRU",
        }
    }
}

impl Default for PathPolicy {
    fn default() -> Self {
        Self::RoundRobin { iops: BEST_IO_LIMIT }
    }
}

impl fmt::Display for PathPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unknown policy name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown path selection policy '{0}': use VMW_PSP_RR, VMW_PSP_FIXED or VMW_PSP_MRU")]
pub struct UnknownPolicy(String);

impl FromStr for PathPolicy {
    type Err = UnknownPolicy;

    /// Parses ESXi's name of a policy, with default settings.
    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        match name {
            "VMW_PSP_RR" => Ok(Self::default()),
            "VMW_PSP_FIXED" => Ok(Self::Fixed { preferred: 0 }),
            "VMW_PSP_MRU" => Ok(Self::MostRecentlyUsed),
            _ => Err(UnknownPolicy(name.to_owned())),
        }
    }
}

/// Usability of a path, from worst to best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// No session.
    #[default]
    Dead,
    /// A session with a port that accepts no data commands now.
    Standby,
    /// A non-optimised path to the unit.
    Unoptimized,
    /// An optimised path to the unit.
    Active,
}

impl PathState {
    /// Returns the state of a path to a port in this access state.
    pub(super) fn of(access: AccessState) -> Self {
        match access {
            AccessState::ActiveOptimized => Self::Active,
            AccessState::ActiveNonOptimized => Self::Unoptimized,
            AccessState::Standby | AccessState::Unavailable | AccessState::Transitioning => Self::Standby,
        }
    }
}

impl fmt::Display for PathState {
    /// Formats ESXi's term.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dead => "dead",
            Self::Standby => "standby",
            Self::Unoptimized => "active unoptimized",
            Self::Active => "active",
        })
    }
}

/// Selects paths by policy.
#[derive(Debug)]
pub(super) struct Selector {
    policy: PathPolicy,
    current: usize,
    sent: u32,
}

impl Selector {
    pub(super) fn new(policy: PathPolicy) -> Self {
        Self { policy, current: 0, sent: 0 }
    }

    pub(super) fn policy(&self) -> PathPolicy {
        self.policy
    }

    pub(super) fn set_policy(&mut self, policy: PathPolicy) {
        (self.policy, self.sent) = (policy, 0);
    }

    /// Returns the index of the path of the last command.
    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Selects the path for the next command among the best of `paths` paths; `None` if no path can
    /// take it.
    pub(super) fn pick(&mut self, paths: usize, state: impl Fn(usize) -> PathState) -> Option<usize> {
        let best = (0..paths).map(&state).max()?;
        if best < PathState::Unoptimized {
            return None;
        }
        let good = |path: usize| path < paths && state(path) == best;
        let next = |from: usize| (0..paths).map(|step| (from + step) % paths).find(|path| good(*path));
        let chosen = match self.policy {
            PathPolicy::RoundRobin { iops } if self.sent >= iops.max(1) => next(self.current + 1),
            PathPolicy::Fixed { preferred } if good(preferred) => Some(preferred),
            _ => next(self.current),
        }?;
        self.sent = if chosen == self.current && self.sent < self.limit() { self.sent + 1 } else { 1 };
        self.current = chosen;
        Some(chosen)
    }

    fn limit(&self) -> u32 {
        match self.policy {
            PathPolicy::RoundRobin { iops } => iops.max(1),
            _ => u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PathState::{Active, Dead, Standby, Unoptimized};
    use super::*;

    fn pick(selector: &mut Selector, states: &[PathState]) -> Option<usize> {
        selector.pick(states.len(), |path| states[path])
    }

    fn picks(selector: &mut Selector, states: &[PathState], count: usize) -> Vec<usize> {
        (0..count).map(|_| pick(selector, states).unwrap()).collect()
    }

    #[test]
    fn round_robin_switches_path_at_its_io_limit() {
        let mut one = Selector::new(PathPolicy::default());
        assert_eq!(picks(&mut one, &[Active; 3], 7), [0, 1, 2, 0, 1, 2, 0]);
        let mut three = Selector::new(PathPolicy::RoundRobin { iops: 3 });
        assert_eq!(picks(&mut three, &[Active; 2], 8), [0, 0, 0, 1, 1, 1, 0, 0]);
        assert_eq!(picks(&mut one, &[Active], 3), [0, 0, 0]);
    }

    #[test]
    fn only_the_best_paths_are_used() {
        let mut selector = Selector::new(PathPolicy::default());
        assert_eq!(picks(&mut selector, &[Unoptimized, Active, Dead, Active], 4), [1, 3, 1, 3]);
        assert_eq!(picks(&mut selector, &[Unoptimized, Standby, Dead, Unoptimized], 2), [0, 3]);
        assert_eq!(pick(&mut selector, &[Standby, Dead]), None);
        assert_eq!(pick(&mut selector, &[]), None);
    }

    #[test]
    fn fixed_policy_fails_back_and_mru_does_not() {
        let mut fixed = Selector::new(PathPolicy::Fixed { preferred: 1 });
        let mut mru = Selector::new(PathPolicy::MostRecentlyUsed);
        assert_eq!((picks(&mut fixed, &[Active; 2], 2), picks(&mut mru, &[Active; 2], 2)), (vec![1, 1], vec![0, 0]));
        assert_eq!((pick(&mut fixed, &[Active, Dead]), pick(&mut mru, &[Dead, Active])), (Some(0), Some(1)));
        assert_eq!((pick(&mut fixed, &[Active; 2]), pick(&mut mru, &[Active; 2])), (Some(1), Some(1)));
    }

    #[test]
    fn policy_names_follow_esxi() {
        for policy in [PathPolicy::default(), PathPolicy::Fixed { preferred: 0 }, PathPolicy::MostRecentlyUsed] {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        assert!("VMW_PSP_XX".parse::<PathPolicy>().is_err());
    }
}
