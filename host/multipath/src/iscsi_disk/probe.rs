//! Queries a logical unit before it is used.

use super::path_config::PathConfig;
use super::policy::PathState;
use super::retry::RetryRules;
use crate::disk::DeviceLimits;
use crate::identity::{DiskIdentity, esxi_name};
use initiator::{ConnectError, LogicalUnit, RunError, Session};
use scsi::copy::OperatingParameters;
use thiserror::Error;

/// Limit of READ(16) and WRITE(16) in blocks if the unit reports none: 32 MiB.
const TRANSFER_BLOCKS: u64 = 65_536;
/// Limit of WRITE SAME and UNMAP in blocks if the unit reports none: the 32-bit field.
const FIELD_BLOCKS: u64 = u32::MAX as u64;
/// Limit of one copy segment in blocks: a 16-bit field (SPC-4 6.4.6.4).
const SEGMENT_BLOCKS: u64 = u16::MAX as u64;

/// Why a disk could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No path was given.
    #[error("no path to the device specified")]
    NoPath,
    /// No session could be established.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The unit does not respond like a disk.
    #[error("cannot open LUN {lun} of {target}: {error}")]
    Unit {
        /// Logical unit number.
        lun: u16,
        /// iSCSI name of the target.
        target: String,
        /// Cause.
        error: RunError,
    },
    /// The paths lead to different units.
    #[error("paths lead to different devices: {one} and {other}")]
    Different {
        /// Device name on one path.
        one: String,
        /// Device name on another path.
        other: String,
    },
}

/// The result of a probe.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) identity: DiskIdentity,
    pub(super) unit: LogicalUnit,
    pub(super) limits: DeviceLimits,
    pub(super) state: PathState,
    pub(super) group: Option<u16>,
}

/// Retries of the query for each retry of a command: many hosts may open a disk at a time.
const OPEN_RETRIES: u32 = 10;

/// Logs in and queries the unit.
///
/// Another host may reserve the unit for a moment, such as for a lock on a target without COMPARE
/// AND WRITE. The query is repeated as a command is.
pub(super) async fn probe(config: &PathConfig, rules: &RetryRules) -> Result<(Session, Probe), OpenError> {
    let mut session = Session::connect(&config.config).await?;
    let mut conflicts = 0;
    loop {
        let error = match ask(&mut session, config).await {
            Ok(probe) => return Ok((session, probe)),
            Err(error) => error,
        };
        let is_conflict = matches!(&error, RunError::Refused(refusal) if refusal.is_conflict());
        if !is_conflict || conflicts == rules.conflict_retries.saturating_mul(OPEN_RETRIES) {
            let target = config.config.target.clone();
            return Err(OpenError::Unit { lun: config.lun.number(), target, error });
        }
        conflicts += 1;
        tokio::time::sleep(rules.conflict_pause).await;
    }
}

async fn ask(session: &mut Session, config: &PathConfig) -> Result<Probe, RunError> {
    let group = session.port_group(config.lun).await?;
    let state = group.as_ref().map_or(PathState::Active, |group| PathState::of(group.state));
    // A port that serves no data now may do so later.
    let unit = match state {
        PathState::Dead | PathState::Standby => session.describe_unit(config.lun).await?,
        PathState::Unoptimized | PathState::Active => session.open_unit(config.lun).await?,
    };
    let inquiry = session.inquiry(config.lun).await?;
    let serial = session.unit_serial(config.lun).await?.unwrap_or_default();
    let solid_state = session.is_solid_state(config.lun).await?;
    let copy = match session.copy_limits(config.lun).await {
        Ok(copy) => Some(copy),
        // A unit without copy limits may still copy; the limits of the command fields apply.
        Err(RunError::Refused(_)) => None,
        Err(error) => return Err(error),
    };
    let named = unit.name.as_ref().map(esxi_name);
    let identity = DiskIdentity {
        // ESXi names a unit without a designator by its path.
        name: named.unwrap_or_else(|| format!("mpx.vmhba64:C0:T0:L{}", config.lun)),
        designator: unit.name.clone(),
        vendor: inquiry.vendor,
        product: inquiry.product,
        revision: inquiry.revision,
        serial,
        arrays: vec![config.config.target.clone()],
        block_bytes: unit.block_bytes,
        blocks: unit.blocks,
        scsi_level: inquiry.version,
        thin: unit.limits.unmap,
        solid_state,
    };
    let limits = limits(&unit, copy.as_ref());
    Ok(Probe { identity, unit, limits, state, group: group.map(|group| group.id) })
}

/// Combines the reported limits with those of the command fields.
fn limits(unit: &LogicalUnit, copy: Option<&OperatingParameters>) -> DeviceLimits {
    let reported_or = |value: u64, otherwise: u64| if value == 0 { otherwise } else { value.min(otherwise) };
    let block = u64::from(unit.block_bytes.max(1));
    let segments = copy.map_or(1, |copy| u64::from(copy.max_segments.max(1)));
    let segment =
        copy.map_or(SEGMENT_BLOCKS, |copy| reported_or(u64::from(copy.max_segment_bytes) / block, SEGMENT_BLOCKS));
    DeviceLimits {
        transfer_blocks: reported_or(unit.limits.max_transfer, TRANSFER_BLOCKS) as u32,
        compare_blocks: u32::from(unit.limits.compare_and_write.max(1)),
        write_same_blocks: reported_or(unit.limits.max_write_same, FIELD_BLOCKS),
        unmap_blocks: reported_or(u64::from(unit.limits.max_unmap_blocks), FIELD_BLOCKS),
        unmap_ranges: reported_or(u64::from(unit.limits.max_unmap_runs), u64::from(u16::MAX / 16)).max(1) as usize,
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
    fn unreported_limits_come_from_command_fields() {
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
        let reported =
            UnitLimits { max_transfer: 8192, compare_and_write: 255, max_write_same: 2048, ..UnitLimits::default() };
        let unit = LogicalUnit { limits: reported, ..silent };
        let copy = OperatingParameters { max_segments: 2, max_segment_bytes: 1 << 20, ..OperatingParameters::ours() };
        let found = limits(&unit, Some(&copy));
        assert_eq!((found.transfer_blocks, found.compare_blocks, found.write_same_blocks), (8192, 255, 2048));
        assert_eq!((found.copy_runs, found.copy_run_blocks, found.copy_blocks), (2, 2048, 4096));
    }
}
