use super::*;
use proptest::prelude::*;
use serde_json::json;

fn volume() -> Value {
    json!({
        "name": "vm-100-disk-0",
        "destroyed": false,
        "provisioned": 1_073_741_824_u64,
        "pod": {"name": null},
        "space": {"data_reduction": 1.5},
        "iqns": ["iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2"],
        "is_local": true,
    })
}

fn field(name: &str) -> Result<Value, String> {
    lookup(&volume(), name).cloned()
}

fn matches(text: &str) -> bool {
    Filter::parse(text).unwrap().matches(&field).unwrap()
}

#[test]
fn filters_of_known_clients_match() {
    for text in [
        "name='vm-100-disk-0'",
        "name='VM-100-*'",
        r#"name="vm-*-disk-*""#,
        "(name='p/vm-*-disk-*' or name='vm-*-disk-0') and destroyed='false'",
        "iqns='iqn.1998-01.com.vmware:ESX2' and is_local",
        "not destroyed",
        "NOT destroyed AND is_local",
        "destroyed=false",
        "provisioned>=1073741824 and provisioned < 1073741825",
        "provisioned='1073741824'",
        "space.data_reduction > 1",
        "pod.name=null",
        "pod.name!='p'",
        "name=('a','vm-100-disk-0')",
        "name='x' or name='y' or not (name='z' and is_local)",
        "iqns != 'iqn.1998-01.com.vmware:esx3'",
        "name > 'vl'",
    ] {
        assert!(matches(text), "{text}");
    }
}

#[test]
fn filters_with_false_conditions_do_not_match() {
    for text in [
        "name='vm-100-disk-00'",
        "name='*-disk-1'",
        "name='vm-100-disk-0' and destroyed",
        "not is_local",
        "iqns='iqn.1998-01.com.vmware:esx3' and is_local",
        "iqns != 'iqn.1998-01.com.vmware:esx1'",
        "provisioned>1073741824",
        "pod.name='p'",
        "name < 5",
        "name=('a','b')",
        "name",
        // `and` binds more strongly than `or`.
        "destroyed and is_local or destroyed",
    ] {
        assert!(!matches(text), "{text}");
    }
}

#[test]
fn malformed_filters_are_refused() {
    let deep = format!("{}name{}", "(".repeat(40), ")".repeat(40));
    let nots = format!("{}name", "not ".repeat(1000));
    for text in [
        "",
        "and",
        "name=",
        "name='x",
        "name=x",
        "(name='x'",
        "name='x')",
        "name='x' name='y'",
        "!",
        "name='x' and",
        "=",
        "name=('a'",
        "name=()",
        "ä=%",
        &deep,
        &nots,
    ] {
        assert!(Filter::parse(text).is_err(), "{text}");
    }
}

#[test]
fn unknown_field_is_an_error_anywhere() {
    for text in ["nmae='x'", "is_local or nmae", "destroyed and pod.nmae='x'", "not name.x"] {
        assert!(Filter::parse(text).unwrap().matches(&field).unwrap_err().contains("no field"), "{text}");
    }
}

/// A simple reference implementation of [`like`].
fn like_slowly(text: &[u8], pattern: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|skip| like_slowly(&text[skip..], rest)),
        Some((byte, rest)) => text.first() == Some(byte) && like_slowly(&text[1..], rest),
    }
}

proptest! {
    #[test]
    fn star_matches_like_the_reference(text in "[ab]{0,8}", pattern in "[ab*]{0,6}") {
        prop_assert_eq!(like(&text, &pattern), like_slowly(text.as_bytes(), pattern.as_bytes()));
    }

    #[test]
    fn parser_never_panics(text in "[ a-c().,'\"=!<>*é-]{0,40}|(not |and |or |name|=|'x'|\\(|\\)| ){0,12}") {
        if let Ok(filter) = Filter::parse(&text) {
            let _ = filter.matches(&field);
        }
    }
}
