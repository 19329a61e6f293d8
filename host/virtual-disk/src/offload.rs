//! ESXi's rules for copies through the host although the array supports EXTENDED COPY.

use crate::descriptor::CreateType;
use crate::format::DiskFormat;
use thiserror::Error;

/// The properties of one end of a copy that the rules depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyEnd {
    /// Block size of the datastore in bytes.
    pub block_bytes: u32,
    /// Type of the disk from its descriptor.
    pub kind: CreateType,
    /// Format of the disk.
    pub format: DiskFormat,
    /// The arrays that have all extents of its datastore, by target name. Two arrays of a pod have
    /// its volumes.
    pub arrays: Vec<String>,
}

/// A copy to check against the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPlan {
    /// The source.
    pub source: CopyEnd,
    /// The destination.
    pub destination: CopyEnd,
    /// Whether the virtual machine that receives the disk has snapshots.
    pub target_has_snapshots: bool,
}

/// Why a copy goes through the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum OffloadForbidden {
    /// The datastores have different block sizes.
    #[error("the source and destination VMFS volumes have different block sizes")]
    BlockSizes,
    /// An RDM would become a virtual disk.
    #[error("the source file type is RDM and the destination file type is a virtual disk")]
    RdmToVirtualDisk,
    /// An eager-zeroed disk would become a thin one.
    #[error("the source virtual disk type is eagerzeroedthick and the destination virtual disk type is thin")]
    EagerZeroedToThin,
    /// The blocks are not at the file's offsets.
    #[error("the source or destination virtual disk is a sparse or hosted format")]
    SparseOrHosted,
    /// The disk does not contain all the data that the machine sees.
    #[error("the target virtual machine has snapshots")]
    Snapshots,
    /// No single array has the whole datastore.
    #[error("the VMFS datastore has extents on different arrays")]
    ExtentsOnArrays,
    /// No array has both ends.
    #[error("the copy is between one array and another")]
    BetweenArrays,
}

/// Returns the first rule that excludes EXTENDED COPY for this copy, in the order of VMware's
/// guide; `None` if it may be used.
pub fn forbidden(plan: &CopyPlan) -> Option<OffloadForbidden> {
    let (source, destination) = (&plan.source, &plan.destination);
    let sparse = |end: &CopyEnd| end.kind.is_hosted() || end.kind == CreateType::Snapshot;
    let has_both = source.arrays.iter().any(|array| destination.arrays.contains(array));
    let rules = [
        (source.block_bytes != destination.block_bytes, OffloadForbidden::BlockSizes),
        (
            source.kind == CreateType::RawDeviceMap && destination.kind != CreateType::RawDeviceMap,
            OffloadForbidden::RdmToVirtualDisk,
        ),
        (
            source.format == DiskFormat::EagerZeroedThick
                && destination.format == DiskFormat::Thin
                && !destination.kind.is_hosted_sparse(),
            OffloadForbidden::EagerZeroedToThin,
        ),
        (sparse(source) || sparse(destination), OffloadForbidden::SparseOrHosted),
        (plan.target_has_snapshots, OffloadForbidden::Snapshots),
        (source.arrays.is_empty() || destination.arrays.is_empty(), OffloadForbidden::ExtentsOnArrays),
        (!has_both, OffloadForbidden::BetweenArrays),
    ];
    rules.into_iter().find_map(|(applies, rule)| applies.then_some(rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end() -> CopyEnd {
        CopyEnd {
            block_bytes: 1 << 20,
            kind: CreateType::Vmfs,
            format: DiskFormat::ZeroedThick,
            arrays: vec!["iqn.2026-11.org.ibid:a".into()],
        }
    }

    fn judge(change: impl FnOnce(&mut CopyPlan)) -> Option<OffloadForbidden> {
        let mut plan = CopyPlan { source: end(), destination: end(), target_has_snapshots: false };
        change(&mut plan);
        forbidden(&plan)
    }

    #[test]
    fn copy_without_obstacles_is_offloaded() {
        assert_eq!(judge(|_| ()), None);
        assert_eq!(judge(|p| p.source.format = DiskFormat::Thin), None);
        assert_eq!(judge(|p| p.destination.format = DiskFormat::EagerZeroedThick), None);
    }

    #[test]
    fn different_block_sizes_forbid_offload() {
        assert_eq!(judge(|p| p.source.block_bytes = 8 << 20), Some(OffloadForbidden::BlockSizes));
    }

    #[test]
    fn only_rdm_to_virtual_disk_forbids_offload() {
        assert_eq!(judge(|p| p.source.kind = CreateType::RawDeviceMap), Some(OffloadForbidden::RdmToVirtualDisk));
        let both = judge(|p| {
            p.source.kind = CreateType::RawDeviceMap;
            p.destination.kind = CreateType::RawDeviceMap;
        });
        assert_eq!(both, None);
    }

    #[test]
    fn only_eagerzeroedthick_to_thin_forbids_offload() {
        let to_thin = |format| {
            judge(|p| {
                p.source.format = format;
                p.destination.format = DiskFormat::Thin;
            })
        };
        assert_eq!(to_thin(DiskFormat::EagerZeroedThick), Some(OffloadForbidden::EagerZeroedToThin));
        assert_eq!(to_thin(DiskFormat::ZeroedThick), None);
        assert_eq!(to_thin(DiskFormat::Thin), None);
    }

    #[test]
    fn sparse_and_hosted_formats_forbid_offload() {
        assert_eq!(judge(|p| p.source.kind = CreateType::Hosted), Some(OffloadForbidden::SparseOrHosted));
        assert_eq!(judge(|p| p.source.kind = CreateType::HostedFlat), Some(OffloadForbidden::SparseOrHosted));
        assert_eq!(judge(|p| p.destination.kind = CreateType::Snapshot), Some(OffloadForbidden::SparseOrHosted));
        let to_sparse = judge(|p| {
            p.source.format = DiskFormat::EagerZeroedThick;
            p.destination.format = DiskFormat::Thin;
            p.destination.kind = CreateType::SplitSparse;
        });
        assert_eq!(to_sparse, Some(OffloadForbidden::SparseOrHosted));
    }

    #[test]
    fn snapshots_of_the_target_machine_forbid_offload() {
        assert_eq!(judge(|p| p.target_has_snapshots = true), Some(OffloadForbidden::Snapshots));
    }

    #[test]
    fn extents_on_several_arrays_forbid_offload() {
        assert_eq!(judge(|p| p.source.arrays.clear()), Some(OffloadForbidden::ExtentsOnArrays));
        assert_eq!(judge(|p| p.destination.arrays.clear()), Some(OffloadForbidden::ExtentsOnArrays));
    }

    #[test]
    fn copy_between_arrays_forbids_offload() {
        let between = judge(|p| p.destination.arrays = vec!["iqn.2026-11.org.ibid:b".into()]);
        assert_eq!(between, Some(OffloadForbidden::BetweenArrays));
    }

    #[test]
    fn volumes_of_a_pod_are_on_both_of_its_arrays() {
        let [a, b, c] = ["a", "b", "c"].map(|array| format!("iqn.2026-11.org.ibid:{array}"));
        let copy = |from: &[&String], to: &[&String]| {
            judge(|p| {
                p.source.arrays = from.iter().map(|array| (*array).clone()).collect();
                p.destination.arrays = to.iter().map(|array| (*array).clone()).collect();
            })
        };
        assert_eq!(copy(&[&a, &b], &[&b, &a]), None, "within a pod, opened by way of different arrays");
        assert_eq!(copy(&[&b], &[&a, &b]), None, "into a pod");
        assert_eq!(copy(&[&a, &b], &[&a]), None, "out of a pod");
        assert_eq!(copy(&[&a, &b], &[&c]), Some(OffloadForbidden::BetweenArrays));
    }
}
