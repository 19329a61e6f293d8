//! Blocks of metadata in less memory.

const BLOCK: usize = 4096;

/// Bytes of an entry of a page of the slot table, and of two of a leaf.
const ENTRY: usize = 16;

/// Compresses a block of metadata: the first bytes of all entries of 16 bytes, then the second
/// ones, and so on, because most of them differ in few bytes.
pub(super) fn pack(block: &[u8; BLOCK]) -> Vec<u8> {
    let column = |at: usize| block[at..].iter().step_by(ENTRY).copied();
    let columns: Vec<u8> = (0..ENTRY).flat_map(column).collect();
    lz4_flex::block::compress(&columns)
}

/// Returns the block of [`pack`].
pub(super) fn unpack(packed: &[u8]) -> Vec<u8> {
    let columns = lz4_flex::block::decompress(packed, BLOCK).expect("a block that was packed");
    (0..BLOCK).map(|at| columns[at % ENTRY * (BLOCK / ENTRY) + at / ENTRY]).collect()
}
