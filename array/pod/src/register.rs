//! The mediator's register of a pod, as an array sees it.

use crate::state::{Epoch, Side};

/// The register: an epoch and its owner. It changes by compare-and-swap only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register {
    /// Epoch of the last change.
    pub epoch: Epoch,
    /// The array that may serve.
    pub owner: Owner,
}

/// Owner in the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Neither array has asked.
    Both,
    /// One array continues alone.
    One(Side),
    /// The pod is not stretched any more. Permanent.
    Retired,
}

/// A question to the mediator. Its outcome may be unknown: a swap can be carried out after its
/// caller has given up. The next answer shows that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Read the register.
    Read,
    /// Replace it if it has the expected value.
    Swap {
        /// The expected value.
        expected: Register,
        /// The new value.
        new: Register,
    },
}

/// The mediator's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The register after the question, which may be the expected value, the new one or another.
    Is(Register),
    /// No answer in time, another instance of the mediator, or one without this register.
    Unreachable,
}
