//! The wire forms that clients depend on.

use super::*;
use serde_json::json;

#[test]
fn a_list_has_the_envelope_that_clients_read() {
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
fn an_absent_object_is_there_with_nulls() {
    assert_eq!(serde_json::to_value(Reference::default()).unwrap(), json!({"id": null, "name": null}));
}

#[test]
fn sizes_are_integers_up_to_the_largest_volume() {
    let post: VolumePost = serde_json::from_str(r#"{"provisioned":4503599627370496}"#).unwrap();
    assert_eq!(post.provisioned, Some(4 << 50));
    assert!(serde_json::from_str::<VolumePost>(r#"{"provisioned":1048576.0}"#).is_err());
    assert!(serde_json::from_str::<VolumePost>(r#"{"provisioned":-1}"#).is_err());
    assert!(serde_json::from_str::<VolumePost>(r#"{"provisioned":"1G"}"#).is_err());
}

#[test]
fn unknown_fields_of_requests_are_refused() {
    assert!(serde_json::from_str::<VolumePost>(r#"{"provisoned":1}"#).is_err());
    assert!(serde_json::from_str::<VolumePatch>(r#"{"pod":{"name":"p"}}"#).is_err());
    assert!(serde_json::from_str::<HostPost>(r#"{"iqn":[]}"#).is_err());
    assert!(serde_json::from_str::<HostPatch>(r#"{"chap":{"user":"x"}}"#).is_err());
    assert!(serde_json::from_str::<ConnectionPost>(r#"{"lun":1,"nsid":1}"#).is_err());
}

#[test]
fn a_patch_sends_only_what_it_changes() {
    let patch = VolumePatch { destroyed: Some(true), ..VolumePatch::default() };
    assert_eq!(serde_json::to_string(&patch).unwrap(), r#"{"destroyed":true}"#);
}

#[test]
fn secrets_do_not_reach_logs() {
    let chap = Chap { host_user: Some("esx".into()), host_password: Some("secret".into()), ..Chap::default() };
    assert_eq!(format!("{chap:?}"), r#"Chap { host_user: Some("esx"), target_user: None }"#);
}
