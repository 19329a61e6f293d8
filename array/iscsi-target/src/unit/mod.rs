//! Logical units: the state that all sessions of a volume share.

pub(crate) mod limits;
pub(crate) mod logical_unit;
pub(crate) mod qos;
pub(crate) mod reservation;
pub(crate) mod thresholds;
pub(crate) mod view;
