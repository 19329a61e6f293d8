//! Filters, sort order and pages.

use super::*;
use serde_json::json;

fn names(rest: &Rest, query: &str) -> Vec<String> {
    each(&rest.items("GET", &format!("volumes?{query}"), ""), "name")
}

#[test]
fn filter_and_sort_select_and_order_items() {
    let rest = Rest::new();
    rest.volume("vm-1,vm-2,db-1,DB-2");
    rest.items("PATCH", "volumes?names=db-1", &json!({"provisioned": 8 * GIB}).to_string());
    rest.items("PATCH", "volumes?names=vm-2", &json!({"provisioned": 4 * GIB}).to_string());
    assert_eq!(names(&rest, "filter=name='vm-*'"), ["vm-1", "vm-2"]);
    assert_eq!(
        names(&rest, "filter=(name='vm-*' or name='db-*') and destroyed='false'"),
        ["db-1", "DB-2", "vm-1", "vm-2"]
    );
    assert_eq!(names(&rest, "filter=provisioned>1073741824"), ["db-1", "vm-2"]);
    assert_eq!(names(&rest, "sort=provisioned-"), ["db-1", "vm-2", "DB-2", "vm-1"]);
    assert_eq!(names(&rest, "sort=-provisioned,name-"), ["db-1", "vm-2", "vm-1", "DB-2"]);
    assert_eq!(names(&rest, "sort=name-"), ["vm-2", "vm-1", "DB-2", "db-1"]);
    assert!(rest.refused("GET", "volumes?filter=nmae='x'", "")[0].contains("no field 'nmae'"));
    assert!(rest.refused("GET", "volumes?sort=nmae", "")[0].contains("no field 'nmae'"));
    assert!(rest.refused("GET", "volumes?filter=name=", "")[0].starts_with("Invalid filter"));
}

#[test]
fn total_item_count_is_returned_on_request() {
    let rest = Rest::new();
    rest.volume("a,b,c");
    let (_, body) = rest.call("GET", "2.26/volumes?limit=0&total_item_count=true", "");
    assert_eq!(body["total_item_count"], 3);
    assert_eq!((&body["items"], &body["more_items_remaining"]), (&json!([]), &json!(false)));
    let (_, body) = rest.call("GET", "2.26/volumes?limit=2", "");
    assert_eq!((&body["total_item_count"], &body["more_items_remaining"]), (&Value::Null, &json!(true)));
    assert_eq!(names(&rest, "offset=2"), ["c"]);
    assert_eq!(names(&rest, "offset=9"), Vec::<String>::new());
}

/// Reads all pages. Calls `disturb` between pages with the number of items read so far.
fn read_all(rest: &Rest, query: &str, disturb: impl Fn(usize)) -> Vec<String> {
    let (mut all, mut token) = (Vec::new(), String::new());
    loop {
        let (status, body) = rest.call("GET", &format!("2.26/volumes?{query}{token}"), "");
        assert_eq!(status, 200, "{body}");
        let page = each(body["items"].as_array().unwrap(), "name");
        assert!(!page.is_empty());
        all.extend(page);
        match body["continuation_token"].as_str() {
            Some(next) => token = format!("&continuation_token={next}"),
            None => return all,
        }
        disturb(all.len());
    }
}

#[test]
fn pages_contain_every_item_once() {
    let rest = Rest::new();
    let all: Vec<String> = (0..25).map(|n| format!("v{n:02}")).collect();
    rest.volume(&all.join(","));
    let nothing = |_| ();
    assert_eq!(read_all(&rest, "limit=10", nothing), all);
    assert_eq!(read_all(&rest, "limit=25", nothing), all);
    assert_eq!(read_all(&rest, "limit=1&filter=name='v1*'", nothing), &all[10..20]);
    let mut reversed = all.clone();
    reversed.reverse();
    assert_eq!(read_all(&rest, "limit=7&sort=name-", nothing), reversed);
    // All volumes have the same size, so the name decides the order.
    assert_eq!(read_all(&rest, "limit=4&sort=provisioned", nothing), all);
}

#[test]
fn changes_between_pages_hide_no_other_item() {
    let rest = Rest::new();
    let all: Vec<String> = (0..20).map(|n| format!("v{n:02}")).collect();
    rest.volume(&all.join(","));
    let read = read_all(&rest, "limit=5", |seen| {
        if seen == 5 {
            rest.volume("a-new-one");
            rest.items("PATCH", "volumes?names=v04", r#"{"destroyed":true}"#);
            assert_eq!(rest.call("DELETE", "2.26/volumes?names=v04", "").0, 200);
        }
    });
    assert_eq!(read, all);
}

/// Adds the paths and values of all fields of an item that are no lists.
fn fields(prefix: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(name, value)| match prefix {
            "" => fields(name, value, found),
            prefix => fields(&format!("{prefix}.{name}"), value, found),
        }),
        Value::Array(_) => {}
        value => found.push((prefix.to_owned(), value.clone())),
    }
}

#[test]
fn every_shown_field_can_be_filtered_and_sorted() {
    let rest = Rest::new();
    rest.items("POST", "volume-groups?names=vg", "{}");
    rest.items("POST", "pods?names=p", "{}");
    rest.volume("other,vg/v,p::v");
    rest.items("POST", "volume-snapshots?source_names=vg/v,p::v", r#"{"suffix":"s"}"#);
    rest.items("POST", "volumes?names=vg/copy", r#"{"source":{"name":"vg/v.s"},"qos":{"iops_limit":500}}"#);
    rest.items("POST", "hosts?names=h", "{}");
    rest.items("POST", "connections?host_names=h&volume_names=vg/copy", "");
    rest.items("PATCH", "volumes?names=vg/copy", r#"{"threshold_percent":80}"#);
    let lists = [
        ("volumes", "vg/copy", 36),
        ("volumes", "p::v", 36),
        ("volumes/space", "vg/copy", 18),
        ("volume-snapshots", "vg/v.s", 26),
        ("volume-snapshots", "p::v.s", 26),
        ("pods", "p", 36),
    ];
    for (list, name, at_least) in lists {
        let mut found = Vec::new();
        fields("", &rest.items("GET", &format!("{list}?names={name}"), "")[0], &mut found);
        assert!(found.len() >= at_least, "{list}: {} fields", found.len());
        for (field, value) in found {
            // Only the time of the request differs between two requests.
            let operator = if field == "time" { ">=" } else { "=" };
            let value = match value {
                Value::String(text) => format!("'{}'", text.replace('+', "%2B")),
                other => other.to_string(),
            };
            let query = format!("{list}?filter={field}{operator}{value}&sort={field},name-");
            let names = each(&rest.items("GET", &query, ""), "name");
            assert!(names.iter().any(|found| found == name), "{query}: {names:?}");
        }
    }
}
