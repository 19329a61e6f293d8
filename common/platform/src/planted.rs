//! Rules that a simulator breaks on purpose, to show that it finds the consequence.

/// Whether the simulated world of the calling thread breaks the rule with this name. Always false
/// without the feature `simulation`.
#[cfg(feature = "simulation")]
pub fn is_planted(name: &str) -> bool {
    crate::simulation::is_planted(name)
}

/// Whether a simulated world breaks the rule with this name: never.
#[cfg(not(feature = "simulation"))]
#[inline]
pub const fn is_planted(_name: &str) -> bool {
    false
}
