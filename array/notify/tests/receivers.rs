//! Notices as small local receivers get them: SMTP, syslog, SNMP and HTTPS.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use api::Alert;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use catalog::{
    AlertWatcher, MailEncryption, MailServer, Secret, Severity, SnmpManager, SyslogServer, SyslogSettings,
    SyslogTransport, WebHook,
};
use notify::{Destination, Event, Notice, SendError, new_secret, send};
use platform::net::{Listener, Stream};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

const NOW_MS: u64 = 1_795_305_599_000;

trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

fn notice() -> Notice {
    let test = Notice::test("array-1", "5f0c", NOW_MS);
    let alert = Alert {
        id: "7".to_owned(),
        code: 1,
        severity: "critical".to_owned(),
        state: "open".to_owned(),
        summary: "array is 91 % full: 5GiB free".to_owned(),
        description: "Grow the array.".to_owned(),
        ..test.alert.clone()
    };
    Notice { event: Event::Opened, alert, ..test }
}

/// A server certificate for `localhost` and its PEM, which is its own authority.
fn identity() -> (TlsAcceptor, String) {
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    (TlsAcceptor::from(Arc::new(config)), certificate.pem())
}

async fn listen() -> (Listener, SocketAddr) {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn accept(listener: Listener, tls: Option<TlsAcceptor>) -> Box<dyn Connection> {
    let (stream, _): (Stream, _) = listener.accept().await.unwrap();
    match tls {
        Some(acceptor) => Box::new(acceptor.accept(stream).await.unwrap()),
        None => Box::new(stream),
    }
}

/// Answers SMTP commands until QUIT or STARTTLS. Returns the received lines.
async fn smtp_session(
    mut stream: BufReader<Box<dyn Connection>>,
    offers: &str,
    greets: bool,
) -> (Vec<String>, Box<dyn Connection>) {
    let mut lines: Vec<String> = Vec::new();
    let mut in_mail = false;
    if greets {
        stream.write_all(b"220 test\r\n").await.unwrap();
    }
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap() == 0 {
            return (lines, stream.into_inner());
        }
        let line = line.trim_end().to_owned();
        lines.push(line.clone());
        let answer = match line.split(' ').next().unwrap_or_default() {
            "." if in_mail => {
                in_mail = false;
                "250 taken".to_owned()
            }
            _ if in_mail => continue,
            "EHLO" => format!("250-test\r\n250 {offers}"),
            "STARTTLS" => "220 ready".to_owned(),
            "AUTH" => "235 welcome".to_owned(),
            "DATA" => {
                in_mail = true;
                "354 go".to_owned()
            }
            "QUIT" => "221 bye".to_owned(),
            "RCPT" if line.contains("nobody@") => "550 no such mailbox".to_owned(),
            _ => "250 ok".to_owned(),
        };
        stream.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        if line == "STARTTLS" || line == "QUIT" {
            return (lines, stream.into_inner());
        }
    }
}

/// A mail server for one mail.
fn smtp(listener: Listener, tls: TlsAcceptor, encryption: Option<MailEncryption>) -> JoinHandle<Vec<String>> {
    tokio::spawn(async move {
        let first_tls = (encryption == Some(MailEncryption::Tls)).then(|| tls.clone());
        let stream = BufReader::new(accept(listener, first_tls).await);
        if encryption != Some(MailEncryption::StartTls) {
            return smtp_session(stream, "AUTH PLAIN", true).await.0;
        }
        let (lines, stream) = smtp_session(stream, "STARTTLS", true).await;
        assert!(!lines.iter().any(|line| line.starts_with("AUTH") || line.starts_with("MAIL")), "{lines:?}");
        let stream: Box<dyn Connection> = Box::new(tls.accept(stream).await.unwrap());
        smtp_session(BufReader::new(stream), "AUTH PLAIN", false).await.0
    })
}

fn mail_server(address: SocketAddr, encryption: Option<MailEncryption>, ca: &str) -> MailServer {
    let credentials = encryption.is_some();
    MailServer {
        relay_host: Some(format!("localhost:{}", address.port())),
        encryption,
        user_name: credentials.then(|| "array".to_owned()),
        password: credentials.then(|| Secret::new("pass word")),
        sender_domain: Some("example.org".to_owned()),
        subject_prefix: Some("[storage]".to_owned()),
        body_prefix: Some("Call 555-0100.".to_owned()),
        ca_certificate: Some(ca.to_owned()),
        ..MailServer::default()
    }
}

fn watcher(name: &str) -> AlertWatcher {
    AlertWatcher { name: name.to_owned(), enabled: true, minimum: Severity::Info }
}

async fn deliver(to: &Destination) -> Result<(), SendError> {
    send(to, &notice(), NOW_MS + 1000, 1_230).await
}

#[tokio::test]
async fn mail_arrives_with_and_without_tls() {
    for encryption in [None, Some(MailEncryption::StartTls), Some(MailEncryption::Tls)] {
        let (tls, ca) = identity();
        let (listener, address) = listen().await;
        let server = smtp(listener, tls, encryption);
        deliver(&Destination::Mail(mail_server(address, encryption, &ca), watcher("ops@example.org"))).await.unwrap();
        let lines = server.await.unwrap();
        let has = |text: &str| lines.iter().any(|line| line.starts_with(text));
        assert!(has("MAIL FROM:<array-1@example.org>") && has("RCPT TO:<ops@example.org>"), "{lines:?}");
        assert!(has("Subject: [storage] array-1: critical: array is 91 % full: 5GiB free"), "{lines:?}");
        assert!(has("Call 555-0100.") && has("Grow the array.") && has("Runbook: docs/alerts.md#1"), "{lines:?}");
        let login = format!("AUTH PLAIN {}", BASE64_STANDARD.encode("\0array\0pass word"));
        assert_eq!(has(&login), encryption.is_some(), "{lines:?}");
    }
}

#[tokio::test]
async fn refused_mail_is_an_error_with_its_cause() {
    let (tls, ca) = identity();
    let (listener, address) = listen().await;
    let server = smtp(listener, tls, None);
    let to = Destination::Mail(mail_server(address, None, &ca), watcher("nobody@example.org"));
    let error = deliver(&to).await.unwrap_err().to_string();
    assert!(error.contains("550") && error.contains("no such mailbox"), "{error}");
    server.await.unwrap();
}

#[tokio::test]
async fn mail_without_tls_is_never_sent_if_tls_is_set() {
    let (listener, address) = listen().await;
    let (tls, ca) = identity();
    // This server offers no STARTTLS.
    let server = smtp(listener, tls, None);
    let mail = MailServer { encryption: Some(MailEncryption::StartTls), ..mail_server(address, None, &ca) };
    assert!(deliver(&Destination::Mail(mail, watcher("ops@example.org"))).await.is_err());
    let lines = server.await.unwrap();
    assert!(!lines.iter().any(|line| line.starts_with("MAIL") || line.starts_with("AUTH")), "{lines:?}");
}

#[tokio::test]
async fn syslog_arrives_over_udp_tcp_and_tls() {
    let (tls, ca) = identity();
    let settings = SyslogSettings { ca_certificate: Some(ca), ..SyslogSettings::default() };
    let to = |transport, address: SocketAddr| {
        let (name, host) = ("log".to_owned(), "127.0.0.1".to_owned());
        Destination::Syslog(settings.clone(), SyslogServer { name, transport, host, port: address.port() })
    };
    let expected = "<26>1 2026-11-21T23:59:59Z array-1 ibid - opened [alert@32473 id=\"7\" code=\"1\"";
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    deliver(&to(SyslogTransport::Udp, socket.local_addr().unwrap())).await.unwrap();
    let mut bytes = vec![0; 4096];
    let length = socket.recv(&mut bytes).await.unwrap();
    let message = std::str::from_utf8(&bytes[..length]).unwrap();
    assert!(message.starts_with(expected) && message.ends_with("91 % full: 5GiB free Grow the array."), "{message}");
    for transport in [SyslogTransport::Tcp, SyslogTransport::Tls] {
        let (listener, address) = listen().await;
        let acceptor = (transport == SyslogTransport::Tls).then(|| tls.clone());
        let server = tokio::spawn(async move {
            let mut text = String::new();
            accept(listener, acceptor).await.read_to_string(&mut text).await.unwrap();
            text
        });
        deliver(&to(transport, address)).await.unwrap();
        assert_eq!(server.await.unwrap(), format!("{length} {message}"));
    }
}

#[tokio::test]
async fn untrusted_certificate_is_refused() {
    let (tls, _) = identity();
    let (_, other) = identity();
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        tls.accept(stream).await.is_err()
    });
    let settings = SyslogSettings { ca_certificate: Some(other), ..SyslogSettings::default() };
    let (name, host) = ("log".to_owned(), "127.0.0.1".to_owned());
    let log = SyslogServer { name, transport: SyslogTransport::Tls, host, port: address.port() };
    let outcome = deliver(&Destination::Syslog(settings, log)).await;
    assert!(matches!(outcome, Err(SendError::Tls(..))), "{outcome:?}");
    assert!(server.await.unwrap());
}

#[tokio::test]
async fn trap_arrives_with_its_community() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let (name, host, community) = ("nms".to_owned(), "127.0.0.1".to_owned(), Secret::new("private words"));
    deliver(&Destination::Snmp(SnmpManager { name, host, port, community })).await.unwrap();
    let mut bytes = vec![0; 4096];
    let length = socket.recv(&mut bytes).await.unwrap();
    let (version, community, uptime) = yasna::parse_der(&bytes[..length], |reader| {
        reader.read_sequence(|reader| {
            let version = reader.next().read_i64()?;
            let community = reader.next().read_bytes()?;
            let uptime = reader.next().read_tagged_implicit(yasna::Tag::context(7), |reader| {
                reader.read_sequence(|reader| {
                    (0..3).try_for_each(|_| reader.next().read_i64().map(drop))?;
                    let mut first = None;
                    reader.next().read_sequence_of(|reader| {
                        reader.read_sequence(|reader| {
                            reader.next().read_oid()?;
                            first.get_or_insert(reader.next().read_der()?);
                            Ok(())
                        })
                    })?;
                    Ok(first.unwrap())
                })
            })?;
            Ok((version, community, uptime))
        })
    })
    .unwrap();
    assert_eq!((version, community), (1, b"private words".to_vec()));
    assert_eq!(uptime, [0x43, 1, 123]);
}

/// An HTTPS server for one request. Returns its head and its body.
fn https(listener: Listener, tls: TlsAcceptor, answer: &'static str) -> JoinHandle<(String, String)> {
    tokio::spawn(async move {
        let mut stream = BufReader::new(accept(listener, Some(tls)).await);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).await.unwrap() > 0);
        }
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        (head, String::from_utf8(body).unwrap())
    })
}

fn hook(address: SocketAddr, ca: &str, secret: &str) -> Destination {
    Destination::WebHook(WebHook {
        name: "chat".to_owned(),
        url: format!("https://localhost:{}/hook?room=7", address.port()),
        secret: Secret::new(secret),
        enabled: true,
        minimum: Severity::Info,
        ca_certificate: Some(ca.to_owned()),
    })
}

#[tokio::test]
async fn web_hook_gets_signed_json() {
    let (tls, ca) = identity();
    let (listener, address) = listen().await;
    let server = https(listener, tls, "HTTP/1.1 204 No Content\r\n\r\n");
    let secret = new_secret().unwrap();
    deliver(&hook(address, &ca, &secret)).await.unwrap();
    let (head, body) = server.await.unwrap();
    assert!(head.starts_with("POST /hook?room=7 HTTP/1.1\r\n"), "{head}");
    let value: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&value["type"], &value["data"]["alert"]["code"]), (&"alert.opened".into(), &1.into()));
    assert_eq!(value["data"]["array"]["name"], "array-1");
    let field = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")).map(str::to_owned));
        line.unwrap()
    };
    let (id, time) = (field("webhook-id"), field("webhook-timestamp"));
    assert_eq!(time, ((NOW_MS + 1000) / 1000).to_string());
    let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let tag = BASE64_STANDARD.decode(field("webhook-signature").strip_prefix("v1,").unwrap()).unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
    ring::hmac::verify(&key, format!("{id}.{time}.{body}").as_bytes(), &tag).unwrap();
}

#[tokio::test]
async fn web_hook_errors_and_redirections_are_failures() {
    for (answer, status) in [
        ("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n", 500),
        ("HTTP/1.1 302 Found\r\nlocation: https://localhost/\r\ncontent-length: 0\r\n\r\n", 302),
    ] {
        let (tls, ca) = identity();
        let (listener, address) = listen().await;
        let server = https(listener, tls, answer);
        let outcome = deliver(&hook(address, &ca, &new_secret().unwrap())).await;
        assert!(matches!(outcome, Err(SendError::Status(got)) if got == status), "{outcome:?}");
        server.await.unwrap();
    }
}

#[tokio::test]
async fn closed_port_is_an_error_that_names_it() {
    let (listener, address) = listen().await;
    drop(listener);
    let (_, ca) = identity();
    let error = deliver(&hook(address, &ca, &new_secret().unwrap())).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot connect to localhost:{}", address.port())), "{error}");
}
