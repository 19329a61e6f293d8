//! Pending unit attention conditions of one I_T nexus (SAM-5 5.14).

use scsi::{Asc, Sense, asc};
use std::collections::BTreeMap;
use types::ObjectId;

/// The pending conditions of one logical unit, in the order of reporting.
#[derive(Debug, Default)]
struct Queue(Vec<Sense>);

/// Returns the precedence of a condition (SAM-5 5.14.5). Resets come first, the more extensive
/// reset before the lesser; all others share the last level and keep their order of arrival.
fn precedence(asc: Asc) -> u8 {
    match asc {
        asc::POWER_ON_OCCURRED | asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED => 0,
        asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED => 1,
        asc::I_T_NEXUS_LOSS_OCCURRED => 2,
        _ => 3,
    }
}

impl Queue {
    /// Adds a condition unless it is pending already. A reset replaces all lesser resets.
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

/// The pending unit attention conditions of one I_T nexus, by volume.
///
/// The number of conditions is bounded: each code is pending at most once per volume. Only the
/// threshold code can be pending twice, once for each of its two resources.
#[derive(Debug, Default)]
pub(crate) struct UnitAttentions(BTreeMap<ObjectId, Queue>);

impl UnitAttentions {
    /// Adds a condition on `volume`.
    pub(crate) fn raise(&mut self, volume: ObjectId, sense: Sense) {
        self.0.entry(volume).or_default().raise(sense);
    }

    /// Takes the condition that the next command on `volume` reports.
    pub(crate) fn take(&mut self, volume: ObjectId) -> Option<Sense> {
        let queue = self.0.get_mut(&volume)?;
        let sense = queue.0.remove(0);
        if queue.0.is_empty() {
            self.0.remove(&volume);
        }
        Some(sense)
    }

    /// Takes the condition `asc` of `volume`, if it is pending.
    pub(crate) fn take_code(&mut self, volume: ObjectId, asc: Asc) -> Option<Sense> {
        let queue = self.0.get_mut(&volume)?;
        let at = queue.0.iter().position(|waiting| waiting.asc == asc)?;
        let sense = queue.0.remove(at);
        if queue.0.is_empty() {
            self.0.remove(&volume);
        }
        Some(sense)
    }

    /// Removes the condition `asc` from all volumes. REPORT LUNS clears its condition on every
    /// logical unit (SPC-4 6.33).
    pub(crate) fn clear_code(&mut self, asc: Asc) {
        self.0.values_mut().for_each(|queue| queue.0.retain(|waiting| waiting.asc != asc));
        self.0.retain(|_, queue| !queue.0.is_empty());
    }

    /// Removes all conditions of a volume that the nexus no longer sees.
    pub(crate) fn clear_volume(&mut self, volume: ObjectId) {
        self.0.remove(&volume);
    }

    /// Returns true if no condition is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raise(attentions: &mut UnitAttentions, volume: ObjectId, asc: Asc) {
        attentions.raise(volume, Sense::unit_attention(asc));
    }

    fn take_all(attentions: &mut UnitAttentions, volume: ObjectId) -> Vec<u16> {
        std::iter::from_fn(|| attentions.take(volume).map(|sense| sense.asc.0)).collect()
    }

    #[test]
    fn unit_attentions_are_reported_once_in_arrival_order() {
        let mut attentions = UnitAttentions::default();
        let volume = ObjectId(1);
        for asc in [asc::CAPACITY_DATA_HAS_CHANGED, asc::MODE_PARAMETERS_CHANGED, asc::CAPACITY_DATA_HAS_CHANGED] {
            raise(&mut attentions, volume, asc);
        }
        raise(&mut attentions, ObjectId(2), asc::RESERVATIONS_RELEASED);
        assert_eq!(take_all(&mut attentions, volume), [0x2a09, 0x2a01]);
        assert_eq!(take_all(&mut attentions, ObjectId(2)), [0x2a04]);
        assert!(attentions.is_empty());
    }

    #[test]
    fn reset_comes_first_and_replaces_lesser_resets() {
        let mut attentions = UnitAttentions::default();
        let volume = ObjectId(1);
        raise(&mut attentions, volume, asc::CAPACITY_DATA_HAS_CHANGED);
        raise(&mut attentions, volume, asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
        raise(&mut attentions, volume, asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED);
        raise(&mut attentions, volume, asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
        assert_eq!(take_all(&mut attentions, volume), [0x2900, 0x2a09]);
    }

    #[test]
    fn one_code_is_taken_before_others() {
        let mut attentions = UnitAttentions::default();
        let volume = ObjectId(1);
        raise(&mut attentions, volume, asc::MODE_PARAMETERS_CHANGED);
        raise(&mut attentions, volume, asc::ASYMMETRIC_ACCESS_STATE_CHANGED);
        let mut take = || attentions.take_code(volume, asc::ASYMMETRIC_ACCESS_STATE_CHANGED);
        assert_eq!((take().map(|sense| sense.asc.0), take()), (Some(0x2a06), None));
        assert_eq!(take_all(&mut attentions, volume), [0x2a01]);
        assert!(attentions.take_code(volume, asc::MODE_PARAMETERS_CHANGED).is_none() && attentions.is_empty());
    }

    #[test]
    fn report_luns_attention_is_cleared_on_all_units() {
        let mut attentions = UnitAttentions::default();
        raise(&mut attentions, ObjectId(1), asc::REPORTED_LUNS_DATA_HAS_CHANGED);
        raise(&mut attentions, ObjectId(2), asc::REPORTED_LUNS_DATA_HAS_CHANGED);
        raise(&mut attentions, ObjectId(2), asc::MODE_PARAMETERS_CHANGED);
        attentions.clear_code(asc::REPORTED_LUNS_DATA_HAS_CHANGED);
        assert!(take_all(&mut attentions, ObjectId(1)).is_empty());
        assert_eq!(take_all(&mut attentions, ObjectId(2)), [0x2a01]);
    }

    #[test]
    fn pool_and_volume_thresholds_are_pending_separately() {
        use scsi::provisioning::Resource;
        let (mut attentions, volume) = (UnitAttentions::default(), ObjectId(1));
        for resource in [Resource::Available, Resource::Used, Resource::Available] {
            attentions.raise(volume, resource.threshold_reached());
        }
        let informations: Vec<_> =
            std::iter::from_fn(|| attentions.take(volume)).map(|sense| (sense.asc.0, sense.information)).collect();
        assert_eq!(informations, [(0x3807, Some(16)), (0x3807, Some(24))]);
    }
}
