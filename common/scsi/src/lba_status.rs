//! GET LBA STATUS data (SBC-4 5.8).

use crate::be::{get_u32, get_u64, to_u32};
use types::Lba;

const HEADER_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;
/// The bytes that PARAMETER DATA LENGTH does not count.
const UNCOUNTED_BYTES: usize = 4;

/// PROVISIONING STATUS (SBC-4 table 69).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ProvisioningStatus {
    /// The blocks hold data or may hold data.
    Mapped = 0x0,
    /// The blocks hold no data and read as zeros.
    Deallocated = 0x1,
    /// The blocks hold no data, but space is reserved for them.
    Anchored = 0x2,
}

/// One run of blocks of equal status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRun {
    /// First block.
    pub lba: Lba,
    /// Number of blocks.
    pub blocks: u32,
    /// What the blocks hold.
    pub status: ProvisioningStatus,
}

/// Returns how many runs fit in an allocation length: the most that the array looks up. At least
/// one, so that the header of a short response states the length of one descriptor.
pub fn runs_for_allocation(allocation: u32) -> usize {
    (allocation as usize).saturating_sub(HEADER_BYTES).div_ceil(DESCRIPTOR_BYTES).max(1)
}

/// Encodes these runs, before truncation to the allocation length.
pub fn build_lba_status(runs: &[StatusRun]) -> Vec<u8> {
    let total = HEADER_BYTES + runs.len() * DESCRIPTOR_BYTES;
    let mut out = Vec::with_capacity(total);
    out.extend(to_u32(total - UNCOUNTED_BYTES).to_be_bytes());
    out.extend([0; 4]);
    for run in runs {
        out.extend(run.lba.0.to_be_bytes());
        out.extend(run.blocks.to_be_bytes());
        out.extend([run.status as u8, 0, 0, 0]);
    }
    out
}

/// Decodes GET LBA STATUS data; `None` if the header is cut. Decodes the available part of data cut
/// later. An unknown status counts as mapped.
pub fn parse_lba_status(bytes: &[u8]) -> Option<Vec<StatusRun>> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let length = (get_u32(header, 0) as usize).saturating_sub(HEADER_BYTES - UNCOUNTED_BYTES);
    let (descriptors, _) = rest[..length.min(rest.len())].as_chunks::<DESCRIPTOR_BYTES>();
    let runs = descriptors.iter().map(|descriptor| StatusRun {
        lba: Lba(get_u64(descriptor, 0)),
        blocks: get_u32(descriptor, 8),
        status: match descriptor[12] & 0x0f {
            0x1 => ProvisioningStatus::Deallocated,
            0x2 => ProvisioningStatus::Anchored,
            _ => ProvisioningStatus::Mapped,
        },
    });
    Some(runs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lba_status_round_trips_whole_and_cut() {
        let runs = vec![
            StatusRun { lba: Lba(0), blocks: 8, status: ProvisioningStatus::Mapped },
            StatusRun { lba: Lba(8), blocks: u32::MAX, status: ProvisioningStatus::Deallocated },
        ];
        let data = build_lba_status(&runs);
        assert_eq!(data[..8], [0, 0, 0, 36, 0, 0, 0, 0]);
        assert_eq!(data[24..], [0, 0, 0, 0, 0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
        assert_eq!(parse_lba_status(&data).as_deref(), Some(runs.as_slice()));
        assert_eq!(parse_lba_status(&data[..39]).as_deref(), Some(&runs[..1]));
        assert_eq!(parse_lba_status(&data[..7]), None);
    }

    #[test]
    fn allocation_length_bounds_the_lookup() {
        for (allocation, runs) in [(0, 1), (8, 1), (24, 1), (25, 2), (40, 2), (24 + 16 * 9, 10)] {
            assert_eq!(runs_for_allocation(allocation), runs, "{allocation}");
        }
    }
}
