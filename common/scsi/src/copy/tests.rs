use super::*;
use crate::be::put;
use crate::inquiry::{Designator, Naa};
use crate::sense::SenseFormat;
use crate::status::Status;
use proptest::prelude::*;
use types::Lba;

const SOURCE: Naa = Naa([0x61; 16]);
const DESTINATION: Naa = Naa([0x62; 16]);
/// Offset of the segment descriptors in a list of two CSCDs.
const SEGMENTS_AT: usize = 16 + 2 * 32;

fn two_segments() -> CopyList {
    CopyList::between(SOURCE, DESTINATION, segments_of(Lba(0x1000), Lba(0x2000), 0x1_0007))
}

/// Returns the list of two segments with one byte changed.
fn changed(at: usize, value: u8) -> Vec<u8> {
    let mut list = build_copy_list(&two_segments());
    list[at] = value;
    list
}

#[test]
fn golden_list() {
    let list = build_copy_list(&two_segments());
    assert_eq!(list[..16], [0, 0x18, 0, 64, 0, 0, 0, 0, 0, 0, 0, 56, 0, 0, 0, 0]);
    assert_eq!(list[16..24], [0xe4, 0, 0, 0, 1, 3, 0, 16]);
    assert_eq!(list[24..40], [0x61; 16]);
    assert_eq!(list[40..48], [0, 0, 0, 0, 0, 0, 2, 0]);
    assert_eq!(
        list[SEGMENTS_AT..SEGMENTS_AT + 28],
        [
            2, 0, 0, 0x18, 0, 0, 0, 1, 0, 0, 0xff, 0xff, // type, length, indices, count
            0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, // LBAs
        ]
    );
    assert_eq!(parse_copy_list(&list), Ok(two_segments()));
}

#[test]
fn segments_cover_the_range_without_gaps() {
    let segments = segments_of(Lba(10), Lba(90), 3 * 65535 + 1);
    assert_eq!(segments.len(), 4);
    assert_eq!(segments.iter().map(|s| u64::from(s.blocks)).sum::<u64>(), 3 * 65535 + 1);
    assert_eq!((segments[3].source_lba, segments[3].destination_lba), (Lba(10 + 3 * 65535), Lba(90 + 3 * 65535)));
    assert!(segments_of(Lba(0), Lba(0), 0).is_empty());
}

#[test]
fn truncated_lists_return_a_length_error() {
    let list = build_copy_list(&two_segments());
    for length in 0..list.len() {
        assert_eq!(parse_copy_list(&list[..length]), Err(Sense::parameter_list_length()), "{length} bytes");
    }
}

#[test]
fn copy_list_refusals_point_at_the_field() {
    let refused = |asc, byte, bit| Err(Sense::illegal(asc).at_parameter(byte, bit));
    let field = asc::INVALID_FIELD_IN_PARAMETER_LIST;
    let cases = [
        (changed(0, 7), refused(field, 0, None)), // an identifier with LIST ID USAGE 11b
        (changed(1, 0x08), refused(field, 1, Some(4))), // LIST ID USAGE 01b
        (changed(1, 0x80), refused(field, 1, Some(7))), // reserved
        (changed(15, 1), refused(asc::INLINE_DATA_LENGTH_EXCEEDED, 12, None)),
        (changed(16, 0xe0), refused(asc::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE, 16, None)),
        (changed(48 + 1, 0x01), refused(field, 49, Some(4))), // sequential access device
        (changed(48 + 5, 0x13), refused(field, 53, Some(5))), // designator of a port
        (changed(48 + 5, 0x0e), refused(field, 53, Some(3))), // unknown designator type
        (changed(48 + 7, 21), refused(field, 55, None)),      // designator longer than its descriptor
        (changed(48 + 30, 0x10), refused(field, 77, None)),   // 4096-byte blocks
        (changed(SEGMENTS_AT, 0x01), refused(asc::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE, 80, None)),
        (changed(SEGMENTS_AT + 28 + 1, 0x44), refused(field, 80 + 28 + 1, Some(6))),
        (changed(SEGMENTS_AT + 3, 0x1c), refused(field, 82, None)),
    ];
    for (list, refusal) in cases {
        assert_eq!(parse_copy_list(&list), refusal);
    }
}

#[test]
fn fields_ignored_by_spc_4_have_no_effect() {
    // LU ID TYPE, NUL, the initiator port, DC and CAT.
    for (at, value) in [(17, 0xe0), (18, 9), (SEGMENTS_AT + 1, 0x03)] {
        assert_eq!(parse_copy_list(&changed(at, value)), Ok(two_segments()));
    }
}

fn list_of(cscds: usize, segments: usize) -> Vec<u8> {
    let mut list = two_segments();
    list.cscds.resize(cscds, list.cscds[0].clone());
    list.segments.resize(segments, list.segments[0]);
    build_copy_list(&list)
}

#[test]
fn each_list_limit_has_its_own_sense() {
    assert!(parse_copy_list(&list_of(MAX_CSCDS, MAX_SEGMENTS)).is_ok());
    let too_many = |asc, byte| Err(Sense::illegal(asc).at_parameter(byte, None));
    assert_eq!(parse_copy_list(&list_of(MAX_CSCDS + 1, 1)), too_many(asc::TOO_MANY_TARGET_DESCRIPTORS, 2));
    assert_eq!(parse_copy_list(&list_of(1, MAX_SEGMENTS + 1)), too_many(asc::TOO_MANY_SEGMENT_DESCRIPTORS, 8));
    let both = list_of(MAX_CSCDS + 1, MAX_SEGMENTS + 1);
    assert_eq!(parse_copy_list(&both), Err(Sense::parameter_list_length()));
    let mut huge = list_of(1, 1);
    put(&mut huge, 8, u32::MAX.to_be_bytes());
    assert_eq!(parse_copy_list(&huge), Err(Sense::parameter_list_length()));
}

#[test]
fn missing_descriptor_aborts_at_its_segment() {
    let mut list = two_segments();
    list.segments[1].destination = 2;
    assert!(list.ends_of(0, &list.segments[0]).is_ok());
    assert_eq!(list.ends_of(1, &list.segments[1]), Err(not_reachable(1, false)));
    assert_eq!(
        not_reachable(1, false),
        Sense {
            key: SenseKey::CopyAborted,
            asc: asc::COPY_TARGET_DEVICE_NOT_REACHABLE,
            information: None,
            command_specific: Some(1),
            specific: Some(Specific::Segment { in_descriptor: true, byte: 6, bit: None }),
        }
    );
}

#[test]
fn golden_operating_parameters() {
    let bytes = OperatingParameters::ours().to_bytes();
    assert_eq!(bytes.len(), 46);
    assert_eq!(bytes[..20], [0, 0, 0, 42, 1, 0, 0, 0, 0, 64, 0, 64, 0, 0, 0x0f, 0, 0x01, 0xff, 0xfe, 0]);
    assert_eq!(bytes[34..], [0, 255, 255, 9, 0, 0, 0, 0, 0, 2, 0x02, 0xe4]);
    assert_eq!(OperatingParameters::from_bytes(&bytes), Some(OperatingParameters::ours()));
    assert_eq!(OperatingParameters::from_bytes(&bytes[..43]), None);
}

#[test]
fn golden_status_and_failure() {
    let status = CopyStatus { state: CopyState::Done, segments: 2, kibibytes: 0x0102_0304 };
    assert_eq!(status.to_bytes(), [0, 0, 0, 8, 1, 0, 2, 1, 1, 2, 3, 4]);
    assert_eq!(CopyStatus::from_bytes(&status.to_bytes()), Some(status));
    assert_eq!(CopyStatus::from_bytes(&[0; 11]), None);
    let failed = FailedSegment { status: Status::CheckCondition, sense: device_failure(3) };
    let bytes = failed.to_bytes(SenseFormat::Fixed);
    assert_eq!(bytes[..4], [0, 0, 0, 74]);
    assert_eq!(bytes[56..60], [0x02, 0, 0, 18]);
    assert_eq!(Sense::from_bytes(&bytes[60..]), Ok(device_failure(3)));
}

fn any_list() -> impl Strategy<Value = CopyList> {
    let segment = (any::<[u16; 3]>(), any::<[u64; 2]>()).prop_map(|([source, destination, blocks], lbas)| Segment {
        source,
        destination,
        blocks,
        source_lba: Lba(lbas[0]),
        destination_lba: Lba(lbas[1]),
    });
    let cscd = any::<[u8; 16]>().prop_map(|naa| Cscd { designator: Designator::naa(Naa(naa)) });
    let lists = (proptest::collection::vec(cscd, 0..8), proptest::collection::vec(segment, 0..8));
    (any::<u8>(), any::<bool>(), lists).prop_map(|(id, sequential, (cscds, segments))| CopyList {
        id,
        usage: if id == 0 { ListIdUsage::NoIdentifier } else { ListIdUsage::HoldData },
        sequential,
        cscds,
        segments,
    })
}

proptest! {
    #[test]
    fn copy_lists_round_trip(list in any_list()) {
        prop_assert_eq!(parse_copy_list(&build_copy_list(&list)), Ok(list));
    }

    #[test]
    fn damaged_copy_lists_parse_or_are_refused(list in any_list(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = build_copy_list(&list);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = parse_copy_list(&bytes);
    }
}
