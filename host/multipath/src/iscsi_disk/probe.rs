//! What is asked of a logical unit before it is used.

use super::path_config::PathConfig;
use super::policy::PathState;
use crate::disk::DeviceLimits;
use crate::identity::{DiskIdentity, esxi_name};
use initiator::{ConnectError, LogicalUnit, RunError, Session};
use scsi::copy::OperatingParameters;
use thiserror::Error;

/// The most blocks that the fields of READ(16) and WRITE(16) are used for where the unit tells no limit: 32 MiB.
const TRANSFER_BLOCKS: u64 = 65_536;
/// Blocks of a WRITE SAME or UNMAP where no limit is told: what the 32-bit fields can say.
const FIELD_BLOCKS: u64 = u32::MAX as u64;
/// Blocks of one segment of a copy: a 16-bit field (SPC-4 6.4.6.4).
const SEGMENT_BLOCKS: u64 = u16::MAX as u64;

/// Why a path leads nowhere.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No path was given.
    #[error("no path to the device is given")]
    NoPath,
    /// No session.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The unit did not answer as a disk does.
    #[error("LUN {lun} of {target}: {error}")]
    Unit {
        /// The unit's number.
        lun: u16,
        /// The target's name.
        target: String,
        /// What went wrong.
        error: RunError,
    },
    /// The paths lead to different units.
    #[error("the paths lead to different devices: {one} and {other}")]
    Different {
        /// One of them.
        one: String,
        /// Another.
        other: String,
    },
}

/// A logical unit as a session shows it.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) identity: DiskIdentity,
    pub(super) unit: LogicalUnit,
    pub(super) limits: DeviceLimits,
    pub(super) state: PathState,
    pub(super) group: Option<u16>,
}

/// Logs in and asks.
pub(super) async fn probe(place: &PathConfig) -> Result<(Session, Probe), OpenError> {
    let mut session = Session::connect(&place.config).await?;
    let target = place.config.target.clone();
    match ask(&mut session, place).await {
        Ok(probe) => Ok((session, probe)),
        Err(error) => Err(OpenError::Unit { lun: place.lun.number(), target, error }),
    }
}

async fn ask(session: &mut Session, place: &PathConfig) -> Result<Probe, RunError> {
    let unit = session.open_unit(place.lun).await?;
    let inquiry = session.inquiry(place.lun).await?;
    let serial = session.unit_serial(place.lun).await?.unwrap_or_default();
    let solid_state = session.is_solid_state(place.lun).await?;
    let group = session.port_group(place.lun).await?;
    let copy = match session.copy_limits(place.lun).await {
        Ok(copy) => Some(copy),
        // What it does not tell, it may still do: the limits of the commands' fields count then.
        Err(RunError::Refused(_)) => None,
        Err(error) => return Err(error),
    };
    let named = unit.name.as_ref().map(esxi_name);
    let identity = DiskIdentity {
        // ESXi names a unit that has no name of its own by the path to it.
        name: named.unwrap_or_else(|| format!("mpx.vmhba64:C0:T0:L{}", place.lun)),
        designator: unit.name.clone(),
        vendor: inquiry.vendor,
        product: inquiry.product,
        revision: inquiry.revision,
        serial,
        array: place.config.target.clone(),
        block_bytes: unit.block_bytes,
        blocks: unit.blocks,
        scsi_level: inquiry.version,
        thin: unit.limits.unmap,
        solid_state,
    };
    let limits = limits(&unit, copy.as_ref());
    let state = group.as_ref().map_or(PathState::Active, |group| PathState::of(group.state));
    Ok(Probe { identity, unit, limits, state, group: group.map(|group| group.id) })
}

/// The limits to reckon with: what is told, and what the fields can say where nothing is.
fn limits(unit: &LogicalUnit, copy: Option<&OperatingParameters>) -> DeviceLimits {
    let told = |value: u64, otherwise: u64| if value == 0 { otherwise } else { value.min(otherwise) };
    let block = u64::from(unit.block_bytes.max(1));
    let segments = copy.map_or(1, |copy| u64::from(copy.max_segments.max(1)));
    let segment = copy.map_or(SEGMENT_BLOCKS, |copy| told(u64::from(copy.max_segment_bytes) / block, SEGMENT_BLOCKS));
    DeviceLimits {
        transfer_blocks: told(unit.limits.max_transfer, TRANSFER_BLOCKS) as u32,
        compare_blocks: u32::from(unit.limits.compare_and_write.max(1)),
        write_same_blocks: told(unit.limits.max_write_same, FIELD_BLOCKS),
        unmap_blocks: told(u64::from(unit.limits.max_unmap_blocks), FIELD_BLOCKS),
        unmap_ranges: told(u64::from(unit.limits.max_unmap_runs), u64::from(u16::MAX / 16)).max(1) as usize,
        copy_blocks: segments * segment,
        copy_runs: segments as usize,
        copy_run_blocks: segment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use initiator::UnitLimits;

    #[test]
    fn what_is_not_told_is_what_fields_can_say() {
        let silent = LogicalUnit { block_bytes: 512, ..LogicalUnit::default() };
        let expected = DeviceLimits {
            transfer_blocks: 65_536,
            compare_blocks: 1,
            write_same_blocks: 0xffff_ffff,
            unmap_blocks: 0xffff_ffff,
            unmap_ranges: 4095,
            copy_blocks: 65_535,
            copy_runs: 1,
            copy_run_blocks: 65_535,
        };
        assert_eq!(limits(&silent, None), expected);
        let told =
            UnitLimits { max_transfer: 8192, compare_and_write: 255, max_write_same: 2048, ..UnitLimits::default() };
        let unit = LogicalUnit { limits: told, ..silent };
        let copy = OperatingParameters { max_segments: 2, max_segment_bytes: 1 << 20, ..OperatingParameters::ours() };
        let found = limits(&unit, Some(&copy));
        assert_eq!((found.transfer_blocks, found.compare_blocks, found.write_same_blocks), (8192, 255, 2048));
        assert_eq!((found.copy_runs, found.copy_run_blocks, found.copy_blocks), (2, 2048, 4096));
    }
}
