use super::*;
use crate::cdb::{CdbSize, ModeSense, PageControl};
use crate::sense::{Sense, asc};
use proptest::prelude::*;

const STATE: ModeState = ModeState {
    current: ModeSettings { write_cache: true, descriptor_sense: false, write_protect: false },
    default: ModeSettings { write_cache: false, descriptor_sense: false, write_protect: false },
    write_cache_changeable: true,
    read_only: false,
    blocks: 0x1_0000,
    thresholds: Thresholds { available: Some(0x1234), used: None },
};

fn request(page: u8, control: PageControl) -> ModeSense {
    ModeSense {
        size: CdbSize::Six,
        no_block_descriptors: true,
        long_lba: false,
        control,
        page,
        subpage: 0,
        allocation: 255,
    }
}

#[test]
fn golden_caching_page() {
    let data = mode_sense(&STATE, &request(0x08, PageControl::Current)).unwrap();
    assert_eq!(data[..7], [23, 0, 0x10, 0, 0x08, 0x12, 0x04]);
    assert_eq!(data[7..], [0; 17]);
    let default = mode_sense(&STATE, &request(0x08, PageControl::Default)).unwrap();
    assert_eq!(default[6], 0);
    let mask = mode_sense(&STATE, &request(0x08, PageControl::Changeable)).unwrap();
    assert_eq!(mask[4..7], [0x08, 0x12, 0x04]);
    let fixed = ModeState { write_cache_changeable: false, ..STATE };
    assert_eq!(mode_sense(&fixed, &request(0x08, PageControl::Changeable)).unwrap()[6], 0);
}

#[test]
fn golden_control_page() {
    let protected = ModeSettings { descriptor_sense: true, write_protect: true, ..STATE.current };
    let state = ModeState { current: protected, ..STATE };
    let data = mode_sense(&state, &request(0x0a, PageControl::Current)).unwrap();
    assert_eq!(data, [15, 0, 0x90, 0, 0x0a, 0x0a, 0x06, 0x10, 0x08, 0x40, 0, 0, 0, 0, 0, 0]);
    let mask = mode_sense(&state, &request(0x0a, PageControl::Changeable)).unwrap();
    assert_eq!(mask[4..], [0x0a, 0x0a, 0x04, 0, 0x08, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn all_pages_are_ordered_after_the_block_descriptor() {
    for (subpage, bytes) in [(0x00, 84), (0xff, 84 + 32)] {
        let all = ModeSense { no_block_descriptors: false, subpage, ..request(0x3f, PageControl::Current) };
        let data = mode_sense(&STATE, &all).unwrap();
        assert_eq!(data[..4], [u8::try_from(bytes).unwrap() - 1, 0, 0x10, 8]);
        assert_eq!(data[4..12], [0, 1, 0, 0, 0, 0, 2, 0]);
        assert_eq!(data.len(), bytes);
        for code in [0x01, 0x02, 0x08, 0x0a, 0x1c] {
            let page = find_page(&data, CdbSize::Six, code).unwrap();
            assert_eq!((page[0], usize::from(page[1]) + 2), (code, page.len()));
        }
        assert_eq!(find_page(&data, CdbSize::Six, 0x05), None);
    }
}

#[test]
fn golden_provisioning_page() {
    let provisioning = ModeSense { subpage: 0x02, ..request(0x1c, PageControl::Current) };
    let data = mode_sense(&STATE, &provisioning).unwrap();
    let mut page = vec![0x5c, 0x02, 0, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    page.extend([0x80, 0x01, 0, 0, 0, 0, 0x12, 0x34]); // soft, armed decreasing, available
    page.extend([0x01, 0x02, 0, 0, 0, 0, 0, 0]); // not enabled: soft, armed increasing, used
    assert_eq!(data[4..], page);
    let mask = mode_sense(&STATE, &ModeSense { control: PageControl::Changeable, ..provisioning }).unwrap();
    assert_eq!(mask[4..8], [0x5c, 0x02, 0, 28]);
    assert_eq!(mask[8..], [0; 28]);
}

#[test]
fn subpages_are_returned_singly_or_together() {
    let pages = |page, subpage| mode_sense(&STATE, &ModeSense { subpage, ..request(page, PageControl::Current) });
    assert_eq!(pages(0x1c, 0x00).unwrap().len(), 4 + 12);
    assert_eq!(pages(0x1c, 0xff).unwrap().len(), 4 + 12 + 32);
    assert_eq!(pages(0x0a, 0xff).unwrap().len(), 4 + 12);
    for (page, subpage) in [(0x1c, 0x01), (0x0a, 0x02), (0x3f, 0x02)] {
        assert_eq!(pages(page, subpage), Err(Sense::invalid_cdb_field(3, None)), "{page:02x}/{subpage:02x}");
    }
    assert_eq!(pages(0x05, 0x00), Err(Sense::invalid_cdb_field(2, Some(5))));
}

#[test]
fn hosts_cannot_change_thresholds() {
    let provisioning = ModeSense { subpage: 0x02, ..request(0x1c, PageControl::Current) };
    let list = mode_sense(&STATE, &provisioning).unwrap();
    let changed = |at: usize, value: u8| {
        let mut list = list.clone();
        list[at] = value;
        select(&list)
    };
    assert_eq!(select(&list), Ok(STATE.current));
    assert_eq!(changed(27, 0x35), Err(Sense::invalid_parameter(27, Some(0)))); // THRESHOLD COUNT
    assert_eq!(changed(20, 0x00), Err(Sense::invalid_parameter(20, Some(7)))); // ENABLED
    assert_eq!(changed(7, 29), Err(Sense::invalid_parameter(6, None))); // PAGE LENGTH
    assert_eq!(changed(5, 0x03), Err(Sense::invalid_parameter(4, Some(6)))); // SUBPAGE CODE
    assert_eq!(changed(5, 0x00), Err(Sense::invalid_parameter(5, None)));
    assert_eq!(select(&list[..7]), Err(Sense::parameter_list_length()));
}

#[test]
fn ten_byte_header_with_a_long_descriptor() {
    let state = ModeState { blocks: 1 << 40, read_only: true, ..STATE };
    let wide = ModeSense {
        size: CdbSize::Ten,
        no_block_descriptors: false,
        long_lba: true,
        ..request(0x1c, PageControl::Current)
    };
    let data = mode_sense(&state, &wide).unwrap();
    assert_eq!(data[..8], [0, 34, 0, 0x90, 0x01, 0, 0, 16]);
    assert_eq!(data[8..24], [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
    assert_eq!(find_page(&data, CdbSize::Ten, 0x1c).map(|page| page[2]), Some(0x08));
    let short = mode_sense(&state, &ModeSense { long_lba: false, ..wide }).unwrap();
    assert_eq!(short[8..16], [0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0]);
}

#[test]
fn unsupported_mode_pages_are_refused() {
    let saved = mode_sense(&STATE, &request(0x3f, PageControl::Saved));
    assert_eq!(saved, Err(Sense::illegal(asc::SAVING_PARAMETERS_NOT_SUPPORTED)));
    assert_eq!(mode_sense(&STATE, &request(0x19, PageControl::Current)), Err(Sense::invalid_cdb_field(2, Some(5))));
    let subpage = ModeSense { subpage: 1, ..request(0x0a, PageControl::Current) };
    assert_eq!(mode_sense(&STATE, &subpage), Err(Sense::invalid_cdb_field(3, None)));
}

/// Returns a six-byte MODE SELECT list of the Control page, modified by `change`.
fn control_list(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut list = mode_sense(&STATE, &request(0x0a, PageControl::Current)).unwrap();
    list[0] = 0;
    change(&mut list);
    list
}

fn select(list: &[u8]) -> Result<ModeSettings, Sense> {
    mode_select(&STATE, CdbSize::Six, true, list)
}

#[test]
fn mode_select_accepts_mode_sense_data() {
    for size in [CdbSize::Six, CdbSize::Ten] {
        for long_lba in [false, size == CdbSize::Ten] {
            let all = ModeSense { size, no_block_descriptors: false, long_lba, ..request(0x3f, PageControl::Current) };
            let list = mode_sense(&STATE, &all).unwrap();
            assert_eq!(mode_select(&STATE, size, true, &list), Ok(STATE.current));
        }
    }
    assert_eq!(mode_select(&STATE, CdbSize::Six, false, &[]), Ok(STATE.current));
}

#[test]
fn changeable_bits_are_applied() {
    let protect = select(&control_list(|list| list[8] |= 0x08));
    assert_eq!(protect, Ok(ModeSettings { write_protect: true, ..STATE.current }));
    let descriptor = select(&control_list(|list| list[6] |= 0x04));
    assert_eq!(descriptor, Ok(ModeSettings { descriptor_sense: true, ..STATE.current }));
    let mut caching = mode_sense(&STATE, &request(0x08, PageControl::Current)).unwrap();
    caching[6] = 0;
    assert_eq!(select(&caching), Ok(ModeSettings { write_cache: false, ..STATE.current }));
    let fixed = ModeState { write_cache_changeable: false, ..STATE };
    assert_eq!(mode_select(&fixed, CdbSize::Six, true, &caching), Err(Sense::invalid_parameter(6, Some(2))));
}

#[test]
fn mode_select_refusals_point_at_the_field() {
    let cases = [
        (control_list(|list| list[9] ^= 0x40), Sense::invalid_parameter(9, Some(6))), // TAS
        (control_list(|list| list[6] ^= 0x02), Sense::invalid_parameter(6, Some(1))), // GLTSD
        (control_list(|list| list[5] = 0x0b), Sense::invalid_parameter(5, None)),
        (control_list(|list| list[4] = 0x19), Sense::invalid_parameter(4, Some(5))),
        (control_list(|list| list[4] |= 0x80), Sense::invalid_parameter(4, Some(7))),
        (control_list(|list| list[4] |= 0x40), Sense::invalid_parameter(4, Some(6))), // SPF
        (control_list(|list| list[1] = 0x05), Sense::invalid_parameter(1, None)),
        (control_list(|list| list[3] = 9), Sense::invalid_parameter(3, None)),
        (control_list(|list| list.truncate(15)), Sense::parameter_list_length()),
        (control_list(|list| list.truncate(5)), Sense::parameter_list_length()),
        (control_list(|list| list.truncate(3)), Sense::parameter_list_length()),
        (vec![0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 2], Sense::parameter_list_length()),
        (vec![0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 2, 0], Sense::invalid_parameter(4, None)),
        (vec![0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 16, 0], Sense::invalid_parameter(9, None)),
    ];
    for (list, sense) in cases {
        assert_eq!(select(&list), Err(sense), "{list:02x?}");
    }
    let no_page_format = mode_select(&STATE, CdbSize::Six, false, &control_list(|_| {}));
    assert_eq!(no_page_format, Err(Sense::invalid_cdb_field(1, Some(4))));
}

proptest! {
    #[test]
    fn arbitrary_mode_lists_parse_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80), ten in any::<bool>()) {
        let size = if ten { CdbSize::Ten } else { CdbSize::Six };
        let _ = mode_select(&STATE, size, true, &bytes);
        let _ = find_page(&bytes, size, 0x08);
    }
}
