//! A mediator and its clients on loopback.

use crate::message::{REQUEST_BYTES, Reply, Request, Status};
use crate::{CallError, Mediator, MediatorClient, MediatorInfo, Owner, PROTOCOL, Register, Store};
use bytes::BytesMut;
use pinned_tls::{IdentityNames, TlsIdentity};
use platform::TemporaryDirectory;
use platform::files::{self, Access};
use platform::net::{Listener, Stream};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

const TIMEOUT: Duration = Duration::from_secs(20);
const POD: [u8; 16] = [7; 16];
const NONCE: [u8; 16] = [9; 16];
const NAMES: IdentityNames = IdentityNames { certificate: "a.pem", key: "a.key", subject: "an array" };

struct Running {
    store: Store,
    address: SocketAddr,
    info: MediatorInfo,
    task: JoinHandle<String>,
}

async fn start(directory: &TemporaryDirectory, address: SocketAddr) -> Running {
    let mediator = Mediator::bind(directory.path(), address).await.unwrap();
    let info = MediatorInfo { fingerprint: mediator.fingerprint(), instance: mediator.instance() };
    let store = Store::inspect(directory.path()).unwrap().unwrap();
    Running { store, address: mediator.address(), info, task: tokio::spawn(mediator.run()) }
}

impl Running {
    async fn end(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

struct TestArray {
    _directory: TemporaryDirectory,
    identity: TlsIdentity,
}

impl TestArray {
    fn new() -> Self {
        let directory = TemporaryDirectory::new(None, "ibid-mediator").unwrap();
        let identity = TlsIdentity::load_or_create(directory.path(), NAMES).unwrap();
        Self { _directory: directory, identity }
    }

    fn client(&self, address: SocketAddr, known: Option<MediatorInfo>) -> MediatorClient {
        MediatorClient::new((&address.ip().to_string(), address.port()), &self.identity, known, TIMEOUT).unwrap()
    }
}

fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn register(epoch: u64, owner: Owner) -> Register {
    Register { epoch, owner }
}

async fn registered(running: &Running, arrays: [&TestArray; 2]) -> [MediatorClient; 2] {
    let clients = arrays.map(|array| array.client(running.address, Some(running.info)));
    for array in arrays {
        running.store.allow(array.identity.fingerprint).unwrap();
    }
    let peers = [arrays[1].identity.fingerprint, arrays[0].identity.fingerprint];
    assert_eq!(clients[0].create(POD, peers[0], NONCE, 1).await.unwrap(), None);
    let made = clients[1].create(POD, peers[1], NONCE, 1).await.unwrap();
    assert_eq!(made, Some(register(1, Owner::Both)));
    assert_eq!(clients[0].create(POD, peers[0], NONCE, 1).await.unwrap(), made);
    clients
}

#[tokio::test]
async fn one_array_wins_and_a_restart_remembers_it() {
    let directory = TemporaryDirectory::new(None, "ibid-mediator").unwrap();
    let running = start(&directory, anywhere()).await;
    let (alpha, beta) = (TestArray::new(), TestArray::new());
    let clients = registered(&running, [&alpha, &beta]).await;
    assert_eq!(clients[0].identify().await.unwrap(), running.info);
    let (both, own) = (register(1, Owner::Both), register(3, Owner::Own));
    let asks = tokio::join!(clients[0].swap(POD, both, own), clients[1].swap(POD, both, own));
    let asks = [asks.0.unwrap(), asks.1.unwrap()];
    let winner = asks.iter().position(|content| *content == own).expect("one wins");
    assert_eq!(asks[1 - winner], register(3, Owner::Peer));

    let address = running.address;
    running.end().await;
    assert!(matches!(clients[0].read(POD).await, Err(CallError::Unreachable(..))));
    let running = start(&directory, address).await;
    assert_eq!(clients[winner].read(POD).await.unwrap(), own, "the client connects again");
    let retired = register(3, Owner::Retired);
    assert_eq!(clients[1 - winner].retire(POD, register(3, Owner::Peer)).await.unwrap(), retired);
    assert_eq!(clients[winner].swap(POD, own, register(9, Owner::Own)).await.unwrap(), retired);
    running.end().await;
}

#[tokio::test]
async fn other_arrays_and_other_mediators_are_refused() {
    let directory = TemporaryDirectory::new(None, "ibid-mediator").unwrap();
    let running = start(&directory, anywhere()).await;
    let (alpha, beta, stranger) = (TestArray::new(), TestArray::new(), TestArray::new());
    let clients = registered(&running, [&alpha, &beta]).await;
    let other = stranger.client(running.address, None);
    assert_eq!(other.identify().await.unwrap(), running.info, "it answers everybody");
    let refused = other.create(POD, alpha.identity.fingerprint, NONCE, 1).await.unwrap_err().to_string();
    let certificate = types::hex::encode(&stranger.identity.fingerprint);
    assert!(refused.contains(&format!("`ibid mediator allow {certificate}`")), "{refused}");
    assert!(running.store.allow(stranger.identity.fingerprint).unwrap(), "while it runs");
    assert!(matches!(other.read(POD).await, Err(CallError::Missing)));
    let swap = other.swap(POD, register(1, Owner::Both), register(3, Owner::Own)).await;
    assert!(matches!(swap, Err(CallError::Missing)));
    let taken = other.create(POD, alpha.identity.fingerprint, NONCE, 1).await;
    assert!(matches!(taken, Err(CallError::Taken)));
    let peer = clients[0].swap(POD, register(1, Owner::Both), register(3, Owner::Peer)).await;
    assert!(matches!(peer, Err(CallError::Invalid)));
    running.end().await;

    let empty = TemporaryDirectory::new(None, "ibid-mediator").unwrap();
    let replaced = start(&empty, anywhere()).await;
    let known = alpha.client(replaced.address, Some(MediatorInfo { instance: [1; 16], ..replaced.info }));
    assert!(matches!(known.read(POD).await, Err(CallError::OtherInstance(_))));
    let wrong = alpha.client(replaced.address, Some(MediatorInfo { fingerprint: [1; 32], ..replaced.info }));
    assert!(matches!(wrong.read(POD).await, Err(CallError::Certificate(_))));
    replaced.end().await;
}

#[tokio::test]
async fn register_that_cannot_be_stored_ends_the_mediator() {
    let directory = TemporaryDirectory::new(None, "ibid-mediator").unwrap();
    let running = start(&directory, anywhere()).await;
    let (alpha, beta) = (TestArray::new(), TestArray::new());
    let clients = registered(&running, [&alpha, &beta]).await;
    // A file in the place of the folder: the next change cannot be stored.
    let folder = directory.path().join("registers");
    files::rename(&folder, &directory.path().join("gone")).unwrap();
    files::replace(&folder, b"", Access::Owner).unwrap();
    let swap = clients[0].swap(POD, register(1, Owner::Both), register(3, Owner::Own)).await;
    assert!(matches!(swap, Err(CallError::Unreachable(..))), "{swap:?}");
    let reason = tokio::time::timeout(TIMEOUT, running.task).await.unwrap().unwrap();
    assert!(reason.contains("cannot read or write"), "{reason}");
}

#[tokio::test]
async fn idle_strangers_do_not_keep_an_array_out() {
    let directory = TemporaryDirectory::new(None, "ibid-mediator").unwrap();
    let running = start(&directory, anywhere()).await;
    let (alpha, beta) = (TestArray::new(), TestArray::new());
    let clients = registered(&running, [&alpha, &beta]).await;
    let mut first = Stream::connect(running.address).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(Stream::connect(running.address).await.unwrap());
    }
    let mut buffer = BytesMut::with_capacity(16);
    let closed = tokio::time::timeout(TIMEOUT, first.read(&mut buffer)).await.expect("the oldest gives way");
    assert!(closed.is_err() || buffer.is_empty());
    assert_eq!(clients[0].read(POD).await.unwrap(), register(1, Owner::Both), "its connection stays");
    let fresh = alpha.client(running.address, Some(running.info));
    assert_eq!(fresh.read(POD).await.unwrap(), register(1, Owner::Both), "a new one is accepted");
    drop(idle);
    running.end().await;
}

#[tokio::test]
async fn client_that_leaves_does_not_end_a_change() {
    let directory = TemporaryDirectory::new(None, "ibid-mediator").unwrap();
    let running = start(&directory, anywhere()).await;
    let (alpha, beta) = (TestArray::new(), TestArray::new());
    let clients = registered(&running, [&alpha, &beta]).await;
    let mut expected = register(1, Owner::Both);
    for round in 1..30 {
        let new = register(expected.epoch + 2, Owner::Own);
        // Many connections of one array: the oldest give way while changes are stored.
        let asks: Vec<_> = (0..8)
            .map(|_| {
                let client = alpha.client(running.address, Some(running.info));
                tokio::spawn(async move { client.swap(POD, expected, new).await })
            })
            .collect();
        for ask in asks {
            let _ = ask.await.unwrap();
        }
        assert_eq!(clients[0].read(POD).await.unwrap(), new, "round {round}");
        let stored = running.store.load().unwrap();
        assert_eq!(stored[0].epoch, new.epoch, "memory and drive are equal");
        expected = new;
    }
    running.end().await;
}

#[tokio::test]
async fn late_answer_is_not_taken_for_another() {
    let (server, array) = (TestArray::new(), TestArray::new());
    let config = pinned_tls::server(&server.identity, PROTOCOL).unwrap();
    let listener = Listener::bind(anywhere()).await.unwrap();
    let address = listener.local_addr().unwrap();
    // Answers one request of each connection, and that of the first one last.
    let serving = tokio::spawn(async move {
        let mut held = Vec::new();
        for _ in 0..2 {
            let stream = TlsAcceptor::from(config.clone()).accept(listener.accept().await.unwrap().0).await;
            let (mut stream, mut bytes) = (stream.unwrap(), [0; REQUEST_BYTES]);
            stream.read_exact(&mut bytes).await.unwrap();
            held.push((stream, Request::decode(&bytes).unwrap()));
        }
        while let Some((mut stream, request)) = held.pop() {
            let content = register(request.number.into(), Owner::Both);
            let reply = Reply { number: request.number, status: Status::Done, instance: [0; 16], register: content };
            // The first connection is closed.
            let _ = stream.write_all(&reply.encode()).await;
            let _ = stream.flush().await;
        }
    });
    let client = array.client(address, None);
    let first = tokio::time::timeout(Duration::from_millis(300), client.read(POD)).await;
    assert!(first.is_err(), "the request is abandoned");
    assert_eq!(client.read(POD).await.unwrap(), register(2, Owner::Both), "the answer to the second request");
    serving.await.unwrap();
}

#[tokio::test]
async fn mediator_without_its_certificate_does_not_start() {
    let directory = TemporaryDirectory::new(None, "ibid-mediator").unwrap();
    let running = start(&directory, anywhere()).await;
    let (alpha, beta) = (TestArray::new(), TestArray::new());
    registered(&running, [&alpha, &beta]).await;
    running.end().await;
    files::remove(&directory.path().join("mediator.pem")).unwrap();
    let error = Mediator::bind(directory.path(), anywhere()).await.err().unwrap().to_string();
    assert!(error.contains("mediator.pem is missing, but there are registers"), "{error}");
}
