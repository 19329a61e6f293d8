//! Blocks of data whose contents follow from the number of their slot.

use testing::noise;

/// Bytes of a block.
pub(super) const BLOCK: usize = 4096;

pub(super) type Block = [u8; BLOCK];

/// Blocks of data: noise that is the same in all but the number of the slot in its first eight
/// bytes.
pub(super) struct Blocks {
    noise: Box<Block>,
    crc: u32,
    /// The change of the checksum, which is linear, by each value of each of these bytes.
    parts: Box<[[u32; 256]; 8]>,
}

impl Blocks {
    pub(super) fn new() -> Self {
        let mut block: Box<Block> = noise(1, BLOCK).try_into().expect("a block");
        block[..8].fill(0);
        let crc = crc_fast::crc32_iscsi(&block[..]);
        let mut parts = Box::new([[0; 256]; 8]);
        for (at, part) in parts.iter_mut().enumerate() {
            for (value, changed) in (0..=u8::MAX).zip(part) {
                block[at] = value;
                *changed = crc_fast::crc32_iscsi(&block[..]) ^ crc;
            }
            block[at] = 0;
        }
        Self { noise: block, crc, parts }
    }

    pub(super) fn block(&self, slot: u64) -> Block {
        let mut block = *self.noise;
        block[..8].copy_from_slice(&slot.to_le_bytes());
        block
    }

    pub(super) fn crc(&self, slot: u64) -> u32 {
        let bytes = slot.to_le_bytes();
        self.parts.iter().zip(bytes).fold(self.crc, |crc, (part, value)| crc ^ part[usize::from(value)])
    }
}
