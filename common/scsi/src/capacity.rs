//! READ CAPACITY data (SBC-4 5.20, 5.21).

use crate::be::{get_u16, get_u32, get_u64, put, to_u8};
use types::{LBA_BYTES, LBAS_PER_BLOCK};

/// Bytes of READ CAPACITY(10) data.
pub const CAPACITY_10_BYTES: usize = 8;
/// Bytes of READ CAPACITY(16) data.
pub const CAPACITY_16_BYTES: usize = 32;
const LBPME: u16 = 0x8000;
const LBPRZ: u16 = 0x4000;
const LOWEST_ALIGNED: u16 = 0x3fff;

/// LOGICAL BLOCK LENGTH IN BYTES of all volumes.
#[expect(clippy::cast_possible_truncation, reason = "512")]
pub(crate) const LBA_BYTES_U32: u32 = LBA_BYTES as u32;

/// Size and block properties of a logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capacity {
    /// RETURNED LOGICAL BLOCK ADDRESS: the address of the last block.
    pub last_lba: u64,
    /// LOGICAL BLOCK LENGTH IN BYTES.
    pub block_bytes: u32,
    /// LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT.
    pub physical_exponent: u8,
    /// LOWEST ALIGNED LOGICAL BLOCK ADDRESS.
    pub lowest_aligned: u16,
    /// LBPME: thin provisioned.
    pub provisioning: bool,
    /// LBPRZ: unmapped blocks read as zeros.
    pub reads_zeros: bool,
}

impl Capacity {
    /// Returns the capacity of a volume of `blocks` logical blocks, at least one. It is thin
    /// provisioned, reads zeros where unmapped, and has physical blocks of 4 KiB aligned to LBA 0.
    pub fn of_volume(blocks: u64) -> Self {
        Self {
            last_lba: blocks.saturating_sub(1),
            block_bytes: LBA_BYTES_U32,
            physical_exponent: to_u8(LBAS_PER_BLOCK.ilog2() as usize),
            lowest_aligned: 0,
            provisioning: true,
            reads_zeros: true,
        }
    }

    /// Returns the size in bytes, or `None` if it does not fit in 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        self.last_lba.checked_add(1)?.checked_mul(u64::from(self.block_bytes))
    }

    /// Encodes READ CAPACITY(10) data. A capacity of FFFFFFFFh directs the host to READ
    /// CAPACITY(16) (SBC-4 5.20.2).
    pub fn to_bytes_10(&self) -> [u8; CAPACITY_10_BYTES] {
        let mut out = [0; CAPACITY_10_BYTES];
        put(&mut out, 0, u32::try_from(self.last_lba).unwrap_or(u32::MAX).to_be_bytes());
        put(&mut out, 4, self.block_bytes.to_be_bytes());
        out
    }

    /// Encodes READ CAPACITY(16) data.
    pub fn to_bytes_16(&self) -> [u8; CAPACITY_16_BYTES] {
        let mut out = [0; CAPACITY_16_BYTES];
        put(&mut out, 0, self.last_lba.to_be_bytes());
        put(&mut out, 8, self.block_bytes.to_be_bytes());
        out[13] = self.physical_exponent & 0x0f;
        let flags = if self.provisioning { LBPME } else { 0 } | if self.reads_zeros { LBPRZ } else { 0 };
        put(&mut out, 14, (flags | (self.lowest_aligned & LOWEST_ALIGNED)).to_be_bytes());
        out
    }

    /// Decodes READ CAPACITY(10) data; `None` if too short. A `last_lba` of FFFFFFFFh means that
    /// READ CAPACITY(16) is needed.
    pub fn from_bytes_10(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..CAPACITY_10_BYTES)?;
        let (last_lba, block_bytes) = (u64::from(get_u32(bytes, 0)), get_u32(bytes, 4));
        let unknown = Self::of_volume(0);
        Some(Self { last_lba, block_bytes, physical_exponent: 0, provisioning: false, reads_zeros: false, ..unknown })
    }

    /// Decodes READ CAPACITY(16) data; `None` if too short.
    pub fn from_bytes_16(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..16)?;
        let flags = get_u16(bytes, 14);
        Some(Self {
            last_lba: get_u64(bytes, 0),
            block_bytes: get_u32(bytes, 8),
            physical_exponent: bytes[13] & 0x0f,
            lowest_aligned: flags & LOWEST_ALIGNED,
            provisioning: flags & LBPME != 0,
            reads_zeros: flags & LBPRZ != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_capacities() {
        let capacity = Capacity::of_volume(1 << 31);
        assert_eq!(capacity.to_bytes_10(), [0x7f, 0xff, 0xff, 0xff, 0, 0, 2, 0]);
        assert_eq!(capacity.to_bytes_16()[..16], [0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 2, 0, 0, 0x03, 0xc0, 0x00]);
        assert_eq!(capacity.to_bytes_16()[16..], [0; 16]);
    }

    #[test]
    fn large_volumes_require_read_capacity_16() {
        for blocks in [1 << 32, (1 << 32) + 1, 1 << 43] {
            assert_eq!(Capacity::of_volume(blocks).to_bytes_10()[..4], [0xff; 4]);
        }
        assert_eq!(Capacity::of_volume((1 << 32) - 1).to_bytes_10()[..4], [0xff, 0xff, 0xff, 0xfe]);
    }

    #[test]
    fn capacity_data_round_trips() {
        let capacity = Capacity { lowest_aligned: 7, ..Capacity::of_volume(1 << 40) };
        assert_eq!(Capacity::from_bytes_16(&capacity.to_bytes_16()), Some(capacity));
        assert_eq!(Capacity::from_bytes_16(&[0; 15]), None);
        assert_eq!(Capacity::from_bytes_10(&[0; 7]), None);
        let short = Capacity::from_bytes_10(&Capacity::of_volume(9).to_bytes_10());
        assert_eq!(short.and_then(|c| c.bytes()), Some(9 * 512));
        assert_eq!(Capacity { last_lba: u64::MAX, ..capacity }.bytes(), None);
    }
}
