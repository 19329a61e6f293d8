//! ESXi's advanced settings for storage offloads, with ESXi's names, defaults and limits.

use crate::error::SettingError;
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// An advanced setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// Copies by EXTENDED COPY (1) or through the host (0).
    HardwareAcceleratedMove,
    /// Zeroes by WRITE SAME (1) or by WRITE (0).
    HardwareAcceleratedInit,
    /// The largest EXTENDED COPY, in KiB.
    MaxHwTransferSize,
    /// How long commands wait for a path when all are down, in seconds.
    ApdTimeout,
    /// UNMAP from guests is passed to the array (1) or not (0).
    EnableBlockDelete,
    /// Locks by COMPARE AND WRITE (1) or by reserving the whole device (0).
    HardwareAcceleratedLocking,
    /// Heartbeats by COMPARE AND WRITE (1) or by reads and writes (0).
    UseAtsForHeartbeat,
}

/// The definition of a setting, in ESXi's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingDefinition {
    /// The path.
    pub path: &'static str,
    /// Default value.
    pub default: i64,
    /// Lowest value.
    pub min: i64,
    /// Highest value.
    pub max: i64,
    /// Description.
    pub description: &'static str,
}

impl SettingDefinition {
    /// Returns the last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

const fn flag(path: &'static str, default: i64, description: &'static str) -> SettingDefinition {
    SettingDefinition { path, default, min: 0, max: 1, description }
}

impl Setting {
    /// All settings in the order of lists.
    pub const ALL: [Self; 7] = [
        Self::HardwareAcceleratedMove,
        Self::HardwareAcceleratedInit,
        Self::MaxHwTransferSize,
        Self::ApdTimeout,
        Self::EnableBlockDelete,
        Self::HardwareAcceleratedLocking,
        Self::UseAtsForHeartbeat,
    ];

    /// Returns the definition.
    pub const fn definition(self) -> SettingDefinition {
        match self {
            Self::HardwareAcceleratedMove => flag(
                "/DataMover/HardwareAcceleratedMove",
                1,
                "Enable hardware accelerated VMFS data movement (requires compliant hardware)",
            ),
            Self::HardwareAcceleratedInit => flag(
                "/DataMover/HardwareAcceleratedInit",
                1,
                "Enable hardware accelerated VMFS data initialization (requires compliant hardware)",
            ),
            Self::MaxHwTransferSize => SettingDefinition {
                path: "/DataMover/MaxHWTransferSize",
                default: 4096,
                min: 512,
                max: 16_384,
                description: "Maximum transfer size in KB to use for hardware accelerated data movement",
            },
            Self::ApdTimeout => SettingDefinition {
                path: "/Misc/APDTimeout",
                default: 140,
                min: 20,
                max: 99_999,
                description: "Number of seconds that I/O waits for a path to a device with all paths down",
            },
            Self::EnableBlockDelete => {
                flag("/VMFS3/EnableBlockDelete", 0, "Enable VMFS block delete when UNMAP is issued from guest OS")
            }
            Self::HardwareAcceleratedLocking => {
                flag("/VMFS3/HardwareAcceleratedLocking", 1, "Enable hardware accelerated VMFS locking")
            }
            Self::UseAtsForHeartbeat => {
                flag("/VMFS3/UseATSForHBOnVMFS5", 1, "Use ATS for HB on ATS supported VMFS5 volumes")
            }
        }
    }

    /// Returns the setting with this path, case-insensitive.
    pub fn find(path: &str) -> Result<Self, SettingError> {
        let found = Self::ALL.into_iter().find(|setting| setting.definition().path.eq_ignore_ascii_case(path));
        found.ok_or_else(|| SettingError::Unknown(path.to_owned()))
    }
}

/// The settings of one host.
#[derive(Debug, Default)]
pub struct Settings(RwLock<BTreeMap<Setting, i64>>);

impl Settings {
    /// Returns the value of a setting.
    pub fn get(&self, setting: Setting) -> i64 {
        self.0.read().get(&setting).copied().unwrap_or(setting.definition().default)
    }

    /// Returns whether a setting is 1.
    pub fn is_on(&self, setting: Setting) -> bool {
        self.get(setting) == 1
    }

    /// Checks a value against the setting's limits.
    pub fn check(setting: Setting, value: i64) -> Result<(), SettingError> {
        let SettingDefinition { path, min, max, .. } = setting.definition();
        if (min..=max).contains(&value) { Ok(()) } else { Err(SettingError::OutOfRange { path, value, min, max }) }
    }

    /// Replaces all changed values with these, by path.
    pub(crate) fn load(&self, values: &BTreeMap<String, i64>) -> Result<(), SettingError> {
        let mut own = self.0.write();
        let known = |(path, value): (&String, &i64)| {
            let setting = Setting::find(path)?;
            Self::check(setting, *value)?;
            Ok((setting, *value))
        };
        *own = values.iter().map(known).collect::<Result<_, SettingError>>()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_match_esxi() {
        let settings = Settings::default();
        let values: Vec<i64> = Setting::ALL.iter().map(|setting| settings.get(*setting)).collect();
        assert_eq!(values, [1, 1, 4096, 140, 0, 1, 1]);
    }

    #[test]
    fn setting_paths_are_case_insensitive() {
        assert_eq!(Setting::find("/VMFS3/useATSForHBOnVMFS5"), Ok(Setting::UseAtsForHeartbeat));
        assert_eq!(Setting::find("/DataMover/MaxHWTransferSize"), Ok(Setting::MaxHwTransferSize));
        assert_eq!(Setting::find("/VMFS3/Nothing"), Err(SettingError::Unknown("/VMFS3/Nothing".into())));
    }

    #[test]
    fn setting_values_are_checked_against_limits() {
        for (setting, value, possible) in [
            (Setting::MaxHwTransferSize, 16_384, true),
            (Setting::MaxHwTransferSize, 16_385, false),
            (Setting::MaxHwTransferSize, 511, false),
            (Setting::EnableBlockDelete, 1, true),
            (Setting::EnableBlockDelete, -1, false),
        ] {
            assert_eq!(Settings::check(setting, value).is_ok(), possible, "{setting:?} {value}");
        }
    }

    #[test]
    fn stored_settings_load_by_path() {
        let settings = Settings::default();
        settings.load(&[("/VMFS3/EnableBlockDelete".to_owned(), 1)].into()).unwrap();
        settings.load(&[("/DataMover/MaxHWTransferSize".to_owned(), 16_384)].into()).unwrap();
        let values = (settings.get(Setting::MaxHwTransferSize), settings.is_on(Setting::EnableBlockDelete));
        assert_eq!(values, (16_384, false));
        assert!(settings.load(&[("/No/Such".to_owned(), 1)].into()).is_err());
        assert!(settings.load(&[("/VMFS3/EnableBlockDelete".to_owned(), 7)].into()).is_err());
    }
}
