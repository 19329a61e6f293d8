use super::*;
use crate::inquiry::parse_designators;

const SERIAL: &str = "0123456789ABCDEF00011010";

fn with_device<T>(look: impl FnOnce(&Device<'_>) -> T) -> T {
    let port = TargetPort { relative: 1, group: 1, target_name: "iqn.2026-11.test:array".to_owned(), portal_group: 1 };
    let naa = Naa::from_serial(SERIAL).unwrap();
    look(&Device {
        serial: SERIAL,
        naa,
        port: &port,
        volatile_cache: false,
        unmap_granularity: UNMAP_GRANULARITY_BLOCKS,
    })
}

fn page_bytes(code: u8) -> Vec<u8> {
    with_device(|device| page(code, device)).unwrap()
}

#[test]
fn listed_pages_exist_and_are_sorted() {
    let list = page_bytes(SUPPORTED_PAGES);
    assert_eq!(list, [0, 0, 0, 8, 0x00, 0x80, 0x83, 0x86, 0x8f, 0xb0, 0xb1, 0xb2]);
    for code in 0..=255 {
        let found = with_device(|device| page(code, device));
        assert_eq!(found.is_some(), list[4..].contains(&code), "{code:#04x}");
        if let Some(bytes) = found {
            assert_eq!(bytes[..2], [0, code]);
            assert_eq!(usize::from(get_u16(&bytes, 2)) + HEADER_BYTES, bytes.len());
            assert_eq!(body_of(code, &bytes), Some(&bytes[HEADER_BYTES..]));
        }
    }
}

#[test]
fn golden_block_limits() {
    let page = page_bytes(BLOCK_LIMITS);
    assert_eq!(page.len(), 64);
    assert_eq!(
        page[..48],
        [
            0, 0xb0, 0, 0x3c, // header
            0, 255, 0, 8, // WSNZ, COMPARE AND WRITE, granularity
            0, 1, 0, 0, 0, 0, 0x08, 0, 0, 0, 0, 0, // transfers
            0xff, 0xff, 0xff, 0xff, 0, 0, 0x0f, 0xff, // UNMAP
            0, 0, 0, 8, 0x80, 0, 0, 0, // granularity, UGAVALID
            0, 0, 0, 0, 0, 0, 0, 0, // WRITE SAME
            0, 0, 0x08, 0, // WRITE ATOMIC
        ]
    );
    assert_eq!(BlockLimits::from_body(&page[4..]), BlockLimits::OURS);
    assert_eq!(BlockLimits::from_body(&[]).max_transfer, 0);
}

#[test]
fn golden_small_pages() {
    assert_eq!(page_bytes(UNIT_SERIAL_NUMBER)[4..], *SERIAL.as_bytes());
    assert_eq!(page_bytes(BLOCK_DEVICE_CHARACTERISTICS)[..6], [0, 0xb1, 0, 0x3c, 0, 1]);
    assert_eq!(page_bytes(LOGICAL_BLOCK_PROVISIONING), [0, 0xb2, 0, 4, 11, 0xe4, 2, 0]);
    assert_eq!(page_bytes(EXTENDED_INQUIRY)[..8], [0, 0x86, 0, 0x3c, 0, 7, 0, 0]);
}

#[test]
fn unmap_descriptor_limit_fits_a_parameter_list() {
    assert_eq!(MAX_UNMAP_DESCRIPTORS, (u32::from(u16::MAX) - 8) / 16);
}

#[test]
fn identification_starts_with_the_volume_naa() {
    let page = page_bytes(DEVICE_IDENTIFICATION);
    let designators = parse_designators(&page[4..]);
    assert_eq!(designators.len(), 5);
    assert_eq!(designators[0], Designator::naa(Naa::from_serial(SERIAL).unwrap()));
    assert!(page.len() <= 255, "hosts ask for 255 bytes first");
}

#[test]
fn other_pages_and_cut_headers_have_no_body() {
    assert_eq!(body_of(BLOCK_LIMITS, &page_bytes(UNIT_SERIAL_NUMBER)), None);
    assert_eq!(body_of(BLOCK_LIMITS, &[0, 0xb0, 0]), None);
    assert_eq!(body_of(BLOCK_LIMITS, &[0, 0xb0, 0, 60, 7]), Some([7].as_slice()));
}
