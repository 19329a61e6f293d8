//! The only door outside: sockets, files, clocks, chance. See ARCHITECTURE.md.

pub mod clock;
pub mod net;
