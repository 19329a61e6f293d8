use super::*;
use clap::Parser;
use initiator::Payload;
use scsi::{Cdb, Command, Sense, Status};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    bench: BenchArgs,
}

fn load(line: &str) -> Load {
    let words = ["bench", "iscsi://h/iqn.2026-11.test:t/0"].into_iter().chain(line.split_whitespace());
    let args = Line::parse_from(words).bench;
    let unit = LogicalUnit { block_bytes: 512, blocks: 4096, ..LogicalUnit::default() };
    let region = Region { lba: 64, blocks: 1024 };
    Load::new(&args, unit, region).unwrap()
}

fn requests(load: &mut Load, count: usize) -> Vec<Request> {
    (0..count).map(|_| load.next(0).unwrap().1).collect()
}

fn lba(request: &Request) -> u64 {
    match Cdb::parse(&request.cdb.0) {
        Ok(Command::Read(transfer) | Command::Write(transfer)) => transfer.lba.0,
        Ok(Command::CompareAndWrite { lba, .. }) => lba.0,
        other => panic!("{other:?}"),
    }
}

fn answer(status: Status, sense: Option<Sense>) -> Completion {
    let residual = iscsi::pdu::Residual::None;
    Completion { token: 0, status: Some(status), sense, data: Bytes::new(), residual }
}

#[test]
fn addresses_stay_in_region_and_aligned() {
    for request in requests(&mut load("--op read --size 4K --warm 3600"), 1000) {
        let lba = lba(&request);
        assert!((64..1088).contains(&lba) && lba.is_multiple_of(8), "{lba}");
        assert_eq!(request.payload, Payload::In(4096));
    }
}

#[test]
fn sequential_load_wraps_at_the_end() {
    let found: Vec<u64> = requests(&mut load("--op write --size 128K --seq --warm 3600"), 6).iter().map(lba).collect();
    assert_eq!(found, [64, 320, 576, 832, 64, 320]);
}

#[test]
fn mix_has_reads_and_writes() {
    let found = requests(&mut load("--op read --mix 30 --warm 3600"), 1000);
    let writes = found.iter().filter(|request| matches!(request.payload, Payload::Out(_))).count();
    assert!((200..400).contains(&writes), "{writes}");
}

#[test]
fn xcopy_goes_from_first_half_to_second() {
    for request in requests(&mut load("--op xcopy --size 4K --warm 3600"), 200) {
        let Payload::Out(list) = &request.payload else { panic!("no parameter list") };
        let list = scsi::copy::parse_copy_list(list).unwrap();
        let segment = list.segments[0];
        assert!((64..576).contains(&segment.source_lba.0));
        assert_eq!(segment.destination_lba.0, segment.source_lba.0 + 512);
    }
}

#[test]
fn compare_and_write_tracks_chunk_content() {
    let mut load = load("--op caw --size 512 --qd 4 --span 2K --seq --warm 3600");
    let mut held = std::collections::HashMap::new();
    for _ in 0..1000 {
        for slot in 0..4 {
            let request = load.next(slot).unwrap().1;
            let Payload::Out(data) = &request.payload else { panic!("no data") };
            let (compare, write) = data.split_at(512);
            assert!(compare != write);
            let before = held.insert(lba(&request), write.to_vec()).unwrap_or(vec![0; 512]);
            assert_eq!(compare, before);
            load.done(slot, answer(Status::Good, None)).unwrap();
        }
    }
    assert_eq!(load.errors, 0);
}

#[test]
fn caw_miss_must_miscompare() {
    let mut load = load("--op caw-miss --size 512 --warm 3600");
    load.next(0).unwrap();
    load.done(0, answer(Status::CheckCondition, Some(Sense::miscompare(0)))).unwrap();
    assert_eq!(load.errors, 0);
    load.next(0).unwrap();
    load.done(0, answer(Status::Good, None)).unwrap();
    assert_eq!(load.errors, 1);
}

#[test]
fn failures_are_counted_and_the_first_is_kept() {
    let mut load = load("--op write --warm 3600");
    for status in [Status::ReservationConflict, Status::TaskAborted] {
        load.next(0).unwrap();
        load.done(0, answer(status, None)).unwrap();
    }
    assert_eq!((load.errors, load.first_error.as_deref()), (2, Some("RESERVATION CONFLICT")));
}

#[test]
fn written_pages_are_unique() {
    let mut seen = std::collections::HashSet::new();
    for request in requests(&mut load("--op write --size 8K --qd 2 --warm 3600"), 200) {
        let Payload::Out(data) = &request.payload else { panic!("no data") };
        assert!(data.chunks(4096).all(|page| seen.insert(page.to_vec())));
    }
}
