//! Counters of the bytes written to the drive.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{create, data, perform};
use engine::{Action, Change, Core, Io, Op};
use ondisk::ArrayGeometry;
use testing::{MemoryDisk, Rng};
use types::{Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 32 << 20, log_bytes: 2 << 20, segment_bytes: 256 << 10 };
const VOLUME: VolumeId = VolumeId(1);
/// Logical blocks in a write.
const PIECE: u64 = 32;

/// Runs the core until it has no work left. Returns the bytes that it wrote.
fn written(core: &mut Core, disk: &MemoryDisk) -> u64 {
    let (mut written, mut actions) = (0, Vec::new());
    loop {
        core.kick();
        core.tick();
        core.poll(&mut actions);
        if actions.is_empty() && !core.wants_tick() {
            return written;
        }
        for action in actions.drain(..) {
            match action {
                Action::Io { id, io } => {
                    if let Io::Write { data, .. } = &io {
                        written += data.iter().map(|part| part.len() as u64).sum::<u64>();
                    }
                    core.io_done(id, perform(disk, &io));
                }
                Action::Work { id, work } => core.worked(id, work.perform(disk)),
                Action::Fetch { id, plan } => core.fetched(id, plan.execute(disk)),
                Action::Complete { result, .. } => drop(result.unwrap()),
                Action::Read(_) => {}
            }
        }
    }
}

#[test]
fn kinds_of_drive_writes_add_up_to_all_of_them() {
    let (disk, mut core) = create(GEOMETRY);
    let blocks = GEOMETRY.capacity / 512 * 7 / 10 / PIECE * PIECE;
    core.submit(Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks }]), 0);
    let (mut sum, mut host, mut rng) = (written(&mut core, &disk), 0, Rng::new(1));
    for round in 0..3 * blocks / PIECE {
        let piece = if round < blocks / PIECE { round } else { rng.below(blocks / PIECE) };
        core.submit(Op::Write { volume: VOLUME, lba: Lba(piece * PIECE), data: data(round, PIECE), fua: false }, round);
        host += PIECE * 512;
        sum += written(&mut core, &disk);
    }
    // Blocks that the cleaner moves after a checkpoint are written with the next one.
    let mut cleaned = None;
    while cleaned.replace(core.segments_cleaned()) != Some(core.segments_cleaned()) {
        core.request_checkpoint();
        sum += written(&mut core, &disk);
    }
    let writes = core.space().drive_writes;
    assert_eq!((writes.total(), writes.host), (sum, host), "{writes:?}");
    assert!(core.segments_cleaned() > 0 && writes.moved > 0, "{writes:?}");
    assert!((host / 100 * 99..=host).contains(&writes.data), "few are overwritten before they have places: {writes:?}");
    let metadata = [writes.leaves, writes.interior_pages, writes.slot_pages, writes.directory];
    assert!(metadata.iter().all(|bytes| *bytes > 0 && bytes.is_multiple_of(1024)), "both copies: {writes:?}");
    assert!(writes.log > host && writes.summaries > 0 && writes.manifest > 0 && writes.superblock > 0, "{writes:?}");
}
