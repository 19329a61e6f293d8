//! JSON forms that clients depend on.

use super::*;
use serde_json::json;

#[test]
fn list_envelope_has_all_fields() {
    let list = Items::all(vec![ConnectionPost { lun: Some(3) }]);
    assert_eq!(
        serde_json::to_value(&list).unwrap(),
        json!({
            "continuation_token": null,
            "items": [{"lun": 3}],
            "more_items_remaining": false,
            "total_item_count": null,
        })
    );
}

#[test]
fn missing_reference_has_null_fields() {
    assert_eq!(serde_json::to_value(Reference::default()).unwrap(), json!({"id": null, "name": null}));
}

#[test]
fn sizes_are_integers_up_to_4_pib() {
    let post: VolumePost = serde_json::from_str(r#"{"provisioned":4503599627370496}"#).unwrap();
    assert_eq!(post.provisioned, Some(4 << 50));
    assert!(serde_json::from_str::<VolumePost>(r#"{"provisioned":1048576.0}"#).is_err());
    assert!(serde_json::from_str::<VolumePost>(r#"{"provisioned":-1}"#).is_err());
    assert!(serde_json::from_str::<VolumePost>(r#"{"provisioned":"1G"}"#).is_err());
}

#[test]
fn unknown_request_fields_are_refused() {
    assert!(serde_json::from_str::<VolumePost>(r#"{"provisoned":1}"#).is_err());
    assert!(serde_json::from_str::<VolumePatch>(r#"{"pods":{"name":"p"}}"#).is_err());
    assert!(serde_json::from_str::<HostPost>(r#"{"iqn":[]}"#).is_err());
    assert!(serde_json::from_str::<HostPatch>(r#"{"chap":{"user":"x"}}"#).is_err());
    assert!(serde_json::from_str::<ConnectionPost>(r#"{"lun":1,"nsid":1}"#).is_err());
}

#[test]
fn error_codes_are_optional_and_open_ended() {
    let error = ApiError { code: ErrorCode::VolumeNotFound, context: None, message: "m".into() };
    let text = r#"{"code":"volume_not_found","context":null,"message":"m"}"#;
    assert_eq!(serde_json::to_string(&error).unwrap(), text);
    for foreign in [r#"{"context":null,"message":"m"}"#, r#"{"code":"from_the_future","context":null,"message":"m"}"#] {
        assert_eq!(serde_json::from_str::<ApiError>(foreign).unwrap().code, ErrorCode::Unspecified);
    }
}

#[test]
fn patch_contains_only_changed_fields() {
    let patch = VolumePatch { destroyed: Some(true), ..VolumePatch::default() };
    assert_eq!(serde_json::to_string(&patch).unwrap(), r#"{"destroyed":true}"#);
}

#[test]
fn debug_output_hides_chap_secrets() {
    let chap = Chap { host_user: Some("esx".into()), host_password: Some("secret".into()), ..Chap::default() };
    assert_eq!(format!("{chap:?}"), r#"Chap { host_user: Some("esx"), target_user: None }"#);
}
