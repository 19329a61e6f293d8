//! Places of copied chunks in volumes of pods: hints for later copies.

use crate::exchange::pieces::Mark;
use std::collections::{HashMap, VecDeque};
use types::{Lba, VolumeId};

/// Chunks whose places are remembered: 64 GiB of data.
const MAX_PLACES: usize = 1 << 16;

/// The newest places. The content there may have changed since.
#[derive(Default)]
pub(crate) struct Places {
    by_name: HashMap<Mark, (VolumeId, Lba)>,
    order: VecDeque<Mark>,
}

impl Places {
    /// Notes the place of a chunk.
    pub(crate) fn note(&mut self, name: Mark, place: (VolumeId, Lba)) {
        if self.by_name.insert(name, place).is_none() {
            self.order.push_back(name);
        }
        if self.order.len() > MAX_PLACES
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_name.remove(&oldest);
        }
    }

    /// Returns the place where a chunk was.
    pub(crate) fn find(&self, name: &Mark) -> Option<(VolumeId, Lba)> {
        self.by_name.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_places_are_remembered() {
        let mut places = Places::default();
        let name = |number: usize| {
            let mut name = [0; 32];
            name[..8].copy_from_slice(&number.to_le_bytes());
            name
        };
        for number in 0..=MAX_PLACES {
            places.note(name(number), (VolumeId(1), Lba(number as u64)));
        }
        places.note(name(1), (VolumeId(2), Lba(1)));
        assert_eq!(places.find(&name(0)), None);
        assert_eq!(places.find(&name(1)), Some((VolumeId(2), Lba(1))));
        assert_eq!(places.order.len(), places.by_name.len());
    }
}
