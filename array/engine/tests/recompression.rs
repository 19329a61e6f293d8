//! Recompression: a quiet array stores its data smaller, once, and never at the expense of hosts.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::{create, data, run, settle};
use engine::{Change, Core, Op, OpError, Reply};
use ondisk::ArrayGeometry;
use testing::{MemoryDisk, Rng};
use types::{BlockRange, Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 32 << 20, log_bytes: 1 << 20, segment_bytes: 256 << 10 };
const VOLUME: VolumeId = VolumeId(1);
/// Logical blocks in a write.
const PIECE: u64 = 256;
const PIECES: u64 = 64;
/// Slow ticks after which an array is quiet, and ticks that are enough for all of its data.
const QUIET: usize = 60;
const ENOUGH: usize = 100;

/// Returns a piece of text: words in random order, which LZ4 compresses worse than zstd.
fn text(seed: u64) -> Bytes {
    let (mut words, mut rng) = (Rng::new(7), Rng::new(seed));
    let mut letters = |length: u64| (0..length).map(|_| b"etaoinshrdlucmfwypvbgkjqxz"[words.index(26)]).collect();
    let vocabulary: Vec<Vec<u8>> = (0..800).map(|word| letters(3 + word % 6)).collect();
    let mut out = Vec::with_capacity(PIECE as usize * 512 + 16);
    while out.len() < PIECE as usize * 512 {
        out.extend(&vocabulary[rng.index(vocabulary.len())]);
        out.push(b' ');
    }
    out.truncate(PIECE as usize * 512);
    out.into()
}

/// An array with a volume of these pieces.
fn filled(pieces: u64, content: impl Fn(u64) -> Bytes) -> (MemoryDisk, Core) {
    let (disk, mut core) = create(GEOMETRY);
    run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 1 << 20 }])).unwrap();
    (0..pieces).for_each(|piece| write(&mut core, &disk, piece, content(piece)).unwrap());
    core.request_checkpoint();
    settle(&mut core, &disk);
    (disk, core)
}

fn write(core: &mut Core, disk: &MemoryDisk, piece: u64, data: Bytes) -> Result<(), OpError> {
    run(core, disk, Op::Write { volume: VOLUME, lba: Lba(piece * PIECE), data, fua: false }).map(drop)
}

/// Lets time pass without hosts.
fn idle(core: &mut Core, disk: &MemoryDisk, slow_ticks: usize) {
    for _ in 0..slow_ticks {
        core.slow_tick();
        settle(core, disk);
    }
}

fn holds(core: &mut Core, disk: &MemoryDisk, pieces: u64, content: impl Fn(u64) -> Bytes) {
    core.audit(disk).expect("the audit");
    for piece in 0..pieces {
        let range = BlockRange::new(Lba(piece * PIECE), PIECE).unwrap();
        let read = run(core, disk, Op::Read { volume: VOLUME, range });
        assert_eq!(read, Ok(Reply::Data(content(piece))), "piece {piece}");
    }
}

#[test]
fn quiet_array_stores_text_smaller_and_only_once() {
    let (disk, mut core) = filled(PIECES, text);
    let before = core.space();
    idle(&mut core, &disk, QUIET - 1);
    assert_eq!(core.space().drive_writes.moved, 0, "not quiet for long enough");
    idle(&mut core, &disk, ENOUGH);
    let after = core.space();
    assert!(after.data < before.data / 10 * 9, "{} of {} bytes", after.data, before.data);
    assert!(after.recompression.before > before.data / 2, "{:?}", after.recompression);
    assert_eq!(before.data - after.data, after.recompression.before - after.recompression.after);
    assert!(core.is_settled(), "a checkpoint frees the segments that became empty");
    idle(&mut core, &disk, ENOUGH);
    assert_eq!(core.space().drive_writes, after.drive_writes, "nothing is left to gain");
    holds(&mut core, &disk, PIECES, text);
    // The first restart seals the segment that was open, which may gain.
    for restart in 0..2 {
        drop(core);
        (core, _) = Core::recover(&disk, None).expect("the array opens");
        idle(&mut core, &disk, ENOUGH);
        assert!(restart == 0 || core.space().drive_writes.moved == 0, "restart {restart}");
        holds(&mut core, &disk, PIECES, text);
    }
}

#[test]
fn data_that_gains_nothing_is_not_rewritten() {
    let (disk, mut core) = filled(PIECES, |piece| data(piece, PIECE));
    let before = core.space().drive_writes;
    idle(&mut core, &disk, ENOUGH);
    let after = core.space().drive_writes;
    assert_eq!((after.moved, after.manifest), (0, before.manifest));
}

#[test]
fn recompression_ends_when_hosts_write() {
    let (disk, mut core) = filled(PIECES, text);
    idle(&mut core, &disk, QUIET - 1);
    core.slow_tick();
    // The survey, the read of the segment, and a part of the relocation.
    while core.space().drive_writes.moved == 0 {
        core.kick();
        core.tick();
        common::carry_out(&mut core, &disk, &mut common::Answers::new());
    }
    for piece in 0..8 {
        let data = text(1000 + piece);
        core.submit(Op::Write { volume: VOLUME, lba: Lba(piece * PIECE), data, fua: false }, piece);
    }
    assert!(settle(&mut core, &disk).values().all(Result::is_ok));
    let interrupted = core.space();
    assert!(interrupted.recompression.before < interrupted.data / 2, "{:?}", interrupted.recompression);
    idle(&mut core, &disk, QUIET - 1);
    assert_eq!(core.space().drive_writes.moved, interrupted.drive_writes.moved, "hosts have just written");
    idle(&mut core, &disk, ENOUGH);
    assert!(core.space().recompression.before > interrupted.data / 2, "{:?}", core.space().recompression);
    holds(&mut core, &disk, PIECES, |piece| text(if piece < 8 { 1000 + piece } else { piece }));
}

#[test]
fn few_writes_do_not_end_recompression() {
    let (disk, mut core) = filled(PIECES, text);
    for tick in 0..(QUIET + ENOUGH) as u64 {
        core.slow_tick();
        // As the heartbeat of a host.
        let heartbeat = Op::Write { volume: VOLUME, lba: Lba(1 << 19), data: data(tick, 1), fua: false };
        run(&mut core, &disk, heartbeat).unwrap();
    }
    assert!(core.space().recompression.before > 0);
    holds(&mut core, &disk, PIECES, text);
}

/// Writes a part of an array, lets `slow_ticks` pass, and fills it. Returns the pieces that it
/// took.
fn pieces_of_full_array(slow_ticks: usize) -> u64 {
    let (disk, mut core) = filled(PIECES, text);
    idle(&mut core, &disk, slow_ticks);
    let recompression = core.space().recompression;
    assert_eq!(recompression.before > 0, slow_ticks > 0, "{recompression:?}");
    let mut pieces = PIECES;
    while write(&mut core, &disk, pieces, text(pieces)).is_ok() {
        pieces += 1;
    }
    idle(&mut core, &disk, slow_ticks);
    assert_eq!(core.space().recompression, recompression, "the array is full");
    core.audit(&disk).unwrap();
    pieces
}

#[test]
fn recompression_takes_no_space_of_hosts() {
    let (quiet, busy) = (pieces_of_full_array(QUIET + ENOUGH), pieces_of_full_array(0));
    // The cleaner of a full array compresses as well. The ends of segments decide the last pieces.
    assert!(quiet >= busy * 49 / 50, "{quiet} pieces after a quiet time, {busy} without one");
}

#[test]
fn crash_during_recompression_loses_nothing() {
    let (disk, mut core) = filled(PIECES / 2, text);
    idle(&mut core, &disk, QUIET - 1);
    let mut actions = 0;
    for _ in 0..ENOUGH {
        core.slow_tick();
        loop {
            core.kick();
            core.tick();
            if !common::carry_out(&mut core, &disk, &mut common::Answers::new()) {
                break;
            }
            actions += 1;
            if actions % 32 == 0 {
                let crashed = MemoryDisk::from_image(disk.image());
                let (mut core, _) = Core::recover(&crashed, None).expect("the array opens");
                holds(&mut core, &crashed, PIECES / 2, text);
            }
        }
    }
    assert!(core.space().recompression.before > 0 && actions > 64, "{actions} actions");
}
