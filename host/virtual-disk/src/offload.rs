//! The rules by which ESXi copies through the host although the array knows EXTENDED COPY.

use crate::descriptor::CreateType;
use crate::format::Format;
use thiserror::Error;

/// One end of a copy, as far as the rules look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyEnd {
    /// Bytes of a block of the datastore.
    pub block_bytes: u32,
    /// What the disk's descriptor says it is.
    pub kind: CreateType,
    /// How its blocks are provided.
    pub format: Format,
    /// The arrays that hold the extents of its datastore: the target of each, never empty.
    pub arrays: Vec<String>,
}

/// A copy that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPlan {
    /// What is read.
    pub source: CopyEnd,
    /// What is written.
    pub destination: CopyEnd,
    /// True when the virtual machine that receives the disk has snapshots.
    pub target_has_snapshots: bool,
}

/// Why a copy goes through the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Forbidden {
    /// The datastores cut their space differently.
    #[error("the source and destination VMFS volumes have different block sizes")]
    BlockSizes,
    /// A whole LUN becomes a file.
    #[error("the source file type is RDM and the destination file type is a virtual disk")]
    RdmToVirtualDisk,
    /// The copy would make room that the array had zeroed.
    #[error("the source virtual disk type is eagerzeroedthick and the destination virtual disk type is thin")]
    EagerZeroedToThin,
    /// The bytes are not where the file's offsets say.
    #[error("the source or destination virtual disk is a sparse or hosted format")]
    SparseOrHosted,
    /// The disk is not all of what the machine sees.
    #[error("the target virtual machine has snapshots")]
    Snapshots,
    /// No single array sees the whole datastore.
    #[error("the VMFS datastore has extents on different arrays")]
    ExtentsOnArrays,
    /// No array sees both ends.
    #[error("the copy is between one array and another")]
    BetweenArrays,
}

/// The first rule that forbids EXTENDED COPY for this copy, in the order in which the vendor's guide lists them; `None`
/// when it may be used.
pub fn forbidden(plan: &CopyPlan) -> Option<Forbidden> {
    let (source, destination) = (&plan.source, &plan.destination);
    let sparse = |end: &CopyEnd| matches!(end.kind, CreateType::Hosted | CreateType::Snapshot);
    let spread = |end: &CopyEnd| end.arrays.iter().any(|array| Some(array) != end.arrays.first());
    let rules = [
        (source.block_bytes != destination.block_bytes, Forbidden::BlockSizes),
        (
            source.kind == CreateType::RawDeviceMap && destination.kind != CreateType::RawDeviceMap,
            Forbidden::RdmToVirtualDisk,
        ),
        (source.format == Format::EagerZeroedThick && destination.format == Format::Thin, Forbidden::EagerZeroedToThin),
        (sparse(source) || sparse(destination), Forbidden::SparseOrHosted),
        (plan.target_has_snapshots, Forbidden::Snapshots),
        (spread(source) || spread(destination), Forbidden::ExtentsOnArrays),
        (source.arrays.first() != destination.arrays.first(), Forbidden::BetweenArrays),
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
            format: Format::ZeroedThick,
            arrays: vec!["iqn.2026-11.org.ibid:a".into()],
        }
    }

    fn judge(change: impl FnOnce(&mut CopyPlan)) -> Option<Forbidden> {
        let mut plan = CopyPlan { source: end(), destination: end(), target_has_snapshots: false };
        change(&mut plan);
        forbidden(&plan)
    }

    #[test]
    fn an_ordinary_copy_is_offloaded() {
        assert_eq!(judge(|_| ()), None);
        assert_eq!(judge(|p| p.source.format = Format::Thin), None);
        assert_eq!(judge(|p| p.destination.format = Format::EagerZeroedThick), None);
    }

    #[test]
    fn different_block_sizes_forbid() {
        assert_eq!(judge(|p| p.source.block_bytes = 8 << 20), Some(Forbidden::BlockSizes));
    }

    #[test]
    fn rdm_to_virtual_disk_forbids_and_rdm_to_rdm_does_not() {
        assert_eq!(judge(|p| p.source.kind = CreateType::RawDeviceMap), Some(Forbidden::RdmToVirtualDisk));
        let both = judge(|p| {
            p.source.kind = CreateType::RawDeviceMap;
            p.destination.kind = CreateType::RawDeviceMap;
        });
        assert_eq!(both, None);
    }

    #[test]
    fn eagerzeroedthick_to_thin_forbids_and_zeroedthick_to_thin_does_not() {
        let to_thin = |format| {
            judge(|p| {
                p.source.format = format;
                p.destination.format = Format::Thin;
            })
        };
        assert_eq!(to_thin(Format::EagerZeroedThick), Some(Forbidden::EagerZeroedToThin));
        assert_eq!(to_thin(Format::ZeroedThick), None);
        assert_eq!(to_thin(Format::Thin), None);
    }

    #[test]
    fn sparse_and_hosted_formats_forbid_at_either_end() {
        assert_eq!(judge(|p| p.source.kind = CreateType::Hosted), Some(Forbidden::SparseOrHosted));
        assert_eq!(judge(|p| p.destination.kind = CreateType::Snapshot), Some(Forbidden::SparseOrHosted));
    }

    #[test]
    fn snapshots_of_the_target_machine_forbid() {
        assert_eq!(judge(|p| p.target_has_snapshots = true), Some(Forbidden::Snapshots));
    }

    #[test]
    fn extents_on_several_arrays_forbid() {
        let spread = judge(|p| p.source.arrays.push("iqn.2026-11.org.ibid:b".into()));
        assert_eq!(spread, Some(Forbidden::ExtentsOnArrays));
        assert_eq!(judge(|p| p.source.arrays.push("iqn.2026-11.org.ibid:a".into())), None, "two LUNs of one array");
    }

    #[test]
    fn a_copy_between_arrays_forbids() {
        let between = judge(|p| p.destination.arrays = vec!["iqn.2026-11.org.ibid:b".into()]);
        assert_eq!(between, Some(Forbidden::BetweenArrays));
    }
}
