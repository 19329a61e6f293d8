//! Rules that choose the path selection policy of newly claimed devices.

use crate::error::HostError;
use crate::host::EsxiHost;
use crate::record::SatpRule;

/// The most rules of a host.
const MAX_RULES: usize = 256;

impl EsxiHost {
    /// Returns the rules in the order of their creation; the first that matches is used.
    pub fn satp_rules(&self) -> Vec<SatpRule> {
        self.state().satp_rules
    }

    /// Adds a rule for devices that are claimed later.
    ///
    /// # Errors
    /// Fails if the rule exists or the host has too many.
    pub fn add_satp_rule(&self, rule: &SatpRule) -> Result<(), HostError> {
        let rules = self.satp_rules();
        if rules.len() >= MAX_RULES || rules.iter().any(|other| other.is_same(rule)) {
            return Err(HostError::DuplicateRule);
        }
        self.change(|state| state.satp_rules.push(rule.clone()))
    }

    /// Removes the rule of the same plug-in, vendor and model.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn remove_satp_rule(&self, rule: &SatpRule) -> Result<(), HostError> {
        if !self.satp_rules().iter().any(|other| other.is_same(rule)) {
            return Err(HostError::NoRule);
        }
        self.change(|state| state.satp_rules.retain(|other| !other.is_same(rule)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multipath::PathPolicy;

    fn rule(vendor: &str, model: &str) -> SatpRule {
        SatpRule {
            satp: "VMW_SATP_ALUA".to_owned(),
            vendor: vendor.to_owned(),
            model: model.to_owned(),
            policy: PathPolicy::MostRecentlyUsed,
            description: String::new(),
        }
    }

    #[test]
    fn rules_match_vendor_and_model() {
        assert!(rule("IBID", "").matches("IBID    ", "Volume"));
        assert!(rule("IBID", "Vol*").matches("IBID", "Volume          "));
        assert!(!rule("IBID", "Vol").matches("IBID", "Volume"));
        assert!(!rule("PURE", "*").matches("IBID", "Volume"));
    }

    #[test]
    fn rules_are_unique_by_plugin_vendor_and_model() {
        let host = EsxiHost::transient("esx01").unwrap();
        host.add_satp_rule(&rule("IBID", "")).unwrap();
        assert!(matches!(host.add_satp_rule(&rule("IBID", "")), Err(HostError::DuplicateRule)));
        host.add_satp_rule(&rule("IBID", "Volume")).unwrap();
        host.remove_satp_rule(&rule("IBID", "")).unwrap();
        assert!(matches!(host.remove_satp_rule(&rule("IBID", "")), Err(HostError::NoRule)));
        assert_eq!(host.satp_rules(), [rule("IBID", "Volume")]);
    }
}
