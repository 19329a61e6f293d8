//! The datastore in a world of its own: many hosts, one LUN, a seed. Hosts crash with commands on their way, lose their
//! path, stop for longer than their lease, have clocks that run too fast or too slow; commands get lost, take long, and are
//! done without anybody learning of it. An oracle looks that no file ever has two owners, that nothing acknowledged is lost,
//! and that in the end every lock can be had and all metadata fit together.

mod campaign;
mod disk;
mod oracle;
mod random;
mod torture;
mod workload;
mod world;

pub use campaign::{Campaign, Outcome};
pub use torture::{Connect, Torture, TortureOutcome};

#[cfg(test)]
mod tests;
