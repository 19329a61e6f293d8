//! Unit attention conditions of one I_T nexus (SAM-5 5.14).

use scsi::{Asc, Sense, asc};
use std::collections::BTreeMap;
use types::VolumeId;

/// The conditions that wait on one logical unit, the one to be told first in front.
#[derive(Debug, Default)]
struct Queue(Vec<Sense>);

/// Precedence (SAM-5 5.14.5): resets before everything else, the greater reset before the lesser; the rest in order of
/// arrival.
fn precedence(asc: Asc) -> u8 {
    match asc {
        asc::POWER_ON_OCCURRED | asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED => 0,
        asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED => 1,
        asc::I_T_NEXUS_LOSS_OCCURRED => 2,
        _ => 3,
    }
}

impl Queue {
    /// Adds a condition. One that waits already is not added again, and a reset swallows lesser resets.
    fn raise(&mut self, sense: Sense) {
        if self.0.contains(&sense) {
            return;
        }
        let level = precedence(sense.asc);
        if level < 3 {
            if self.0.iter().any(|waiting| precedence(waiting.asc) < level) {
                return;
            }
            self.0.retain(|waiting| precedence(waiting.asc) == 3);
        }
        let at = self.0.iter().position(|waiting| precedence(waiting.asc) > level).unwrap_or(self.0.len());
        self.0.insert(at, sense);
    }
}

/// What waits to be told to one I_T nexus, by logical unit. The number of conditions is bounded: each code waits at most
/// once per unit, that of the thresholds once for each of the two.
#[derive(Debug, Default)]
pub(crate) struct Attentions(BTreeMap<VolumeId, Queue>);

impl Attentions {
    /// Adds a condition on `volume`.
    pub(crate) fn raise(&mut self, volume: VolumeId, sense: Sense) {
        self.0.entry(volume).or_default().raise(sense);
    }

    /// Takes the condition that the next command on `volume` is to be answered with.
    pub(crate) fn take(&mut self, volume: VolumeId) -> Option<Sense> {
        let queue = self.0.get_mut(&volume)?;
        let sense = queue.0.remove(0);
        if queue.0.is_empty() {
            self.0.remove(&volume);
        }
        Some(sense)
    }

    /// Forgets `asc` on all units: REPORT LUNS has told what it announces (SPC-4 6.33).
    pub(crate) fn settle(&mut self, asc: Asc) {
        self.0.values_mut().for_each(|queue| queue.0.retain(|waiting| waiting.asc != asc));
        self.0.retain(|_, queue| !queue.0.is_empty());
    }

    /// Forgets what waits on a unit that the nexus no longer sees.
    pub(crate) fn forget(&mut self, volume: VolumeId) {
        self.0.remove(&volume);
    }

    /// True when nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raise(attentions: &mut Attentions, volume: VolumeId, asc: Asc) {
        attentions.raise(volume, Sense::unit_attention(asc));
    }

    fn told(attentions: &mut Attentions, volume: VolumeId) -> Vec<u16> {
        std::iter::from_fn(|| attentions.take(volume).map(|sense| sense.asc.0)).collect()
    }

    #[test]
    fn each_condition_is_told_once_and_in_order_of_arrival() {
        let mut attentions = Attentions::default();
        let volume = VolumeId(1);
        for asc in [asc::CAPACITY_DATA_HAS_CHANGED, asc::MODE_PARAMETERS_CHANGED, asc::CAPACITY_DATA_HAS_CHANGED] {
            raise(&mut attentions, volume, asc);
        }
        raise(&mut attentions, VolumeId(2), asc::RESERVATIONS_RELEASED);
        assert_eq!(told(&mut attentions, volume), [0x2a09, 0x2a01]);
        assert_eq!(told(&mut attentions, VolumeId(2)), [0x2a04]);
        assert!(attentions.is_empty());
    }

    #[test]
    fn a_reset_comes_first_and_the_greater_swallows_the_lesser() {
        let mut attentions = Attentions::default();
        let volume = VolumeId(1);
        raise(&mut attentions, volume, asc::CAPACITY_DATA_HAS_CHANGED);
        raise(&mut attentions, volume, asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
        raise(&mut attentions, volume, asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED);
        raise(&mut attentions, volume, asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
        assert_eq!(told(&mut attentions, volume), [0x2900, 0x2a09]);
    }

    #[test]
    fn report_luns_settles_its_condition_on_all_units() {
        let mut attentions = Attentions::default();
        raise(&mut attentions, VolumeId(1), asc::REPORTED_LUNS_DATA_HAS_CHANGED);
        raise(&mut attentions, VolumeId(2), asc::REPORTED_LUNS_DATA_HAS_CHANGED);
        raise(&mut attentions, VolumeId(2), asc::MODE_PARAMETERS_CHANGED);
        attentions.settle(asc::REPORTED_LUNS_DATA_HAS_CHANGED);
        assert!(told(&mut attentions, VolumeId(1)).is_empty());
        assert_eq!(told(&mut attentions, VolumeId(2)), [0x2a01]);
    }

    #[test]
    fn the_two_thresholds_are_told_apart() {
        use scsi::provisioning::Resource;
        let (mut attentions, volume) = (Attentions::default(), VolumeId(1));
        for resource in [Resource::Available, Resource::Used, Resource::Available] {
            attentions.raise(volume, resource.threshold_reached());
        }
        let informations: Vec<_> =
            std::iter::from_fn(|| attentions.take(volume)).map(|sense| (sense.asc.0, sense.information)).collect();
        assert_eq!(informations, [(0x3807, Some(16)), (0x3807, Some(24))]);
    }
}
