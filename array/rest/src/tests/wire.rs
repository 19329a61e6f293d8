//! The complete path: the client over TCP, TLS and HTTP.

use super::stretched::{Double, in_step};
use super::*;
use crate::server::Timeouts;
use crate::{Identity, SOCKET_FILE, Server};
use api::{ErrorCode, HostPatch, HostPost, PodPost, VolumePatch, VolumePost};
use client::{Client, ClientError, HostsAndVolumes, Listing, Trust};
use platform::files;
use platform::net::Stream;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

/// A served array with a directory of its own.
struct Served {
    app: Arc<App>,
    directory: PathBuf,
    url: String,
    stop: watch::Sender<bool>,
    runtime: Option<tokio::runtime::Runtime>,
    server: Option<tokio::task::JoinHandle<()>>,
}

impl Served {
    fn new(name: &str) -> Self {
        Self::with_timeouts(name, Timeouts::default())
    }

    fn with_timeouts(name: &str, timeouts: Timeouts) -> Self {
        let directory = std::env::temp_dir().join(format!("ibid-rest-{}-{name}", std::process::id()));
        files::create_directory(&directory).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let identity = Identity::load_or_create(&directory, &[]).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let app = app();
        let server = Server::bind(address, &directory, &identity, app.clone());
        let mut server = runtime.block_on(server).unwrap();
        server.timeouts = timeouts;
        let url = format!("https://{}", server.address());
        let (stop, stopped) = watch::channel(false);
        let server = runtime.spawn(server.run(stopped));
        Self { app, directory, url, stop, runtime: Some(runtime), server: Some(server) }
    }

    fn certificate(&self) -> String {
        files::read_text(&self.directory.join("certificate.pem"), 1 << 16).unwrap().unwrap()
    }

    /// Starts a TLS connection.
    async fn connect_tls(&self) -> tokio_rustls::client::TlsStream<Stream> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        let stream = Stream::connect(self.address()).await.unwrap();
        let name = "localhost".try_into().unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    fn address(&self) -> SocketAddr {
        self.url.trim_start_matches("https://").parse().unwrap()
    }

    fn local_client(&self) -> Client {
        Client::local(&self.directory.join(SOCKET_FILE), TOKEN)
    }

    fn client(&self) -> Client {
        Client::new(&self.url, TOKEN, &Trust::certificate(&self.certificate()).unwrap()).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let (Some(runtime), Some(server)) = (self.runtime.take(), self.server.take()) {
            runtime.block_on(server).unwrap();
        }
        for file in ["certificate.pem", "certificate.key"] {
            let _ = files::remove(&self.directory.join(file));
        }
        #[allow(clippy::disallowed_methods, reason = "a test removes its directory")]
        let _ = std::fs::remove_dir(&self.directory);
    }
}

#[test]
fn client_calls_round_trip() {
    let served = Served::new("client");
    let client = served.client();
    let post = VolumePost { provisioned: Some(GIB), ..VolumePost::default() };
    assert_eq!(client.create_volume("vm1", &post).unwrap().provisioned, GIB);
    client.change_volume("vm1", &VolumePatch { name: Some("vm2".into()), ..VolumePatch::default() }, false).unwrap();
    let iqns = Some(vec!["*".to_owned()]);
    client.create_host("any", &HostPost { iqns, ..HostPost::default() }).unwrap();
    assert_eq!(client.connect("any", "vm2", Some(5)).unwrap().lun, 5);
    let (hosts, volumes) = (["any".to_owned()], ["vm2".to_owned()]);
    let of = HostsAndVolumes { hosts: &hosts, volumes: &volumes };
    assert_eq!(client.connections(&of).unwrap().len(), 1);
    client.disconnect("any", "vm2").unwrap();
    client.change_host("any", &HostPatch { name: Some("all".into()), ..HostPatch::default() }).unwrap();
    client.delete_hosts(&["all".to_owned()]).unwrap();
    let destroy = VolumePatch { destroyed: Some(true), ..VolumePatch::default() };
    assert!(client.change_volumes(&volumes, &destroy).unwrap()[0].destroyed);
    client.eradicate_volumes(&volumes).unwrap();
    let listing = Listing { filter: Some("name='vm*' and not destroyed"), ..Listing::default() };
    assert!(client.volumes(&listing).unwrap().is_empty());
    assert_eq!(client.array().unwrap().name, "array-1");
    assert_eq!(client.ports().unwrap().len(), 1);
}

#[test]
fn errors_reach_the_client_with_code_and_context() {
    let served = Served::new("refusals");
    let ClientError::Refused(errors) = served.client().eradicate_volumes(&["nope".to_owned()]).unwrap_err() else {
        panic!("refused")
    };
    assert_eq!((errors[0].code, errors[0].context.as_deref()), (api::ErrorCode::VolumeNotFound, Some("nope")));
    assert_eq!(errors[0].message, "Volume does not exist.");
    let wrong = Client::new(&served.url, "wrong", &Trust::AnyCertificate).unwrap();
    assert!(matches!(wrong.array(), Err(ClientError::Unauthorized)));
}

#[test]
fn client_changes_pods_on_two_arrays() {
    let array = Served::new("stretched");
    let double = Arc::<Double>::default();
    array.app.set_pod_control(double.clone());
    let client = array.local_client();
    client.create_pods(&["p".to_owned()], &PodPost::default()).unwrap();
    let code = |error: ClientError| match error {
        ClientError::Refused(errors) => errors[0].code,
        other => panic!("{other}"),
    };
    assert_eq!(code(client.stretch_pod("p", "beta", Some("m")).unwrap_err()), ErrorCode::ArrayConnectionNotFound);
    assert!(client.pod_replication(&[]).unwrap().is_empty());
    *double.view.lock() = Some(in_step());
    let found = client.pod_replication(&["p".to_owned()]).unwrap();
    assert_eq!((found[0].state.as_str(), found[0].arrays[1].name.as_str()), ("sync", "beta"));
    assert_eq!(code(client.promote_pod("p", false).unwrap_err()), ErrorCode::ForceRequired);
    assert_eq!(client.promote_pod("p", true).unwrap()[0].name, "p");
    client.resign_pod("p").unwrap();
    client.discard_pod("p").unwrap();
    client.unstretch_pod("p", "beta").unwrap();
    assert_eq!(*double.requests.lock(), ["p: promote", "p: resign", "p: discard", "p: unstretch from beta"]);
}

#[test]
fn client_reads_all_pages() {
    let served = Served::new("pages");
    let client = served.client();
    let post = VolumePost { provisioned: Some(GIB), ..VolumePost::default() };
    // One call creates many volumes: names are a list.
    let names: Vec<String> = (0..1100).map(|n| format!("v{n:04}")).collect();
    for names in names.chunks(550) {
        client.create_volume(&names.join(","), &post).unwrap();
    }
    let read: Vec<String> =
        client.volumes(&Listing::default()).unwrap().into_iter().map(|volume| volume.name).collect();
    assert_eq!(read, names);
}

#[test]
fn client_reopens_an_expired_session() {
    let served = Served::new("again");
    let client = served.client();
    client.array().unwrap();
    served.app.sessions.close_all(token::ADMIN);
    assert_eq!(client.array().unwrap().name, "array-1");
    served.client().new_token(token::ADMIN).unwrap();
    assert!(matches!(client.array(), Err(ClientError::Unauthorized)), "the old token is invalid");
}

#[test]
fn client_refuses_other_certificates() {
    let (served, other) = (Served::new("trusted"), Served::new("other"));
    let call = |trust: &Trust| Client::new(&served.url, TOKEN, trust).unwrap().array();
    let distrust = |result: Result<api::Array, ClientError>| {
        let Err(ClientError::Untrusted { reason, .. }) = result else { panic!("must not be trusted") };
        reason
    };
    assert!(call(&Trust::certificate(&served.certificate()).unwrap()).is_ok());
    assert!(call(&Trust::authorities(&served.certificate()).unwrap()).is_ok());
    assert!(call(&Trust::AnyCertificate).is_ok());
    let wrong = distrust(call(&Trust::certificate(&other.certificate()).unwrap()));
    assert_eq!(wrong, "the server's certificate is not the trusted one");
    distrust(call(&Trust::authorities(&other.certificate()).unwrap()));
}

#[test]
fn certificate_is_created_once_with_private_key() {
    use std::os::unix::fs::PermissionsExt;
    let served = Served::new("identity");
    let first = served.certificate();
    Identity::load_or_create(&served.directory, &[]).unwrap();
    assert_eq!(served.certificate(), first);
    #[allow(clippy::disallowed_methods, reason = "a test reads file permissions")]
    let mode = std::fs::metadata(served.directory.join("certificate.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    files::remove(&served.directory.join("certificate.key")).unwrap();
    assert!(Identity::load_or_create(&served.directory, &[]).is_err(), "a certificate without key is an error");
}

#[test]
fn garbage_on_the_port_is_closed() {
    let served = Served::new("garbage");
    let address = served.address();
    served.runtime.as_ref().unwrap().block_on(async {
        for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"\x16\x03\x01\xff\xff"] {
            let mut stream = platform::net::Stream::connect(address).await.unwrap();
            stream.write_all(garbage).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = Vec::new();
            // The server sends a TLS alert or nothing, and closes the connection.
            let _ = stream.read_to_end(&mut answer).await;
            assert!(!answer.starts_with(b"HTTP"));
        }
    });
    assert!(served.client().array().is_ok());
}

/// Longest wait of a test for an event that happens at once or never.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn silent_connections_are_closed() {
    let short = Duration::from_millis(50);
    let served = Served::with_timeouts("silent", Timeouts { handshake: short, head: short });
    served.runtime.as_ref().unwrap().block_on(async {
        let mut end = [0; 1];
        // Before the handshake ends.
        let mut silent = Stream::connect(served.address()).await.unwrap();
        let read = AsyncReadExt::read(&mut silent, &mut end);
        assert_eq!(tokio::time::timeout(PATIENCE, read).await.expect("closed").unwrap_or(0), 0);
        // Before the first byte of a request, and between two requests.
        for requests in 0..2 {
            let mut silent = served.connect_tls().await;
            for _ in 0..requests {
                silent.write_all(b"GET /api/api_version HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
            }
            let mut answer = Vec::new();
            let read = silent.read_to_end(&mut answer);
            let _ = tokio::time::timeout(PATIENCE, read).await.expect("closed");
            assert_eq!(answer.starts_with(b"HTTP/1.1 200"), requests > 0);
        }
    });
}

#[test]
fn silent_floods_do_not_keep_administrators_out() {
    let served = Served::new("flood");
    let _flood = served.runtime.as_ref().unwrap().block_on(async {
        let mut flood = Vec::new();
        for _ in 0..600 {
            flood.push(Stream::connect(served.address()).await.unwrap());
        }
        flood.push(served.connect_tls().await.into_inner().0);
        flood
    });
    assert_eq!(served.client().array().unwrap().name, "array-1");
    assert_eq!(served.local_client().array().unwrap().name, "array-1");
}

#[test]
fn local_socket_serves_the_same_api() {
    let served = Served::new("local");
    let local = served.local_client();
    let post = VolumePost { provisioned: Some(GIB), ..VolumePost::default() };
    local.create_volume("vm1", &post).unwrap();
    assert_eq!(served.client().volumes(&Listing::default()).unwrap().len(), 1);
    assert_eq!(local.volumes(&Listing::default()).unwrap()[0].name, "vm1");
    let wrong = Client::local(&served.directory.join(SOCKET_FILE), "wrong");
    assert!(matches!(wrong.array(), Err(ClientError::Unauthorized)), "the socket does not replace the token");
    assert!(matches!(
        Client::local(&served.directory.join("none"), TOKEN).array(),
        Err(ClientError::Unreachable { .. })
    ));
}
