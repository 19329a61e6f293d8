use super::*;
use scsi::copy::parse_copy_list;
use scsi::inquiry::Naa;
use scsi::unmap::parse_unmap;

fn unit(number: u16) -> LogicalUnit {
    LogicalUnit {
        lun: Lun::new(number).unwrap(),
        block_bytes: 512,
        blocks: 1 << 30,
        name: Some(Designator::naa(Naa([number as u8; 16]))),
        ..LogicalUnit::default()
    }
}

fn data(request: &Request) -> &[u8] {
    match &request.payload {
        Payload::Out(data) => data,
        other => panic!("{other:?} carries no data"),
    }
}

#[test]
fn cdb_lengths_match_the_data() {
    let read = unit(1).read(7, 9, true);
    assert_eq!(read.cdb.0, [0x88, 0x08, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0]);
    assert_eq!(read.payload, Payload::In(9 * 512));
    let write = unit(1).write(0x0102_0304_0506, vec![1; 1024].into(), false);
    assert_eq!(write.cdb.0, [0x8a, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 2, 0, 0]);
    let large = LogicalUnit { block_bytes: 4096, ..unit(1) };
    assert_eq!(large.read(0, 2, false).payload, Payload::In(8192));
    assert_eq!(large.write(0, vec![0; 8192].into(), false).cdb.0[13], 2);
}

#[test]
fn compare_and_write_length_is_half_its_data() {
    let request = unit(1).compare_and_write(5, vec![0; 6 * 512].into(), false);
    assert_eq!(request.cdb.0, [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0]);
}

#[test]
fn unmap_list_holds_its_ranges() {
    let request = unit(1).unmap(&[(8, 16), (1 << 40, 1)]);
    let ranges = [(8, 16), (1 << 40, 1)].map(|(lba, blocks)| BlockRange::new(Lba(lba), blocks).unwrap());
    assert_eq!(parse_unmap(data(&request)), Ok(ranges.to_vec()));
    assert_eq!(request.cdb.0[7..9], [0, 40]);
}

#[test]
fn long_copy_splits_into_adjacent_segments() {
    let run = CopyRun { source: 100, destination: 1 << 33, blocks: 2 * 65_535 + 5 };
    let request = unit(1).extended_copy(9, &unit(2), &[run]);
    let list = parse_copy_list(data(&request)).unwrap();
    assert_eq!((list.id, list.usage), (9, ListIdUsage::DiscardData));
    assert_eq!(list.cscds.iter().map(|cscd| cscd.designator.bytes[0]).collect::<Vec<_>>(), [1, 2]);
    let found: Vec<_> = list.segments.iter().map(|s| (s.source_lba.0, s.destination_lba.0, s.blocks)).collect();
    let at = |step: u64| (100 + step, (1u64 << 33) + step);
    let expected = [(at(0), 65_535), (at(65_535), 65_535), (at(131_070), 5)];
    assert_eq!(found, expected.map(|((source, destination), blocks)| (source, destination, blocks)));
    assert_eq!(request.cdb.0[10..14], (data(&request).len() as u32).to_be_bytes());
}

#[test]
fn empty_copy_has_no_segments() {
    let request = unit(1).extended_copy(0, &unit(1), &[CopyRun { source: 0, destination: 8, blocks: 0 }]);
    assert!(parse_copy_list(data(&request)).unwrap().segments.is_empty());
}

#[test]
fn reserve_out_cdb_holds_key_and_type() {
    let parameters =
        OutParameters { key: 0x0102, service_key: 0, persist: false, all_target_ports: false, initiator_ports: None };
    let request =
        unit(1).persistent_reserve_out(OutAction::Reserve, Some(ReservationType::ExclusiveAccess), &parameters);
    assert_eq!(request.cdb.0[..9], [0x5f, 0x01, 0x03, 0, 0, 0, 0, 0, 24]);
    assert_eq!(data(&request)[..8], [0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(data(&request).len(), 24);
}
