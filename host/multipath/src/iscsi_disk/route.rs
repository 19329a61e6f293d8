//! The paths that can carry a command.

use super::path::Path;
use super::policy::{PathState, Selector};
use crate::error::DeviceError;
use scsi::{Sense, SenseKey};

/// The paths that can carry a command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Route<'a> {
    Any,
    /// Those to these arrays, by target name.
    To(&'a [String]),
}

impl Route<'_> {
    fn has(self, path: &Path) -> bool {
        match self {
            Self::Any => true,
            Self::To(arrays) => arrays.iter().any(|array| array == path.target()),
        }
    }

    /// Selects one of the paths that works now; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If only paths outside of the route work, fails as their array would: it does not have the
    /// other unit of the command.
    pub(super) fn pick(self, selector: &mut Selector, paths: &[Path]) -> Result<Option<usize>, DeviceError> {
        let state = |path: &Path| if self.has(path) { path.state() } else { PathState::Dead };
        let chosen = selector.pick(paths.len(), |path| state(&paths[path]));
        let is_elsewhere = |path: &Path| path.state() >= PathState::Unoptimized && !self.has(path);
        if chosen.is_none() && paths.iter().any(is_elsewhere) {
            let asc = scsi::asc::COPY_TARGET_DEVICE_NOT_REACHABLE;
            return Err(DeviceError::Check(Sense::new(SenseKey::CopyAborted, asc)));
        }
        Ok(chosen)
    }
}

/// Returns a path, and one to each other array to which a path is alive: an array manages the
/// commands that have come by its own ports. Commands that wait at an array without a session end
/// with its lease of the unit.
pub(super) fn one_to_each_array(paths: &[Path], path: usize) -> Vec<usize> {
    let mut chosen = vec![path];
    for (other, candidate) in paths.iter().enumerate() {
        let is_reached = chosen.iter().any(|chosen| paths[*chosen].target() == candidate.target());
        if !is_reached && candidate.state() > PathState::Dead {
            chosen.push(other);
        }
    }
    chosen
}
