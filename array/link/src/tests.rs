//! Two arrays on loopback: connecting, refusals, loss and return of the link.

use crate::channel::Channel;
use crate::frame::{Frame, Kind};
use crate::hello::{Hello, ProtocolRange, Purpose};
use crate::identity::PROTOCOL;
use crate::message::Refusal;
use crate::pods::{PodReceiver, PodSession};
use crate::shared::Shared;
use crate::{ConnectionKey, Cut, Distance, KEY_LIFETIME, LinkConnection, LinkError, LinkStatus, Links, LocalArray};
use parking_lot::Mutex;
use platform::TemporaryDirectory;
use platform::net::{Listener, Stream};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Fails a test whose condition never becomes true.
const TOO_LONG: Duration = Duration::from_secs(30);

const ANYWHERE: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// An array with nothing but links.
struct TestArray {
    directory: TemporaryDirectory,
    id: String,
    name: Arc<Mutex<String>>,
    links: Arc<Links>,
}

impl TestArray {
    async fn new(name: &str, number: u8) -> Self {
        let directory = TemporaryDirectory::new(None, "ibid-link").unwrap();
        let id = format!("00000000-0000-4000-8000-0000000000{number:02x}");
        let name = Arc::new(Mutex::new(name.to_owned()));
        let links = open(&directory, &id, &name);
        links.start(Some(ANYWHERE.into())).await.unwrap();
        Self { directory, id, name, links }
    }

    /// Ends the links, and begins again at the same address.
    async fn restart(&mut self) {
        let address = self.address();
        self.stop().await;
        self.links = open(&self.directory, &self.id, &self.name);
        // The old listener ends when its task is dropped, which the runtime does soon.
        for _ in 0..1000 {
            if self.links.start(Some(address)).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the address stays in use");
    }

    async fn stop(&self) {
        self.links.stop();
    }

    fn address(&self) -> SocketAddr {
        self.links.listening().unwrap()
    }

    fn key(&self) -> String {
        self.links.new_key().unwrap().text.to_string()
    }

    async fn connect(&self, to: &Self) -> Result<LinkConnection, LinkError> {
        self.links.connect(&to.address().to_string(), &to.key(), None).await
    }

    fn link(&self) -> LinkConnection {
        self.links.connections().remove(0)
    }

    fn shared(&self) -> &Arc<Shared> {
        self.links.shared()
    }

    async fn wait(&self, what: &str, is_so: impl Fn(&LinkConnection) -> bool) {
        let waiting = async {
            while !self.links.connections().first().is_some_and(&is_so) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(TOO_LONG, waiting).await.is_err() {
            panic!("not {what}: {:?}", self.links.connections());
        }
    }

    async fn wait_connected(&self) {
        self.wait("connected", |link| link.status == LinkStatus::Connected && link.rtt.is_some()).await;
    }

    /// Opens a connection with the certificate of this array, and says this.
    async fn dial(&self, to: &Self, hello: &Hello) -> Channel {
        let config = pinned_tls::client(&self.shared().identity, PROTOCOL, None).unwrap();
        let mut channel = Channel::connect("", &[to.address()], config).await.unwrap();
        channel.writer.send(&hello.encode()).await.unwrap();
        channel
    }
}

fn open(directory: &TemporaryDirectory, id: &str, name: &Arc<Mutex<String>>) -> Arc<Links> {
    let (id, name) = (id.to_owned(), name.clone());
    let local = move || LocalArray { id: id.clone(), name: name.lock().clone(), number: 1 };
    Links::open(directory.path(), "0.1.0", Box::new(local)).unwrap()
}

async fn pair() -> (TestArray, TestArray) {
    (TestArray::new("alpha", 1).await, TestArray::new("beta", 2).await)
}

async fn connected_pair() -> (TestArray, TestArray) {
    let (alpha, beta) = pair().await;
    alpha.connect(&beta).await.unwrap();
    alpha.wait_connected().await;
    beta.wait_connected().await;
    (alpha, beta)
}

async fn refusal(channel: &mut Channel) -> String {
    Refusal::decode(&channel.reader.expect(Kind::Refuse).await.unwrap().body).text
}

fn words(outcome: Result<LinkConnection, LinkError>) -> String {
    outcome.unwrap_err().to_string()
}

#[tokio::test]
async fn two_arrays_connect_by_a_key() {
    let (alpha, beta) = connected_pair().await;
    let (near, far) = (alpha.link(), beta.link());
    assert_eq!((near.name.as_str(), far.name.as_str()), ("beta", "alpha"));
    assert_eq!((near.array.as_str(), far.array.as_str()), (beta.id.as_str(), alpha.id.as_str()));
    assert_eq!((near.address, far.address), (Some(beta.address().to_string()), None));
    assert_eq!(near.version.as_deref(), Some("0.1.0"));
    assert!(near.sent_bytes > 0 && far.received_bytes > 0);
    assert_ne!(near.certificate, far.certificate);
    let again = words(alpha.connect(&beta).await);
    assert!(again.contains("beta is already connected"), "{again}");
    let back = words(beta.connect(&alpha).await);
    assert!(back.contains("alpha is already connected"), "{back}");
}

#[tokio::test]
async fn key_dies_with_the_first_attempt() {
    let (alpha, beta) = pair().await;
    let (right, wrong) = (beta.key(), ConnectionKey::random().unwrap().text().to_string());
    let address = beta.address().to_string();
    let attempt = async |key: &str| words(alpha.links.connect(&address, key, None).await);
    let mistyped = attempt(&right[1..]).await;
    assert!(mistyped.contains("mistyped"), "{mistyped}");
    let refused = attempt(&wrong).await;
    assert!(refused.contains("wrong connection key"), "{refused}");
    let refused = attempt(&right).await;
    assert!(refused.contains("has been used"), "{refused}");
    assert_eq!((alpha.links.connections().len(), beta.links.connections().len()), (0, 0));
    alpha.connect(&beta).await.unwrap();
}

#[tokio::test]
async fn expired_or_absent_key_is_refused() {
    let (alpha, beta) = pair().await;
    let address = beta.address().to_string();
    let none = ConnectionKey::random().unwrap().text();
    let refused = words(alpha.links.connect(&address, &none, None).await);
    assert!(refused.contains("has no connection key"), "{refused}");
    let made = platform::clock::now().checked_sub(KEY_LIFETIME).unwrap();
    let expired = beta.shared().keys.renew(made, 0).unwrap().key.text();
    let refused = words(alpha.links.connect(&address, &expired, None).await);
    assert!(refused.contains("has expired"), "{refused}");
    assert!(beta.links.connections().is_empty());
}

#[tokio::test]
async fn array_does_not_connect_to_itself() {
    let alpha = TestArray::new("alpha", 1).await;
    let key = alpha.key();
    let itself = words(alpha.links.connect(&alpha.address().to_string(), &key, None).await);
    assert!(itself.contains("to itself"), "{itself}");
    assert_eq!(*alpha.links.key().unwrap().text, key, "the key is not used up");
    // A copy of the array has its own certificate and the same id.
    let copy = TestArray::new("copy", 1).await;
    let refused = words(copy.connect(&alpha).await);
    assert!(refused.contains("to itself"), "{refused}");
}

#[tokio::test]
async fn names_of_connected_arrays_differ() {
    let (alpha, other) = (TestArray::new("alpha", 1).await, TestArray::new("Alpha", 2).await);
    let refused = words(alpha.connect(&other).await);
    assert!(refused.contains("two arrays would have the name"), "{refused}");
    let key = other.key();
    "beta".clone_into(&mut other.name.lock());
    let refused = words(alpha.links.connect(&other.address().to_string(), &key, Some("gamma")).await);
    assert!(refused.contains("is beta, not gamma"), "{refused}");
    assert!(alpha.links.connections().is_empty() && other.links.connections().is_empty());
    alpha.connect(&other).await.unwrap();
    alpha.wait_connected().await;
    "delta".clone_into(&mut other.name.lock());
    alpha.wait("renamed", |link| link.name == "delta").await;
}

#[tokio::test]
async fn other_protocols_are_told_apart() {
    let alpha = TestArray::new("alpha", 1).await;
    let listener = Listener::bind(ANYWHERE.into()).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await;
            held.push(stream);
        }
    });
    let key = ConnectionKey::random().unwrap().text();
    let refused = words(alpha.links.connect(&address, &key, None).await);
    assert!(refused.contains("is not the link of an array (its answer is not TLS)"), "{refused}");
    let refused = words(alpha.links.connect("127.0.0.1:1", &key, None).await);
    assert!(refused.contains("cannot connect to 127.0.0.1:1"), "{refused}");
    let refused = words(alpha.links.connect("http://x", &key, None).await);
    assert!(refused.contains("is not an address"), "{refused}");
}

#[tokio::test]
async fn garbage_at_the_listener_changes_nothing() {
    let (alpha, beta) = connected_pair().await;
    for _ in 0..40 {
        let mut stream = Stream::connect(beta.address()).await.unwrap();
        stream.write_all(&[0x16, 3, 3, 255, 255, 9, 9]).await.unwrap();
        drop(stream);
    }
    assert_eq!((alpha.link().status, alpha.link().sessions), (LinkStatus::Connected, 1));
}

#[tokio::test]
async fn unknown_certificate_or_protocol_is_refused() {
    let (alpha, beta) = pair().await;
    let hello = alpha.shared().hello(Purpose::Control, [0; 16]);
    let mut stranger = alpha.dial(&beta, &hello).await;
    let text = refusal(&mut stranger).await;
    assert!(text.contains("is not connected to yours"), "{text}");
    let key = beta.key();
    let protocols = ProtocolRange { lowest: 7, highest: 9 };
    let later = Hello { protocols, purpose: Purpose::Introduction, ..hello };
    let text = refusal(&mut alpha.dial(&beta, &later).await).await;
    assert!(text.contains("one array speaks 7 to 9, the other 3"), "{text}");
    assert_eq!(*beta.links.key().unwrap().text, key, "the key is not used up");
}

#[tokio::test]
async fn frame_beyond_bounds_ends_the_session() {
    let (alpha, beta) = connected_pair().await;
    let hello = alpha.shared().hello(Purpose::Control, [0; 16]);
    for bad in [Frame::new(Kind::Ping, vec![0; 17]), Frame::new(Kind::Bulk, vec![0; 100])] {
        // Replaces the session.
        let mut channel = alpha.dial(&beta, &hello).await;
        channel.reader.expect(Kind::Hello).await.unwrap();
        channel.writer.send(&bad).await.unwrap();
        while channel.reader.next().await.is_ok() {}
    }
    alpha.wait_connected().await;
    beta.wait_connected().await;
}

#[tokio::test]
async fn data_connection_needs_its_session() {
    let (alpha, beta) = connected_pair().await;
    let hello = alpha.shared().hello(Purpose::Data, [7; 16]);
    let text = refusal(&mut alpha.dial(&beta, &hello).await).await;
    assert!(text.contains("the session has ended"), "{text}");
    let introduction = alpha.shared().hello(Purpose::Introduction, [0; 16]);
    let text = refusal(&mut alpha.dial(&beta, &introduction).await).await;
    assert!(text.contains("alpha is already connected"), "{text}");
}

#[tokio::test]
async fn link_returns_after_a_restart() {
    let (alpha, mut beta) = connected_pair().await;
    beta.restart().await;
    alpha.wait("connected again", |link| link.sessions >= 2 && link.status == LinkStatus::Connected).await;
    beta.wait_connected().await;
}

#[tokio::test]
async fn disconnect_ends_both_sides() {
    let (alpha, beta) = connected_pair().await;
    assert!(beta.links.disconnect("ALPHA").await.unwrap());
    tokio::time::timeout(TOO_LONG, async {
        while !alpha.links.connections().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    assert!(beta.links.connections().is_empty());
    assert!(matches!(beta.links.disconnect("alpha").await, Err(LinkError::NoSuch)));
    alpha.connect(&beta).await.unwrap();
}

#[tokio::test]
async fn distance_is_simulated_and_cut() {
    let (alpha, beta) = connected_pair().await;
    let far = Distance { rtt_us: 4000, ..Distance::default() };
    alpha.links.set_distance("beta", far).unwrap();
    let is_far = |link: &LinkConnection| link.rtt.is_some_and(|rtt| rtt.min >= Duration::from_millis(4));
    alpha.wait("4 ms away", is_far).await;
    beta.wait("4 ms away in its last round trips", |link| {
        link.rtt.is_some_and(|rtt| rtt.max >= Duration::from_millis(4))
    })
    .await;
    for cut in [Cut::In, Cut::Out, Cut::Both] {
        alpha.links.set_distance("beta", Distance { cut, ..far }).unwrap();
        for array in [&alpha, &beta] {
            array.wait("lost", |link| link.status == LinkStatus::Connecting && link.problem.is_some()).await;
        }
        alpha.links.set_distance("beta", far).unwrap();
        alpha.wait_connected().await;
        beta.wait_connected().await;
    }
    alpha.links.set_distance("beta", Distance::default()).unwrap();
    let too_long = Distance { rtt_us: 600_000, ..Distance::default() };
    assert!(alpha.links.set_distance("beta", too_long).unwrap_err().to_string().contains("at most 500 ms"));
}

#[tokio::test]
async fn link_test_measures_both_directions() {
    let (alpha, beta) = connected_pair().await;
    for (array, other) in [(&alpha, "beta"), (&beta, "alpha")] {
        let test = array.links.test(other, Duration::from_millis(50)).await.unwrap();
        assert!(test.sent.bytes > 0 && test.received.bytes > 0 && test.sent.rate() > 0, "{test:?}");
    }
    let slow = Distance { bytes_per_second: Some(4 << 20), ..Distance::default() };
    alpha.links.set_distance("beta", slow).unwrap();
    let test = alpha.links.test("beta", Duration::from_millis(200)).await.unwrap();
    assert!(test.sent.rate() <= 4 << 20 && test.received.rate() <= 5 << 20, "{test:?}");
}

#[tokio::test]
async fn replaced_certificate_is_refused() {
    let (alpha, beta) = connected_pair().await;
    let impostor = TestArray::new("beta", 2).await;
    alpha.links.set_address("beta", &impostor.address().to_string()).unwrap();
    alpha.wait("refused", |link| link.problem.as_ref().is_some_and(|p| p.contains("another certificate"))).await;
    assert!(impostor.links.connections().is_empty());
    alpha.links.set_address("beta", &beta.address().to_string()).unwrap();
    alpha.wait_connected().await;
    let there = beta.links.set_address("alpha", "192.0.2.1").unwrap_err().to_string();
    assert!(there.contains("alpha makes the connection"), "{there}");
}

/// Sends frames about a pod in every session, as fast as the link takes them.
struct Busy(tokio::runtime::Handle);

impl PodReceiver for Busy {
    fn began(&self, session: &PodSession) {
        let session = session.clone();
        self.0.spawn(async move {
            while session.send(Frame::of_pod(Kind::RecordPart, 1, 1, vec![0; 4096])).await.is_ok() {}
        });
    }
    fn receive(&self, _: &PodSession, _: Frame) -> Result<(), String> {
        Ok(())
    }
    fn batch_ended(&self, _: &PodSession) {}
    fn ended(&self, _: &PodSession) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn link_test_beside_frames_about_pods() {
    let (alpha, beta) = pair().await;
    for array in [&alpha, &beta] {
        assert!(array.links.set_pod_receiver(Arc::new(Busy(tokio::runtime::Handle::current()))));
    }
    alpha.connect(&beta).await.unwrap();
    alpha.wait_connected().await;
    beta.wait_connected().await;
    let narrow = Distance { bytes_per_second: Some(16 << 20), ..Distance::default() };
    alpha.links.set_distance("beta", narrow).unwrap();
    let test = beta.links.test("alpha", Duration::from_millis(300)).await.unwrap();
    assert!(test.sent.bytes > 0 && test.received.bytes > 0);
    assert_eq!((alpha.link().sessions, beta.link().sessions), (1, 1), "no session has ended");
}

#[tokio::test]
async fn frame_about_a_pod_needs_a_receiver() {
    let (alpha, beta) = pair().await;
    assert!(alpha.links.set_pod_receiver(Arc::new(Busy(tokio::runtime::Handle::current()))));
    alpha.connect(&beta).await.unwrap();
    let is_refused = |link: &LinkConnection| {
        link.problem.as_ref().is_some_and(|problem| problem.contains("a frame about a pod, and this array shares none"))
    };
    beta.wait("refused", is_refused).await;
}
