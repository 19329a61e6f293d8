//! The copies of the key block on a drive.

use ondisk::{KEY_BLOCK_BYTES, KEY_BLOCK_COPIES, KeyBlock, SUPERBLOCK_AREA_BYTES, SUPERBLOCK_QUORUM, key_block_offset};
use platform::{DURABLE_ALIGNMENT, Disk, DiskError, Durability};

/// Content of the places of the key block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyBlocks {
    /// Zeros in at least two places, and no remains of a key block: the array is not encrypted.
    Absent,
    /// Valid copies, newest first. Others may be damaged, or older after an interrupted change.
    Present(Vec<KeyBlock>),
    /// No copy is valid, but one is of another version or cipher.
    Unsupported,
    /// No copy is valid, and the places do not show that there was none.
    Damaged,
}

impl KeyBlocks {
    /// Reads the copies. One that cannot be read counts as damaged.
    pub fn read(disk: &dyn Disk) -> Self {
        if disk.size() < SUPERBLOCK_AREA_BYTES {
            return Self::Absent;
        }
        let copies: [Option<[u8; KEY_BLOCK_BYTES]>; KEY_BLOCK_COPIES] = std::array::from_fn(|copy| {
            let mut bytes = [0; KEY_BLOCK_BYTES];
            disk.read_at(key_block_offset(copy), &mut bytes).is_ok().then_some(bytes)
        });
        let mut valid: Vec<KeyBlock> = copies.iter().flatten().filter_map(|bytes| KeyBlock::decode(bytes)).collect();
        valid.sort_by_key(|block| std::cmp::Reverse(block.sequence));
        let blank = copies.iter().flatten().filter(|bytes| bytes.iter().all(|byte| *byte == 0)).count();
        let has_remains = copies.iter().flatten().any(|bytes| KeyBlock::has_magic(bytes));
        match valid.is_empty() {
            false => Self::Present(valid),
            true if copies.iter().flatten().any(|bytes| KeyBlock::is_of_other_version(bytes)) => Self::Unsupported,
            true if blank >= SUPERBLOCK_QUORUM && !has_remains => Self::Absent,
            true => Self::Damaged,
        }
    }

    /// Writes one key block to all places, each durable before the next begins: an interruption
    /// leaves the block before or the new one readable. Does nothing where the block is already.
    /// Tries all places.
    ///
    /// # Errors
    ///
    /// The drive failed at one of them.
    pub fn store(disk: &dyn Disk, block: &KeyBlock) -> Result<(), DiskError> {
        let mut bytes = [0; DURABLE_ALIGNMENT as usize];
        bytes[..KEY_BLOCK_BYTES].copy_from_slice(&block.encode());
        let mut stored = Ok(());
        for copy in 0..KEY_BLOCK_COPIES {
            let mut present = [0; KEY_BLOCK_BYTES];
            let is_read = disk.read_at(key_block_offset(copy), &mut present).is_ok();
            if !is_read || present != bytes[..KEY_BLOCK_BYTES] {
                let written = disk.write_at(key_block_offset(copy), &[&bytes], Durability::Durable);
                stored = stored.and(written);
            }
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{ArrayKey, Passphrase};
    use testing::MemoryDisk;

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::from_file(text).unwrap()
    }

    fn disk() -> MemoryDisk {
        MemoryDisk::new(SUPERBLOCK_AREA_BYTES)
    }

    fn damage(disk: &MemoryDisk, copy: usize) {
        disk.lock()[key_block_offset(copy) as usize] ^= 1;
    }

    #[test]
    fn blank_places_mean_no_encryption() {
        assert_eq!(KeyBlocks::read(&disk()), KeyBlocks::Absent);
        assert_eq!(KeyBlocks::read(&MemoryDisk::new(4096)), KeyBlocks::Absent);
        let rotten = disk();
        for (copy, expected) in [KeyBlocks::Absent, KeyBlocks::Absent, KeyBlocks::Damaged].into_iter().enumerate() {
            damage(&rotten, copy);
            assert_eq!(KeyBlocks::read(&rotten), expected, "{copy}");
        }
        let remains = disk();
        remains.lock()[key_block_offset(3) as usize..][..8].copy_from_slice(b"IBIDKEY\0");
        assert_eq!(KeyBlocks::read(&remains), KeyBlocks::Damaged);
    }

    #[test]
    fn one_valid_copy_is_enough() {
        let disk = disk();
        let block = ArrayKey::random().unwrap().wrap(&passphrase("correct horse"), 1).unwrap();
        KeyBlocks::store(&disk, &block).unwrap();
        assert_eq!(KeyBlocks::read(&disk), KeyBlocks::Present(vec![block; 4]));
        for copy in [0, 1, 3] {
            damage(&disk, copy);
        }
        assert_eq!(KeyBlocks::read(&disk), KeyBlocks::Present(vec![block]));
        damage(&disk, 2);
        assert_eq!(KeyBlocks::read(&disk), KeyBlocks::Damaged);
    }
}
