//! Equal blocks are stored once, even if the index names slots that hold other blocks by now.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::{MemoryDisk, create, data, run, settle};
use engine::{Change, Core, Op, Reply};
use ondisk::ArrayGeometry;
use types::{BlockRange, Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 16 << 20, log_bytes: 256 << 10, segment_bytes: 64 << 10 };
const VOLUME: VolumeId = VolumeId(1);
const BLOCK: u64 = 8;

struct Array {
    disk: MemoryDisk,
    core: Core,
}

impl Array {
    fn new() -> Self {
        let (disk, mut core) = create(GEOMETRY);
        let made = run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 1 << 14 }]));
        assert_eq!(made, Ok(Reply::Done));
        Self { disk, core }
    }

    fn write(&mut self, block: u64, data: Bytes) {
        let write = Op::Write { volume: VOLUME, lba: Lba(block * BLOCK), data, fua: false };
        assert_eq!(run(&mut self.core, &self.disk, write), Ok(Reply::Done));
    }

    fn unmap(&mut self, block: u64, blocks: u64) {
        let range = BlockRange::new(Lba(block * BLOCK), blocks * BLOCK).unwrap();
        assert_eq!(run(&mut self.core, &self.disk, Op::Unmap { volume: VOLUME, ranges: vec![range] }), Ok(Reply::Done));
    }

    /// Number of stored blocks, after a checkpoint.
    fn stored(&mut self) -> u64 {
        self.core.request_checkpoint();
        settle(&mut self.core, &self.disk);
        self.core.space().data / 4096
    }
}

#[test]
fn rewritten_data_dedups_after_delete() {
    let mut array = Array::new();
    let old = || data(1, 16 * BLOCK);
    array.write(0, old());
    assert_eq!(array.stored(), 16);
    array.unmap(0, 16);
    assert_eq!(array.stored(), 0);
    // Their slots hold other blocks now, but the index still names them.
    for piece in 0..4 {
        array.write(piece * 16, data(2 + piece, 16 * BLOCK));
    }
    assert_eq!(array.stored(), 64);
    for copy in 4..8 {
        array.write(copy * 16, old());
        assert_eq!(array.stored(), 80, "copy {copy} of deleted data");
    }
}

#[test]
fn copies_of_a_deleted_block_are_stored_once() {
    let mut array = Array::new();
    array.write(0, data(1, BLOCK));
    assert_eq!(array.stored(), 1);
    array.unmap(0, 1);
    assert_eq!(array.stored(), 0);
    for piece in 0..4 {
        array.write(piece * 16, data(2 + piece, 16 * BLOCK));
    }
    assert_eq!(array.stored(), 64);
    array.write(100, data(1, BLOCK).repeat(16).into());
    assert_eq!(array.stored(), 65, "one batch, all compared with a false hit first");
}

#[test]
fn equal_blocks_are_stored_once_across_volumes() {
    let mut array = Array::new();
    let block = data(1, BLOCK);
    array.write(0, block.repeat(16).into());
    assert_eq!(array.stored(), 1, "blocks of one write");
    for at in 0..16 {
        array.write(100 + at, block.clone());
    }
    assert_eq!(array.stored(), 1, "of many");
}
