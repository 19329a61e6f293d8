use super::*;
use proptest::prelude::*;

#[test]
fn fixed_format_golden_bytes() {
    let sense = Sense::invalid_cdb_field(1, Some(4));
    assert_eq!(
        sense.to_bytes(SenseFormat::Fixed),
        [0x70, 0, 0x05, 0, 0, 0, 0, 0x0a, 0, 0, 0, 0, 0x24, 0x00, 0, 0xcc, 0x00, 0x01]
    );
    assert_eq!(
        Sense::miscompare(0x0102).to_bytes(SenseFormat::Fixed),
        [0xf0, 0, 0x0e, 0, 0, 1, 2, 0x0a, 0, 0, 0, 0, 0x1d, 0x00, 0, 0, 0, 0]
    );
}

#[test]
fn descriptor_format_golden_bytes() {
    assert_eq!(
        Sense::lba_out_of_range(0x1122_3344_5566).at_cdb(2, None).to_bytes(SenseFormat::Descriptor),
        [
            0x72, 0x05, 0x21, 0x00, 0, 0, 0, 20, // header
            0x00, 0x0a, 0x80, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, // information
            0x02, 0x06, 0, 0, 0xc0, 0, 2, 0, // sense key specific
        ]
    );
}

#[test]
fn fixed_format_omits_information_over_32_bits() {
    let bytes = Sense::lba_out_of_range(1 << 32).to_bytes(SenseFormat::Fixed);
    assert_eq!(bytes[0], 0x70);
    assert_eq!(Sense::from_bytes(&bytes).map(|s| s.information), Ok(None));
}

#[test]
fn truncated_and_unknown_sense_differ() {
    assert_eq!(Sense::from_bytes(&[]), Err(SenseError::Short(0)));
    assert_eq!(Sense::from_bytes(&[0x70, 0, 5]), Err(SenseError::Short(3)));
    assert_eq!(Sense::from_bytes(&[0x7f; 18]), Err(SenseError::ResponseCode(0x7f)));
    let unit_attention = Sense::from_bytes(&[0x70, 0, 6, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0x29, 0x07]);
    assert_eq!(unit_attention, Ok(Sense::unit_attention(asc::I_T_NEXUS_LOSS_OCCURRED)));
}

#[test]
fn unknown_sense_descriptors_are_skipped() {
    let bytes = [0x72, 0x0e, 0x1d, 0, 0, 0, 0, 16, 0x81, 2, 9, 9, 0x00, 0x0a, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    assert_eq!(Sense::from_bytes(&bytes), Ok(Sense::miscompare(7)));
}

#[test]
fn sense_texts_use_the_standard_names() {
    assert_eq!(asc::INVALID_FIELD_IN_CDB.to_string(), "24/00 invalid field in CDB");
    assert_eq!(Asc(0x8801).to_string(), "88/01");
    assert_eq!(
        Sense::invalid_parameter(4, None).to_string(),
        "IllegalRequest 26/00 invalid field in parameter list at byte 4 of the parameter list"
    );
}

fn any_sense() -> impl Strategy<Value = Sense> {
    let bit = proptest::option::of(0u8..8);
    let fields = (any::<u16>(), any::<u32>(), any::<Option<u32>>(), any::<Option<u16>>(), any::<bool>(), bit, 0u8..16);
    fields.prop_map(|(asc, information, command, byte, flag, bit, key)| {
        let key = SenseKey::from_nibble(key);
        let specific = byte.and_then(|byte| match key {
            SenseKey::IllegalRequest => Some(Specific::Field { in_cdb: flag, byte, bit }),
            SenseKey::CopyAborted => Some(Specific::Segment { in_descriptor: flag, byte, bit }),
            SenseKey::NotReady | SenseKey::NoSense => Some(Specific::Progress(byte)),
            _ => None,
        });
        let command_specific = command.filter(|c| *c != 0).map(u64::from);
        Sense { key, asc: Asc(asc), information: Some(u64::from(information)), command_specific, specific }
    })
}

proptest! {
    #[test]
    fn sense_round_trips_in_both_formats(sense in any_sense()) {
        for format in [SenseFormat::Fixed, SenseFormat::Descriptor] {
            prop_assert_eq!(Sense::from_bytes(&sense.to_bytes(format)), Ok(sense));
        }
    }

    #[test]
    fn arbitrary_sense_parses_or_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Sense::from_bytes(&bytes);
    }
}
