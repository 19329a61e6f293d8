use proptest::prelude::*;

use super::*;
use crate::{digest::Digests, parameters::Parameters};

fn pairs(list: &[(&str, &str)]) -> Pairs {
    list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Returns the answers of a target with `ours` to `offers`, and the negotiated parameters.
fn answer(ours: Parameters, discovery: bool, offers: &[(&str, &str)]) -> (Pairs, Parameters) {
    let mut negotiation = Negotiation::new(ours, discovery);
    let answers = negotiation.receive_all(offers.iter().copied()).unwrap();
    (answers, negotiation.finish())
}

#[test]
fn pairs_survive_encoding_and_decoding() {
    let text = encode([("InitiatorName", "iqn.2026-11.a:b=c"), ("X", "")]);
    assert_eq!(&text[..], b"InitiatorName=iqn.2026-11.a:b=c\0X=\0");
    assert_eq!(parse(&text), Ok(pairs(&[("InitiatorName", "iqn.2026-11.a:b=c"), ("X", "")])));
    assert_eq!(parse(b"A=1\0\0\0B=2"), Ok(pairs(&[("A", "1"), ("B", "2")])));
}

#[test]
fn malformed_text_fails_with_its_cause() {
    assert_eq!(parse(b"novalue\0"), Err(TextError::Malformed));
    assert_eq!(parse(b"=1\0"), Err(TextError::Malformed));
    assert_eq!(parse(b"A B=1\0"), Err(TextError::Malformed));
    assert_eq!(parse(b"A=\xff\0"), Err(TextError::Encoding));
    assert_eq!(parse(b"A=1\0A=2\0"), Err(TextError::Repeated));
    assert_eq!(parse(format!("{}=1\0", "k".repeat(64)).as_bytes()), Err(TextError::TooLong));
    assert_eq!(parse(format!("k={}\0", "v".repeat(2051)).as_bytes()), Err(TextError::TooLong));
}

#[test]
fn split_text_is_assembled_up_to_its_limit() {
    let mut assembler = Assembler::new(20);
    assert_eq!(assembler.push(b"Initiator", true), Ok(None));
    assert!(assembler.is_open());
    assert_eq!(assembler.push(b"Alias=x\0", false), Ok(Some(pairs(&[("InitiatorAlias", "x")]))));
    assert!(!assembler.is_open());
    assert_eq!(assembler.push(&[b'a'; 20], true), Ok(None));
    assert_eq!(assembler.push(b"a", true), Err(TextError::TooLong));
}

#[test]
fn each_rule_negotiates_its_keys() {
    let (answers, agreed) = answer(
        Parameters::offer_of_target(),
        false,
        &[
            ("HeaderDigest", "CRC32C,None"),
            ("DataDigest", "None,CRC32C"),
            ("InitialR2T", "Yes"),
            ("ImmediateData", "No"),
            ("MaxRecvDataSegmentLength", "65536"),
            ("MaxBurstLength", "0x40000"),
            ("FirstBurstLength", "16777215"),
            ("DefaultTime2Wait", "5"),
            ("DefaultTime2Retain", "0"),
            ("MaxOutstandingR2T", "16"),
            ("ErrorRecoveryLevel", "2"),
            ("MaxConnections", "4"),
            ("DataPDUInOrder", "No"),
            ("DataSequenceInOrder", "No"),
            ("iSCSIProtocolLevel", "2"),
            ("TaskReporting", "FastAbort,RFC3720"),
        ],
    );
    let want = pairs(&[
        ("HeaderDigest", "CRC32C"),
        ("DataDigest", "None"),
        ("InitialR2T", "Yes"),
        ("ImmediateData", "No"),
        ("MaxBurstLength", "262144"),
        ("FirstBurstLength", "262144"),
        ("DefaultTime2Wait", "5"),
        ("DefaultTime2Retain", "0"),
        ("MaxOutstandingR2T", "8"),
        ("ErrorRecoveryLevel", "0"),
        ("MaxConnections", "1"),
        ("DataPDUInOrder", "Yes"),
        ("DataSequenceInOrder", "Yes"),
        ("iSCSIProtocolLevel", "1"),
        ("TaskReporting", "RFC3720"),
    ]);
    assert_eq!(answers, want);
    assert_eq!(agreed.max_send_segment, 65_536);
    assert_eq!(agreed.digests, Digests { header: true, data: false });
}

#[test]
fn unknown_and_invalid_keys_get_the_rfc_answer() {
    let (answers, agreed) = answer(
        Parameters::offer_of_target(),
        false,
        &[
            ("OFMarker", "Yes"),
            ("IFMarkInt", "1~2"),
            ("X-com.example.key", "1"),
            ("HeaderDigest", "SHA9"),
            ("MaxBurstLength", "511"),
            ("InitialR2T", "maybe"),
        ],
    );
    let want = pairs(&[
        ("OFMarker", "No"),
        ("IFMarkInt", REJECT),
        ("X-com.example.key", NOT_UNDERSTOOD),
        ("HeaderDigest", REJECT),
        ("MaxBurstLength", REJECT),
        ("InitialR2T", REJECT),
    ]);
    assert_eq!(answers, want);
    assert_eq!(agreed, Parameters::default());
}

#[test]
fn transfer_keys_are_irrelevant_in_discovery() {
    let (answers, _) =
        answer(Parameters::offer_of_target(), true, &[("MaxBurstLength", "1024"), ("DefaultTime2Wait", "2")]);
    assert_eq!(answers, pairs(&[("MaxBurstLength", "Irrelevant"), ("DefaultTime2Wait", "2")]));
}

#[test]
fn repeated_key_fails_negotiation() {
    let mut negotiation = Negotiation::new(Parameters::offer_of_target(), false);
    assert!(negotiation.receive_all([("InitialR2T", "No")]).is_ok());
    assert_eq!(negotiation.receive_all([("InitialR2T", "No")]), Err(TextError::Repeated));
    assert!(negotiation.declaration().is_some());
    assert!(negotiation.declaration().is_none());
}

#[test]
fn numbers_parse_as_unsigned_decimal_or_hex() {
    use super::negotiation::parse_number;
    assert_eq!(parse_number("512", 0, 1000), Some(512));
    assert_eq!(parse_number("0x1F", 0, 1000), Some(31));
    assert_eq!(parse_number("+5", 0, 1000), None);
    assert_eq!(parse_number("", 0, 1000), None);
    assert_eq!(parse_number("0x", 0, 1000), None);
    assert_eq!(parse_number("1001", 0, 1000), None);
    assert_eq!(parse_number("99999999999", 0, u32::MAX), None);
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let bools = any::<(bool, bool, bool, bool, bool, bool)>();
    let sizes = (512u32..1 << 24, 512u32..1 << 24, 512u32..1 << 24, 1u16.., 1u16.., 0u16..3600, 0u16..3600);
    (bools, sizes).prop_map(|(b, s)| Parameters {
        digests: Digests { header: b.0, data: b.1 },
        initial_r2t: b.2,
        immediate_data: b.3,
        data_pdu_in_order: b.4,
        data_sequence_in_order: b.5,
        max_receive_segment: s.0,
        max_burst_length: s.1,
        first_burst_length: s.2,
        max_outstanding_r2t: s.3,
        max_connections: s.4,
        time_to_wait: s.5,
        time_to_retain: s.6,
        ..Parameters::default()
    })
}

proptest! {
    /// Both ends negotiate the same values, apart from the two directions of
    /// MaxRecvDataSegmentLength.
    #[test]
    fn both_ends_negotiate_equal_parameters(initiator in parameters(), target in parameters()) {
        let mut asking = Negotiation::new(initiator.clone(), false);
        let mut answering = Negotiation::new(target.clone(), false);
        let offers = asking.offers();
        let mut answers = answering.receive_all(offers.iter().map(|(k, v)| (k.as_str(), v.as_str()))).unwrap();
        answers.extend(answering.declaration());
        let more = asking.receive_all(answers.iter().map(|(k, v)| (k.as_str(), v.as_str()))).unwrap();
        prop_assert_eq!(more, Pairs::new());
        let (mut one, two) = (asking.finish(), answering.finish());
        prop_assert_eq!(one.max_send_segment, target.max_receive_segment);
        prop_assert_eq!(one.max_receive_segment, initiator.max_receive_segment);
        std::mem::swap(&mut one.max_send_segment, &mut one.max_receive_segment);
        prop_assert_eq!(&one, &two);
        prop_assert!(two.first_burst_length <= two.max_burst_length);
        prop_assert_eq!(two.initial_r2t, initiator.initial_r2t || target.initial_r2t);
        prop_assert_eq!(two.immediate_data, initiator.immediate_data && target.immediate_data);
    }

    #[test]
    fn negotiating_arbitrary_text_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(pairs) = parse(&bytes) {
            let mut negotiation = Negotiation::new(Parameters::offer_of_target(), false);
            let _ = negotiation.receive_all(pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())));
        }
    }
}
