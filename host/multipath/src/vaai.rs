//! Offload state of a device, as ESXi tracks it: unknown until first use, supported after the first
//! success, unsupported after a refusal.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An offload, by ESXi's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Primitive {
    /// Hardware assisted locking: COMPARE AND WRITE.
    Ats,
    /// Full copy: EXTENDED COPY.
    Clone,
    /// Block zero: WRITE SAME.
    Zero,
    /// Dead space reclamation: UNMAP.
    Delete,
}

impl Primitive {
    /// All offloads in the order of ESXi output.
    pub const ALL: [Self; 4] = [Self::Ats, Self::Clone, Self::Zero, Self::Delete];
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ats => "ATS",
            Self::Clone => "Clone",
            Self::Zero => "Zero",
            Self::Delete => "Delete",
        })
    }
}

/// Whether a device supports an offload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Support {
    /// Not tried yet.
    #[default]
    Unknown,
    /// It has worked.
    Supported,
    /// It was refused.
    Unsupported,
}

impl fmt::Display for Support {
    /// ESXi's word.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Supported => "supported",
            Self::Unsupported => "unsupported",
        })
    }
}

/// State of one offload of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrimitiveState {
    /// Learned support.
    pub support: Support,
    /// False if the administrator disabled the offload for this device.
    pub enabled: bool,
}

impl Default for PrimitiveState {
    fn default() -> Self {
        Self { support: Support::Unknown, enabled: true }
    }
}

/// State of the offloads of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VaaiStatus {
    /// COMPARE AND WRITE.
    pub ats: PrimitiveState,
    /// EXTENDED COPY.
    pub clone: PrimitiveState,
    /// WRITE SAME.
    pub zero: PrimitiveState,
    /// UNMAP.
    pub delete: PrimitiveState,
}

impl VaaiStatus {
    /// Returns the state of one offload.
    pub fn of(&self, primitive: Primitive) -> PrimitiveState {
        match primitive {
            Primitive::Ats => self.ats,
            Primitive::Clone => self.clone,
            Primitive::Zero => self.zero,
            Primitive::Delete => self.delete,
        }
    }

    /// Returns the state of one offload for modification.
    pub fn of_mut(&mut self, primitive: Primitive) -> &mut PrimitiveState {
        match primitive {
            Primitive::Ats => &mut self.ats,
            Primitive::Clone => &mut self.clone,
            Primitive::Zero => &mut self.zero,
            Primitive::Delete => &mut self.delete,
        }
    }

    /// Returns true if the host uses the offload: it is enabled and not known to be unsupported.
    pub fn is_usable(&self, primitive: Primitive) -> bool {
        let state = self.of(primitive);
        state.enabled && state.support != Support::Unsupported
    }

    /// Updates the state after a success or refusal. A refusal counts only before the first
    /// success: later ones concern the command, not the device.
    pub(crate) fn learn(&mut self, primitive: Primitive, worked: bool) {
        let support = &mut self.of_mut(primitive).support;
        *support = match (worked, *support) {
            (true, _) | (false, Support::Supported) => Support::Supported,
            (false, _) => Support::Unsupported,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_use_decides_offload_support() {
        let mut status = VaaiStatus::default();
        assert!(Primitive::ALL.iter().all(|p| status.of(*p).support == Support::Unknown && status.is_usable(*p)));
        status.learn(Primitive::Ats, true);
        status.learn(Primitive::Ats, false);
        status.learn(Primitive::Zero, false);
        assert_eq!((status.ats.support, status.zero.support), (Support::Supported, Support::Unsupported));
        assert!(!status.is_usable(Primitive::Zero));
        status.delete.enabled = false;
        assert!(!status.is_usable(Primitive::Delete) && status.is_usable(Primitive::Clone));
    }
}
