//! Copies of whole volumes while reference counts are full.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{create, data, run, settle};
use engine::{Change, Core, Op, Options, Reply};
use ondisk::ArrayGeometry;
use types::{BlockRange, Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 64 << 20, log_bytes: 4 << 20, segment_bytes: 256 << 10 };
/// Logical blocks of a volume of several leaves.
const BLOCKS: u64 = 8 * 256 * 8;

#[test]
fn copies_of_copies_in_one_request_load_their_pages() {
    let (disk, mut core) = create(GEOMETRY);
    run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VolumeId(1), blocks: BLOCKS }])).unwrap();
    for lba in (0..BLOCKS).step_by(1024) {
        run(&mut core, &disk, Op::Write { volume: VolumeId(1), lba: Lba(lba), data: data(lba, 64), fua: false })
            .unwrap();
    }
    core.request_checkpoint();
    settle(&mut core, &disk);
    drop(core);
    let options = Options { page_budget: 0, max_references: Some(2), ..Options::for_geometry(&GEOMETRY) };
    let (mut core, _) = Core::recover(&disk, Some(options)).unwrap();
    // The first copy makes the count of the root full, so the second one shares its parts.
    let copy = |source: u64| Change::CopyVolume { source: VolumeId(source), destination: VolumeId(source + 1) };
    run(&mut core, &disk, Op::Change(vec![copy(1), copy(2), copy(3)])).unwrap();
    for volume in 1..=4 {
        let range = BlockRange::new(Lba(1024), 64).unwrap();
        let read = run(&mut core, &disk, Op::Read { volume: VolumeId(volume), range });
        assert_eq!(read, Ok(Reply::Data(data(1024, 64))), "volume {volume}");
    }
    core.request_checkpoint();
    settle(&mut core, &disk);
    core.audit(&disk).unwrap();
}
