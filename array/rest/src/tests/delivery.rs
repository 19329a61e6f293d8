//! The destinations of alerts, and the delivery to them.

use super::*;
use catalog::{Admin, Role};
use serde_json::json;
use tokio::net::UdpSocket;

/// Receives one datagram.
fn receive(rest: &Rest, socket: &UdpSocket) -> String {
    rest.runtime.block_on(async {
        let mut bytes = vec![0; 4096];
        let length = socket.recv(&mut bytes).await.unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    })
}

/// Adds a syslog server that receives at a socket.
fn syslog(rest: &Rest, name: &str) -> UdpSocket {
    let socket = rest.runtime.block_on(UdpSocket::bind("127.0.0.1:0")).unwrap();
    let uri = format!("udp://127.0.0.1:{}", socket.local_addr().unwrap().port());
    let made = rest.items("POST", &format!("syslog-servers?names={name}"), &json!({ "uri": uri }).to_string());
    assert_eq!((&made[0]["uri"], &made[0]["services"]), (&json!(uri), &json!(["management"])));
    socket
}

#[test]
fn alert_watchers_are_created_changed_and_removed() {
    let rest = Rest::new();
    let made = rest.items("POST", "alert-watchers?names=a@example.org,b@example.org", "");
    assert_eq!(each(&made, "enabled"), ["true", "true"]);
    assert_eq!(made[0]["minimum_notification_severity"], "info");
    let patch = r#"{"enabled":false,"minimum_notification_severity":"critical"}"#;
    let changed = rest.items("PATCH", "alert-watchers?names=A@example.org", patch);
    assert_eq!((&changed[0]["enabled"], &changed[0]["name"]), (&json!(false), &json!("a@example.org")));
    rest.items("DELETE", "alert-watchers?names=b@example.org", "");
    assert_eq!(each(&rest.items("GET", "alert-watchers", ""), "name"), ["a@example.org"]);
    assert_eq!(
        rest.refused("GET", "alert-watchers?names=b@example.org", ""),
        ["b@example.org: Alert watcher does not exist."]
    );
    for (call, body, message) in [
        ("POST alert-watchers?names=ops", "", "ops: Invalid mail address"),
        ("POST alert-watchers?names=A@example.org", "", "A@example.org: Alert watcher already exists."),
        ("POST alert-watchers?names=c@d.org", r#"{"minimum_notification_severity":"hidden"}"#, "Invalid severity"),
        ("DELETE alert-watchers?names=a@example.org,x@example.org", "", "x@example.org: Alert watcher does not exist."),
        ("PATCH alert-watchers?names=a@example.org", r#"{"colour":1}"#, "Invalid body"),
    ] {
        let (method, path) = call.split_once(' ').unwrap();
        let refused = rest.refused(method, path, body);
        assert!(refused[0].starts_with(message), "{call}: {refused:?}");
    }
    assert_eq!(rest.items("GET", "alert-watchers", "").len(), 1);
}

#[test]
fn mail_server_is_set_without_showing_its_password() {
    let rest = Rest::new();
    let empty = rest.items("GET", "smtp-servers", "");
    assert_eq!((empty.len(), &empty[0]["relay_host"], &empty[0]["password"]), (1, &Value::Null, &Value::Null));
    let body = r#"{"relay_host":"mail.example.org:587","encryption_mode":"starttls","user_name":"u",
        "password":"not to be shown","sender_domain":"example.org"}"#;
    let set = rest.items("PATCH", "smtp-servers?names=smtp", body);
    assert_eq!((&set[0]["password"], &set[0]["encryption_mode"]), (&json!("****"), &json!("starttls")));
    let changed = rest.items("PATCH", "smtp-servers", r#"{"subject_prefix":"[san]"}"#);
    assert_eq!((&changed[0]["relay_host"], &changed[0]["password"]), (&json!("mail.example.org:587"), &json!("****")));
    for (body, message) in [
        (r#"{"encryption_mode":"ssl"}"#, "Invalid encryption mode"),
        (r#"{"encryption_mode":""}"#, "Invalid setting: a user name at the mail server requires"),
        (r#"{"relay_host":"a b"}"#, "Invalid relay host"),
        (r#"{"sender_domain":"a b"}"#, "Invalid sender"),
        (r#"{"ca_certificate":"text"}"#, "Invalid certificate"),
        (r#"{"subject_prefix":"a\r\nBcc: x@y"}"#, "Invalid setting"),
    ] {
        let refused = rest.refused("PATCH", "smtp-servers", body);
        assert!(refused[0].starts_with(message), "{body}: {refused:?}");
    }
    let removed = rest.items("PATCH", "smtp-servers", r#"{"user_name":"","password":"","encryption_mode":""}"#);
    assert_eq!((&removed[0]["user_name"], &removed[0]["password"]), (&Value::Null, &Value::Null));
    let audits = rest.items("GET", "audits", "");
    assert!(!format!("{audits:?}").contains("not to be shown"), "{audits:?}");
}

#[test]
fn wrong_syslog_and_snmp_settings_are_refused() {
    let rest = Rest::new();
    for (call, body, message) in [
        ("POST syslog-servers?names=a", "", "'uri' is required."),
        ("POST syslog-servers?names=a", r#"{"uri":"http://a"}"#, "Invalid URI"),
        ("POST syslog-servers?names=a", r#"{"uri":"udp://a:0"}"#, "Invalid URI"),
        ("POST syslog-servers?names=a,b", r#"{"uri":"udp://a"}"#, "Only one destination"),
        ("POST syslog-servers?names=a", r#"{"uri":"udp://a","services":["data-audit"]}"#, "Only the service"),
        ("PATCH syslog-servers?names=a", r#"{"uri":"udp://a"}"#, "a: Syslog server does not exist."),
        ("PATCH syslog-servers/settings", r#"{"logging_severity":"loud"}"#, "Invalid logging severity"),
        ("PATCH syslog-servers/settings", r#"{"tls_audit_enabled":true}"#, "This array does not support"),
        ("POST snmp-managers?names=a", r#"{"host":"a"}"#, "'host' and 'v2c.community' are required."),
        ("POST snmp-managers?names=a", r#"{"host":"a","version":"v3"}"#, "Only SNMP 'v2c'"),
        ("POST snmp-managers?names=a", r#"{"host":"a","notification":"inform"}"#, "Only the notification 'trap'"),
        ("POST snmp-managers?names=a", r#"{"host":"a:b","v2c":{"community":"c"}}"#, "Invalid host"),
        ("POST snmp-managers?names=a", r#"{"host":"a","v2c":{"community":""}}"#, "Invalid setting"),
        ("POST alert-webhooks?names=a", "", "'url' is required."),
        ("POST alert-webhooks?names=a", r#"{"url":"http://a/"}"#, "Invalid URL"),
        ("POST alert-webhooks?names=a", r#"{"url":"https://a/","secret":"short"}"#, "Invalid secret"),
        ("POST alert-webhooks?names=a b", r#"{"url":"https://a/"}"#, "a b: Invalid name"),
        ("GET alert-webhooks/test?names=a", "", "a: Web hook does not exist."),
    ] {
        let (method, path) = call.split_once(' ').unwrap();
        let refused = rest.refused(method, path, body);
        assert!(refused[0].starts_with(message), "{call} {body}: {refused:?}");
    }
    let settings = rest.items("PATCH", "syslog-servers/settings", r#"{"logging_severity":"notice"}"#);
    assert_eq!(settings[0]["logging_severity"], "notice");
}

#[test]
fn secrets_of_destinations_are_shown_once_or_never() {
    let app = app();
    let mut rest = Rest::of(app.clone());
    let body = r#"{"url":"https://chat.example.org/hook/private"}"#;
    let made = rest.items("POST", "alert-webhooks?names=chat", body);
    let secret = made[0]["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_"), "{secret}");
    let listed = rest.items("GET", "alert-webhooks", "");
    assert_eq!((&listed[0]["secret"], &listed[0]["url"]), (&json!("****"), &made[0]["url"]));
    rest.items("POST", "snmp-managers?names=nms", r#"{"host":"nms:1162","v2c":{"community":"hidden words"}}"#);
    let manager = &rest.items("GET", "snmp-managers", "")[0];
    assert_eq!((&manager["v2c"]["community"], &manager["host"]), (&json!("****"), &json!("nms:1162")));
    let audits = format!("{:?}", rest.items("GET", "audits", ""));
    assert!(!audits.contains("hidden words") && !audits.contains("private") && !audits.contains(&secret));
    let renamed = rest.items("PATCH", "snmp-managers?names=nms", r#"{"name":"other"}"#);
    assert_eq!(renamed[0]["name"], "other");
    // The path of the URL is hidden from roles that may not change it.
    let reader = Admin { name: "reader".into(), role: Role::Readonly, ..Admin::default() };
    app.catalog.change(|draft| draft.put_admin(reader)).unwrap();
    let token = rest.items("POST", "admins/api-tokens?names=reader", "");
    rest.session = rest.login(token[0]["api_token"]["token"].as_str().unwrap()).1;
    assert_eq!(rest.items("GET", "alert-webhooks", "")[0]["url"], "https://chat.example.org/****");
    assert_eq!(rest.call("GET", "2.26/alert-webhooks/test", "").0, 403);
}

#[test]
fn test_messages_report_their_outcome() {
    let rest = Rest::new();
    let socket = syslog(&rest, "log");
    let results = rest.items("GET", "syslog-servers/test", "");
    assert_eq!((&results[0]["success"], &results[0]["test_type"]), (&json!(true), &json!("syslog")));
    let message = receive(&rest, &socket);
    assert!(message.contains(" array-1 ibid - test "), "{message}");
    rest.items("POST", "alert-watchers?names=ops@example.org", "");
    let failed = &rest.items("GET", "alert-watchers/test?names=ops@example.org", "")[0];
    assert_eq!((&failed["success"], &failed["resource"]["name"]), (&json!(false), &json!("ops@example.org")));
    assert_eq!(failed["result_details"], "the mail server has no sender domain");
    let watcher = &rest.items("GET", "alert-watchers", "")[0];
    assert_eq!(watcher["delivery"]["last_error"], failed["result_details"]);
    assert!(rest.items("GET", "snmp-managers/test", "").is_empty());
}

#[test]
fn alerts_are_delivered_when_opened_and_closed() {
    let app = app();
    let rest = Rest::of(app.clone());
    let socket = syslog(&rest, "log");
    rest.items("POST", "alert-watchers?names=ops@example.org", r#"{"minimum_notification_severity":"critical"}"#);
    rest.volume("a");
    super::space::write(&app, "a", 4 << 20);
    rest.items("PATCH", "volumes?names=a", r#"{"threshold_percent":1}"#);
    super::space::write(&app, "a", 16 << 20);
    let open = rest.items("GET", "alerts?filter=state='open'", "");
    assert_eq!((open.len(), &open[0]["notified"]), (1, &Value::Null));
    let deliver = || {
        let _guard = rest.runtime.enter();
        crate::deliver_alerts(&app);
    };
    deliver();
    let message = receive(&rest, &socket);
    assert!(message.contains(" ibid - opened ") && message.contains("volume a is"), "{message}");
    rest.items("PATCH", "volumes?names=a", r#"{"threshold_percent":0}"#);
    let closed = rest.items("GET", "alerts", "");
    assert!(closed[0]["notified"].is_u64(), "{closed:?}");
    deliver();
    let message = receive(&rest, &socket);
    assert!(message.contains(" ibid - closed "), "{message}");
    let watcher = &rest.items("GET", "alert-watchers", "")[0];
    assert_eq!((&watcher["delivery"]["waiting"], &watcher["delivery"]["last_attempt"]), (&json!(0), &Value::Null));
}
