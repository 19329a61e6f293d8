//! Seeded fuzz runs. Random bytes rarely pass the first header, so the streams consist of almost
//! valid PDUs.

use proptest::prelude::*;

use super::*;

/// A PDU with a valid opcode, matching lengths, small tags and sequence numbers, and random other
/// fields.
fn almost_pdu() -> impl Strategy<Value = Vec<u8>> {
    let opcodes = prop::sample::select(vec![0u8, 1, 1, 1, 2, 3, 4, 5, 5, 5, 6, 0x10, 0x20, 0x25, 0x31, 0x3f, 0x1e]);
    let small = || prop_oneof![0u32..6, Just(u32::MAX), any::<u32>()];
    let head = (opcodes, any::<bool>(), any::<u8>(), prop::array::uniform8(small()));
    (head, any::<[u8; 16]>(), prop::collection::vec(any::<u8>(), 0..600), 0u8..4).prop_map(
        |((opcode, immediate, flags, words), cdb, data, ahs)| {
            let mut pdu = vec![opcode | if immediate { 0x40 } else { 0 }, flags, 0, 0, ahs / 3];
            pdu.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes()[1..]);
            words.iter().take(6).for_each(|word| pdu.extend_from_slice(&word.to_be_bytes()));
            match opcode {
                5 => [0, words[6], words[7] % 3 * 512, 0].iter().for_each(|w| pdu.extend_from_slice(&w.to_be_bytes())),
                _ => pdu.extend_from_slice(&cdb),
            }
            pdu.extend_from_slice(&vec![0; usize::from(ahs / 3) * 4]);
            pdu.extend_from_slice(&data);
            pdu.resize(pdu.len().next_multiple_of(4), 0);
            pdu
        },
    )
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(almost_pdu(), 0..40).prop_map(|pdus| pdus.concat())
}

/// Text of existing keys with almost valid values.
fn almost_text() -> impl Strategy<Value = Vec<u8>> {
    let keys = vec![
        "InitiatorName",
        "TargetName",
        "SessionType",
        "AuthMethod",
        "CHAP_A",
        "CHAP_N",
        "CHAP_R",
        "CHAP_I",
        "CHAP_C",
        "HeaderDigest",
        "DataDigest",
        "MaxConnections",
        "InitialR2T",
        "ImmediateData",
        "MaxRecvDataSegmentLength",
        "MaxBurstLength",
        "FirstBurstLength",
        "DefaultTime2Wait",
        "DefaultTime2Retain",
        "MaxOutstandingR2T",
        "DataPDUInOrder",
        "ErrorRecoveryLevel",
        "TaskReporting",
        "OFMarker",
        "X-com.example",
    ];
    let values =
        vec!["iqn.a", "iqn.bc", "Discovery", "Normal", "CHAP,None", "5,7", "Yes", "No", "CRC32C,None", "0x200", "512"];
    let value = prop_oneof![prop::sample::select(values).prop_map(str::to_owned), "[ -~]{0,20}"];
    let pair = (prop::sample::select(keys), value).prop_map(|(key, value)| format!("{key}={value}\0"));
    let intro = any::<bool>().prop_map(|with| if with { "InitiatorName=iqn.ab\0TargetName=iqn.t\0" } else { "" });
    (intro, prop::collection::vec(pair, 0..12)).prop_map(|(intro, pairs)| format!("{intro}{}", pairs.concat()).into())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn almost_valid_pdu_streams_keep_invariants(choice: u8, stream in stream()) {
        fuzz_pdu(&[&[choice][..], &stream[..]].concat());
        fuzz_login(&stream);
    }

    #[test]
    fn almost_valid_login_texts_keep_invariants(text in almost_text()) {
        fuzz_login_text(&text);
    }

    #[test]
    fn almost_valid_connections_keep_invariants(flags: u8, pace: u8, stream in stream()) {
        fuzz_target_connection(&[&[flags, pace][..], &stream[..]].concat());
    }

    #[test]
    fn random_bytes_keep_invariants(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        fuzz_pdu(&bytes);
        fuzz_login(&bytes);
        fuzz_login_text(&bytes);
        fuzz_target_connection(&bytes);
    }
}
