//! Changes of the settings of the array and of volumes.

use super::Draft;
use crate::name::check_name;
use crate::record::{ClockJump, Qos, Volume};
use crate::{
    CatalogError, ERADICATION_DELAYS_MS, MAX_BANDWIDTH_LIMIT, MAX_IOPS_LIMIT, MIN_BANDWIDTH_LIMIT, MIN_IOPS_LIMIT,
    MIN_SCRUB_BYTES_PER_SECOND, SCRUB_INTERVALS_MS,
};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Changes to make to the array. `None` leaves a field unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrayEdit {
    /// New name. The identity stays the same.
    pub name: Option<String>,
    /// New eradication delay in milliseconds. It also applies to objects already destroyed.
    pub eradication_delay_ms: Option<u64>,
    /// New percentage of pool usage for the space alert; an inner `None` disables the alert.
    pub threshold_percent: Option<Option<u8>>,
    /// New time between two scrubs in milliseconds; an inner `None` ends the schedule.
    pub scrub_interval_ms: Option<Option<u64>>,
    /// New rate of scrubs in bytes per second. A running scrub keeps its rate.
    pub scrub_bytes_per_second: Option<u64>,
}

/// Changes to make to QoS limits. `None` leaves a limit unchanged; an inner `None` removes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QosEdit {
    /// Maximum bytes per second.
    pub bandwidth_limit: Option<Option<u64>>,
    /// Maximum commands per second.
    pub iops_limit: Option<Option<u64>>,
}

impl QosEdit {
    /// Returns the limits after the change.
    pub(super) fn applied_to(&self, qos: Qos) -> Result<Qos, CatalogError> {
        let outside = |limit: Option<Option<u64>>, range: RangeInclusive<u64>| {
            limit.flatten().is_some_and(|limit| !range.contains(&limit))
        };
        if outside(self.bandwidth_limit, MIN_BANDWIDTH_LIMIT..=MAX_BANDWIDTH_LIMIT) {
            return Err(bad("bandwidth limit must be 1 MiB to 512 GiB per second"));
        }
        if outside(self.iops_limit, MIN_IOPS_LIMIT..=MAX_IOPS_LIMIT) {
            return Err(bad("IOPS limit must be 100 to 100 million"));
        }
        Ok(Qos {
            bandwidth_limit: self.bandwidth_limit.unwrap_or(qos.bandwidth_limit),
            iops_limit: self.iops_limit.unwrap_or(qos.iops_limit),
        })
    }
}

/// Changes to make to a volume. `None` leaves a field unchanged; an inner `None` removes the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeEdit {
    /// QoS limits.
    pub qos: QosEdit,
    /// Percentage of the volume's size for the space alert.
    pub threshold_percent: Option<Option<u8>>,
}

impl Draft {
    /// Changes the name and the settings of the array.
    pub fn edit_array_settings(&mut self, edit: &ArrayEdit) -> Result<(), CatalogError> {
        edit.name.as_deref().map_or(Ok(()), check_name)?;
        if edit.eradication_delay_ms.is_some_and(|delay| !ERADICATION_DELAYS_MS.contains(&delay)) {
            return Err(bad("eradication delay must be 1 second to 30 days"));
        }
        if edit.scrub_interval_ms.flatten().is_some_and(|interval| !SCRUB_INTERVALS_MS.contains(&interval)) {
            return Err(bad("scrub interval must be 1 hour to 366 days"));
        }
        if edit.scrub_bytes_per_second.is_some_and(|rate| rate < MIN_SCRUB_BYTES_PER_SECOND) {
            return Err(bad("scrub pace must be 1 MiB per second or more"));
        }
        check_threshold(edit.threshold_percent)?;
        self.edit_array(|array| {
            if let Some(name) = &edit.name {
                array.name.clone_from(name);
            }
            let settings = &mut array.settings;
            settings.eradication_delay_ms = edit.eradication_delay_ms.unwrap_or(settings.eradication_delay_ms);
            settings.threshold_percent = edit.threshold_percent.unwrap_or(settings.threshold_percent);
            let scrub = &mut settings.scrub;
            scrub.interval_ms = edit.scrub_interval_ms.unwrap_or(scrub.interval_ms);
            scrub.bytes_per_second = edit.scrub_bytes_per_second.unwrap_or(scrub.bytes_per_second);
        })
    }

    /// Records the end of a scrub.
    pub fn record_scrub(&mut self, now_ms: u64) -> Result<(), CatalogError> {
        self.edit_array(|array| array.last_scrub_ms = Some(now_ms))
    }

    /// Records that the wall clock was set, or that this no longer matters. The time served is
    /// stored with it.
    pub fn record_clock_jump(&mut self, jump: Option<ClockJump>) -> Result<(), CatalogError> {
        self.store_served_time()?;
        self.edit_array(|array| array.clock_jump = jump)
    }

    /// Changes the limits and the space alert of a volume.
    pub fn edit_volume(&mut self, name: &str, edit: &VolumeEdit) -> Result<Arc<Volume>, CatalogError> {
        let mut volume = self.live_volume(name)?;
        check_threshold(edit.threshold_percent)?;
        volume.qos = edit.qos.applied_to(volume.qos)?;
        volume.threshold_percent = edit.threshold_percent.unwrap_or(volume.threshold_percent);
        self.store_volume(volume)
    }
}

fn check_threshold(percent: Option<Option<u8>>) -> Result<(), CatalogError> {
    match percent.flatten() {
        Some(percent) if !(1..=100).contains(&percent) => Err(bad("threshold must be 1 to 100 percent")),
        _ => Ok(()),
    }
}

fn bad(reason: &'static str) -> CatalogError {
    CatalogError::BadSetting { reason }
}
