//! Volumes whose content moves within the engine while hosts use them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use catalog::CatalogError;
use engine::{Core, Credit, DeltaMode, Engine, Gate, NewPeriod, Options, Role, StreamService};
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi_target::TargetConfig;
use ondisk::ArrayGeometry;
use scsi::cdb::{ByteCheck, CdbSize, Command, Transfer, Verification, WriteSame};
use scsi::copy::{CopyList, Segment, build_copy_list};
use scsi::inquiry::Naa;
use scsi::unmap::build_unmap;
use scsi::{SenseKey, asc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{ALPHA, Array, BETA, Ended, Host};
use testing::MemoryDisk;
use types::{BlockRange, Lba, Period, Position, StreamId, VolumeId};

const GOOD: Ended = Ended::Good(Bytes::new());
/// Ids that no volume of the array gets by itself.
const FAR: u64 = 1 << 40;
const STREAM: u32 = 7;

fn transfer(lba: u64, blocks: u32) -> Transfer {
    Transfer { size: CdbSize::Sixteen, lba: Lba(lba), blocks, dpo: false, fua: false }
}

fn naa(array: &Array, volume: &str) -> Naa {
    Naa::from_serial(&array.catalog.state().volume(volume).unwrap().serial).unwrap()
}

async fn move_to(array: &Array, volume: &'static str, to: u64) {
    array.change(move |draft| draft.move_content(volume, VolumeId(FAR + to))).await;
}

fn verify(check: ByteCheck) -> Command {
    Command::Verify(Verification { size: CdbSize::Sixteen, lba: Lba(0), blocks: 4096, dpo: false, check })
}

/// Returns commands of every kind for LUN 1 with their data: each leaves 1 in the first blocks of
/// the volume, and ends with GOOD.
fn commands(array: &Array) -> Vec<(Command, Vec<u8>)> {
    let range = build_unmap(&[BlockRange::new(Lba(8192), 8).unwrap()]);
    let segment =
        |from, to| Segment { source: 0, destination: 1, blocks: 8, source_lba: Lba(from), destination_lba: to };
    let segments = vec![segment(0, Lba(4096)), segment(8, Lba(4104))];
    let copy = build_copy_list(&CopyList::between(naa(array, "shared"), naa(array, "a"), segments.clone()));
    let back = build_copy_list(&CopyList::between(naa(array, "a"), naa(array, "shared"), segments));
    let same = |unmap| {
        Command::WriteSame(WriteSame { size: CdbSize::Sixteen, lba: Lba(9000), blocks: 8, unmap, no_data: false })
    };
    let written =
        Verification { size: CdbSize::Sixteen, lba: Lba(0), blocks: 8, dpo: false, check: ByteCheck::Compare };
    vec![
        (Command::Write(transfer(0, 8)), vec![1; 4096]),
        // In several operations of the engine.
        (Command::Write(transfer(0, 12_000)), vec![1; 12_000 * 512]),
        (Command::WriteAndVerify(written), vec![1; 4096]),
        (verify(ByteCheck::Medium), Vec::new()),
        (verify(ByteCheck::Compare), vec![1; 4096 * 512]),
        (verify(ByteCheck::CompareSame), vec![1; 512]),
        (Command::OrWrite(transfer(0, 8)), vec![1; 4096]),
        (Command::CompareAndWrite { lba: Lba(0), blocks: 1, dpo: false, fua: false }, vec![1; 1024]),
        (Command::WriteAtomic { lba: Lba(0), blocks: 8, dpo: false, fua: false }, vec![1; 4096]),
        (same(false), vec![5; 512]),
        (same(false), vec![0; 512]),
        (same(true), vec![0; 512]),
        (Command::Unmap { length: range.len() as u16 }, range),
        (Command::ExtendedCopy { length: copy.len() as u32 }, copy),
        (Command::ExtendedCopy { length: back.len() as u32 }, back),
    ]
}

async fn array_with_large_volumes() -> Array {
    let array = Array::start().await;
    for volume in ["shared", "a"] {
        array.change(move |draft| draft.resize_volume(volume, 8 << 20, false, 0).map(|_| ())).await;
    }
    array
}

#[tokio::test]
async fn commands_follow_content_that_moves() {
    let array = array_with_large_volumes().await;
    let mut host = array.host(ALPHA).await;
    let reads = [Command::Read(transfer(0, 8)), Command::Read(transfer(0, 4096))];
    let status = Command::GetLbaStatus { lba: Lba(0), allocation: 1024 };
    let mut moves = 0;
    for (command, data) in commands(&array) {
        array.gate.block_blocks();
        let id = host.submit(1, &command, data).await;
        while array.gate.blocked() == 0 {
            // The host sends its data when the target asks for it.
            host.ping().await;
        }
        moves += 1;
        move_to(&array, "shared", 2 * moves).await;
        move_to(&array, "a", 2 * moves + 1).await;
        array.gate.release();
        assert_eq!(host.end_of(id).await, GOOD, "{command:?}");
    }
    let length = host.run(1, status).await.data().len();
    for command in [reads[0], reads[1], status] {
        array.gate.block_blocks();
        let id = host.submit(1, &command, Bytes::new()).await;
        array.gate.wait_blocked(1).await;
        moves += 1;
        move_to(&array, "shared", 2 * moves).await;
        array.gate.release();
        let data = host.end_of(id).await.data();
        match command {
            Command::Read(transfer) => assert_eq!(data, vec![1; transfer.blocks as usize * 512]),
            _ => assert_eq!(data.len(), length),
        }
    }
    assert_eq!(host.run(2, Command::Read(transfer(4096, 16))).await.data(), vec![1; 16 * 512], "copied");
    assert!(host.attentions(1).await.is_empty(), "it is the same logical unit");
}

/// The engine moves the content before the catalog shows it. Commands in between wait for that.
#[tokio::test]
async fn commands_wait_for_a_move_that_is_not_shown() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    assert_eq!(host.run_with(1, Command::Write(transfer(0, 8)), vec![1; 4096]).await, GOOD);
    array.gate.hold_replies();
    let catalog = array.catalog.clone();
    let moving =
        tokio::task::spawn_blocking(move || catalog.change(|draft| draft.move_content("shared", VolumeId(FAR))));
    array.gate.wait_reply().await;
    let write = host.submit(1, &Command::Write(transfer(8, 8)), vec![2; 4096]).await;
    let read = host.submit(1, &Command::Read(transfer(0, 8)), Bytes::new()).await;
    let aborted = host.submit(1, &Command::Read(transfer(0, 8)), Bytes::new()).await;
    host.ping().await;
    let abort = host.start_function(TaskFunction::AbortTask, 1, Some(aborted)).await;
    assert!(host.is_pending(abort).await);
    assert!(!host.has_ended(write) && !host.has_ended(read));
    array.gate.release_replies();
    moving.await.unwrap().unwrap();
    assert_eq!((host.end_of(write).await, host.end_of(read).await.data()), (GOOD, vec![1; 4096].into()));
    assert_eq!(host.outcome_of(abort).await, TaskOutcome::Complete);
    assert_eq!(host.run(1, Command::Read(transfer(8, 8))).await.data(), vec![2; 4096]);
}

/// A move that the engine refuses leaves nothing waiting, and a volume that is gone is an error.
#[tokio::test]
async fn content_that_is_gone_is_an_error() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    let content = array.catalog.state().volume("shared").unwrap().content();
    array.gate.hold_replies();
    let catalog = array.catalog.clone();
    let changing =
        tokio::task::spawn_blocking(move || catalog.change(|draft| draft.create_volume("other", 1 << 20, 0)));
    array.gate.wait_reply().await;
    // The engine loses a volume that the catalog has.
    let delete = engine::Op::Change(vec![engine::Change::DeleteVolume { volume: content }]);
    let sink: Arc<dyn engine::Sink> = Arc::new(Ignored);
    array.service.submit(delete, 0, &sink);
    let read = host.submit(1, &Command::Read(transfer(0, 8)), Bytes::new()).await;
    host.ping().await;
    assert!(!host.has_ended(read), "the change in progress may be a move");
    array.gate.release_replies();
    changing.await.unwrap().unwrap();
    let gone = Ended::Check(SenseKey::IllegalRequest, asc::LOGICAL_UNIT_NOT_SUPPORTED);
    assert_eq!(host.end_of(read).await, gone);
    assert_eq!(host.run(1, Command::Read(transfer(0, 8))).await, gone, "no change is in progress");
}

struct Ignored;

impl engine::Sink for Ignored {
    fn complete(&self, _: u64, _: Result<engine::Reply, engine::OpError>) {}
}

const LOAD_BLOCKS: u64 = 128;
const STEP: u32 = 8;

/// Writes rounds of patterns with several commands at a time, and reads each back.
async fn load(host: &mut Host, has_ended: &AtomicBool) -> u8 {
    let mut round = 0;
    loop {
        let is_last = has_ended.load(Ordering::SeqCst);
        round = u8::wrapping_add(round, 1);
        let places = (0..LOAD_BLOCKS).step_by(STEP as usize);
        let mut writes = Vec::new();
        for lba in places.clone() {
            let data = vec![round ^ lba as u8; STEP as usize * 512];
            writes.push(host.submit(1, &Command::Write(transfer(lba, STEP)), data).await);
        }
        for write in writes {
            assert_eq!(host.end_of(write).await, GOOD);
        }
        let mut reads = Vec::new();
        for lba in places {
            reads.push((lba, host.submit(1, &Command::Read(transfer(lba, STEP)), Bytes::new()).await));
        }
        for (lba, read) in reads {
            assert_eq!(host.end_of(read).await.data(), vec![round ^ lba as u8; STEP as usize * 512], "round {round}");
        }
        if is_last {
            return round;
        }
    }
}

fn engine() -> Arc<Engine> {
    let capacity = 64 << 20;
    let disk = MemoryDisk::new(capacity);
    let geometry = ArrayGeometry::for_capacity(capacity).unwrap();
    Core::create(&disk, &geometry, [5; 16]).unwrap();
    let (core, _) = Core::recover(&disk, Some(Options::for_geometry(&geometry))).unwrap();
    Arc::new(Engine::start(core, Arc::new(disk)))
}

fn stretch(draft: &mut catalog::Draft) -> Result<(), CatalogError> {
    draft.create_pod("pod", None, 0)?;
    draft.move_volume_to_pod("shared", Some("pod"))?;
    let peer = catalog::PodPeer { id: "id".to_owned(), name: "array-2".to_owned() };
    draft.stretch_pod("pod", STREAM, peer, 0).map(drop)
}

/// The engine accepts the records that changes of a stretched pod become.
#[tokio::test]
async fn changes_of_a_stretched_pod_are_ordered() {
    let engine = engine();
    let array = Array::start_on(engine.clone(), TargetConfig::default()).await;
    let mut host = array.host(ALPHA).await;
    assert_eq!(host.run_with(1, Command::Write(transfer(0, 8)), vec![1; 4096]).await, GOOD);
    array.change(stretch).await;
    let stream = StreamId::new(STREAM).unwrap();
    engine.create_stream(stream).unwrap();
    while !engine.stream_status(stream).unwrap().is_ready {
        tokio::task::yield_now().await;
    }
    let unavailable = array.try_change(|draft| draft.rename_volume("pod::shared", "x").map(drop)).await;
    assert_eq!(unavailable.unwrap_err().to_string(), "Pod pod cannot be changed now: the stream is closed.");
    let period = NewPeriod {
        period: Period(1),
        role: Role::Sequencer,
        gate: Gate::Local,
        last: Position(0),
        max_payload: 1 << 20,
        delta: DeltaMode::Off,
    };
    engine.begin_period(stream, period).unwrap();
    engine.stream_lent(stream, Period(1), Credit { bytes: u64::MAX, blocks: u64::MAX, records: u64::MAX }).unwrap();
    let edits: [fn(&mut catalog::Draft) -> Result<(), CatalogError>; 7] = [
        |draft| draft.create_snapshots(&["pod::shared"], Some("s"), 1).map(drop),
        |draft| draft.create_volume("pod::new", 1 << 20, 1).map(drop),
        |draft| draft.resize_volume("pod::shared", 2 << 20, false, 1).map(drop),
        |draft| draft.resize_volume("pod::shared", 1 << 20, true, 1).map(drop),
        |draft| draft.copy_volume("pod::shared.s", "pod::new", true, 1).map(drop),
        |draft| draft.destroy_volume("pod::new", 1).map(drop),
        |draft| draft.eradicate_volume("pod::new").map(drop),
    ];
    for edit in edits {
        array.change(edit).await;
    }
    assert_eq!(engine.stream_status(stream).unwrap().position, Position(edits.len() as u64));
    host.drain_attentions().await;
    assert_eq!(host.run(1, Command::Read(transfer(0, 8))).await.data(), vec![1; 4096]);
    array.change(|draft| draft.connect("alpha", "pod::shared.s", Some(9)).map(drop)).await;
    host.attentions(9).await;
    assert_eq!(host.run(9, Command::Read(transfer(0, 8))).await.data(), vec![1; 4096]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moves_under_load_lose_nothing() {
    let array = Array::start_on(engine(), TargetConfig::default()).await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    let has_ended = AtomicBool::new(false);
    let moves = async {
        for to in 0..8 {
            move_to(&array, "shared", to).await;
        }
        array.change(stretch).await;
        has_ended.store(true, Ordering::SeqCst);
    };
    let (round, ()) = tokio::join!(load(&mut alpha, &has_ended), moves);
    let last = vec![round; STEP as usize * 512];
    assert_eq!(
        array.catalog.state().volume("pod::shared").unwrap().content(),
        StreamId::new(STREAM).unwrap().volume(1)
    );
    assert_eq!(beta.run(1, Command::Read(transfer(0, STEP))).await.data(), last, "another session, after the moves");
}
