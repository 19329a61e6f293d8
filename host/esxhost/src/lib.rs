//! One simulated ESXi host: its advanced settings, the devices that it has claimed, and the log that it writes.
#![forbid(unsafe_code)]
