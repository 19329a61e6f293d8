use super::*;
use crate::Owner;
use parking_lot::Mutex;
use pinned_tls::IdentityNames;
use platform::TemporaryDirectory;
use platform::net::Listener;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::io::AsyncReadExt;

const POD: PodKey = [7; 16];
const NONCE: [u8; 16] = [9; 16];
const TIMEOUT: Duration = Duration::from_secs(20);
const NAMES: IdentityNames = IdentityNames { certificate: "a.pem", key: "a.key", subject: "an array" };

/// The gateway of a cluster: keys with their values and revisions.
#[derive(Default)]
struct Cluster {
    id: u64,
    revision: u64,
    keys: BTreeMap<String, (String, u64)>,
    /// Changes this key, with a new revision, before the next transaction.
    interferes: Option<String>,
}

impl Cluster {
    fn put(&mut self, put: &Value) {
        let text = |name: &str| put[name].as_str().unwrap_or_default().to_owned();
        self.revision += 1;
        self.keys.insert(text("key"), (text("value"), self.revision));
    }

    fn range(&self, range: &Value) -> Value {
        let found = self.keys.get(range["key"].as_str().unwrap());
        let kvs = found.map(|(value, revision)| json!([{ "value": value, "mod_revision": revision.to_string() }]));
        json!({ "kvs": kvs })
    }

    fn answer(&mut self, path: &str, body: &Value) -> Value {
        if path == "/v3/kv/range" {
            let mut answer = self.range(body);
            answer["header"] = self.header();
            return answer;
        }
        assert_eq!(path, "/v3/kv/txn");
        let changes = body["success"].as_array().unwrap();
        let is_change = changes.iter().any(|change| change.get("requestRange").is_none());
        if let Some((value, revision)) = self.interferes.take_if(|_| is_change).and_then(|key| self.keys.get_mut(&key))
        {
            self.revision += 1;
            (*value, *revision) = (value.clone(), self.revision);
        }
        let is_equal = body["compare"].as_array().unwrap().iter().all(|compare| {
            assert_eq!((&compare["target"], &compare["result"]), (&json!("MOD"), &json!("EQUAL")));
            let found = self.keys.get(compare["key"].as_str().unwrap()).map_or(0, |(_, revision)| *revision);
            number(&compare["modRevision"]) == Some(found)
        });
        let none = Vec::new();
        let chosen = if is_equal { changes } else { body["failure"].as_array().unwrap_or(&none) };
        let mut responses = Vec::new();
        for request in chosen {
            if let Some(put) = request.get("requestPut") {
                self.put(put);
                responses.push(json!({ "response_put": {} }));
            } else if let Some(range) = request.get("requestRange") {
                responses.push(json!({ "response_range": self.range(range) }));
            } else {
                self.keys.remove(request["requestDeleteRange"]["key"].as_str().unwrap());
                responses.push(json!({ "response_delete_range": {} }));
            }
        }
        json!({ "header": self.header(), "succeeded": is_equal, "responses": responses })
    }

    fn header(&self) -> Value {
        json!({ "cluster_id": self.id.to_string(), "revision": self.revision.to_string() })
    }
}

/// Serves a cluster by HTTP/1.1. Returns its URL.
async fn serve(cluster: &Arc<Mutex<Cluster>>) -> String {
    let anywhere: SocketAddr = ([127, 0, 0, 1], 0).into();
    let listener = Listener::bind(anywhere).await.unwrap();
    let address = listener.local_addr().unwrap();
    let cluster = cluster.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, cluster.clone()));
        }
    });
    format!("http://{address}")
}

async fn converse(mut stream: Stream, cluster: Arc<Mutex<Cluster>>) {
    let mut input = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = input.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut input).await.unwrap_or(0) == 0 {
                return;
            }
        };
        let head = String::from_utf8(input.drain(..end).collect()).unwrap().to_ascii_lowercase();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next()?.parse().ok());
        let length: usize = length.unwrap();
        while input.len() < length {
            assert!(stream.read_buf(&mut input).await.unwrap() > 0, "the body ends early");
        }
        let body: Vec<u8> = input.drain(..length).collect();
        let answer = cluster.lock().answer(&path, &serde_json::from_slice(&body).unwrap()).to_string();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.write_all(format!("{head}{answer}").as_bytes()).await.unwrap();
    }
}

struct TestArray {
    _directory: TemporaryDirectory,
    identity: TlsIdentity,
}

impl TestArray {
    fn new() -> Self {
        let directory = TemporaryDirectory::new(None, "ibid-etcd").unwrap();
        let identity = TlsIdentity::load_or_create(directory.path(), NAMES).unwrap();
        Self { _directory: directory, identity }
    }

    fn client(&self, url: &str, known: Option<&EtcdInfo>) -> EtcdClient {
        EtcdClient::new(url, &self.identity, known, TIMEOUT).unwrap()
    }
}

fn cluster(id: u64) -> Arc<Mutex<Cluster>> {
    Arc::new(Mutex::new(Cluster { id, ..Cluster::default() }))
}

/// A cluster, its URL, and two arrays.
async fn two_arrays() -> (Arc<Mutex<Cluster>>, String, (TestArray, TestArray)) {
    let etcd = cluster(5);
    let url = serve(&etcd).await;
    (etcd, url, (TestArray::new(), TestArray::new()))
}

fn held(epoch: u64, owner: Owner) -> Register {
    Register { epoch, owner }
}

#[tokio::test]
async fn register_in_etcd_decides_between_two_arrays() {
    let (etcd, url, (alpha, beta)) = two_arrays().await;
    let (a, b) = (alpha.client(&url, None), beta.client(&url, None));
    let (of_a, of_b) = (alpha.identity.fingerprint, beta.identity.fingerprint);
    assert!(matches!(a.read(POD).await, Err(CallError::Missing)));
    let both = held(0, Owner::Both);
    assert!(a.create(POD, of_b, NONCE, 0).await.unwrap().is_none(), "the other array has not asked");
    assert!(b.create(POD, of_a, [1; 16], 0).await.unwrap().is_none(), "with another nonce");
    assert!(a.create(POD, of_b, NONCE, 0).await.unwrap().is_none());
    assert_eq!(b.create(POD, of_a, NONCE, 0).await.unwrap(), Some(both));
    assert_eq!(a.create(POD, of_b, NONCE, 0).await.unwrap(), Some(both));
    assert_eq!(etcd.lock().keys.len(), 1, "wishes are removed");
    // Both want to continue alone.
    assert_eq!(a.swap(POD, both, held(1, Owner::Own)).await.unwrap(), held(1, Owner::Own));
    assert_eq!(b.swap(POD, both, held(1, Owner::Own)).await.unwrap(), held(1, Owner::Peer));
    assert_eq!(b.read(POD).await.unwrap(), held(1, Owner::Peer));
    assert!(matches!(a.swap(POD, held(1, Owner::Own), held(1, Owner::Both)).await, Err(CallError::Invalid)));
    assert!(matches!(a.swap(POD, held(1, Owner::Own), held(2, Owner::Peer)).await, Err(CallError::Invalid)));
    let stranger = TestArray::new().client(&url, None);
    assert!(matches!(stranger.read(POD).await, Err(CallError::Missing)));
    assert!(matches!(stranger.create(POD, of_a, NONCE, 0).await, Err(CallError::Taken)));
    assert_eq!(b.retire(POD, held(1, Owner::Peer)).await.unwrap(), held(1, Owner::Retired));
    assert_eq!(a.swap(POD, held(1, Owner::Own), held(2, Owner::Own)).await.unwrap().owner, Owner::Retired);
}

#[tokio::test]
async fn change_between_read_and_write_is_noticed() {
    let (etcd, url, (alpha, beta)) = two_arrays().await;
    let (a, b) = (alpha.client(&url, None), beta.client(&url, None));
    let (of_a, of_b) = (alpha.identity.fingerprint, beta.identity.fingerprint);
    make(&a, &b, (of_a, of_b), 0).await;
    let key = encode(EtcdClient::key(&POD).as_bytes());
    etcd.lock().interferes = Some(key.clone());
    let revision = etcd.lock().keys[&key].1;
    assert_eq!(a.swap(POD, held(0, Owner::Both), held(1, Owner::Own)).await.unwrap(), held(1, Owner::Own));
    assert_eq!(etcd.lock().keys[&key].1, revision + 2, "the first transaction has changed nothing");
    etcd.lock().keys.insert(key, (encode(b"{}"), 99));
    assert!(matches!(a.read(POD).await, Err(CallError::Etcd(..))), "a damaged register");
}

#[tokio::test]
async fn wish_of_before_makes_no_register() {
    let (etcd, alpha, beta) = (cluster(5), TestArray::new(), TestArray::new());
    let url = serve(&etcd).await;
    let (of_a, of_b) = (alpha.identity.fingerprint, beta.identity.fingerprint);
    assert!(beta.client(&url, None).create(POD, of_a, NONCE, 0).await.unwrap().is_none());
    let a = alpha.client(&url, None);
    for _ in 0..3 {
        assert!(a.create(POD, of_b, NONCE, 0).await.unwrap().is_none(), "beta may not use the cluster any more");
    }
    assert_eq!(beta.client(&url, None).create(POD, of_a, NONCE, 0).await.unwrap(), None);
    assert_eq!(a.create(POD, of_b, NONCE, 0).await.unwrap(), Some(held(0, Owner::Both)));
}

#[tokio::test]
async fn another_cluster_is_refused() {
    let (etcd, alpha) = (cluster(5), TestArray::new());
    let url = serve(&etcd).await;
    let known = alpha.client(&url, None).identify().await.unwrap();
    assert_eq!(alpha.client(&url, None).identify().await.unwrap(), known, "it is made once");
    let client = alpha.client(&url, Some(&known));
    assert!(matches!(client.read(POD).await, Err(CallError::Missing)));
    // Made again, with the same id.
    let kept = std::mem::take(&mut etcd.lock().keys);
    assert!(matches!(client.read(POD).await, Err(CallError::OtherInstance(_))));
    etcd.lock().keys = kept;
    assert!(matches!(client.read(POD).await, Err(CallError::Missing)));
    // Put back to an earlier state.
    etcd.lock().revision = 0;
    assert!(matches!(client.read(POD).await, Err(CallError::OtherInstance(_))));
    let two = format!("{url},{}", serve(&cluster(5)).await);
    assert!(matches!(alpha.client(&two, None).identify().await, Err(CallError::Etcd(..))), "two clusters");
    // A member of another cluster leaves the others.
    let other = serve(&cluster(5)).await;
    etcd.lock().revision = 9;
    let certificates = vec![None; 2];
    let both = EtcdInfo { certificates, ..known };
    let client = alpha.client(&format!("{other},{url}"), Some(&both));
    assert!(matches!(client.read(POD).await, Err(CallError::Missing)));
}

#[tokio::test]
async fn member_that_is_lost_leaves_the_others() {
    let (etcd, alpha, beta) = (cluster(5), TestArray::new(), TestArray::new());
    // Nothing listens on the first URL.
    let urls = format!("http://127.0.0.1:1,{}", serve(&etcd).await);
    let (a, b) = (alpha.client(&urls, None), beta.client(&urls, None));
    make(&a, &b, (alpha.identity.fingerprint, beta.identity.fingerprint), 3).await;
    assert_eq!(a.read(POD).await.unwrap(), held(3, Owner::Both));
}

/// Makes the register of both arrays.
async fn make(a: &EtcdClient, b: &EtcdClient, (of_a, of_b): (Fingerprint, Fingerprint), epoch: u64) {
    assert!(a.create(POD, of_b, NONCE, epoch).await.unwrap().is_none());
    assert!(b.create(POD, of_a, NONCE, epoch).await.unwrap().is_none());
    assert_eq!(a.create(POD, of_b, NONCE, epoch).await.unwrap(), Some(held(epoch, Owner::Both)));
}

#[test]
fn urls_of_a_cluster_are_checked() {
    let array = TestArray::new();
    let problem = |urls: &str| EtcdClient::new(urls, &array.identity, None, TIMEOUT).err();
    for good in
        ["https://etcd-1:2379", "https://192.0.2.1", "https://[2001:db8::1]:2379/,https://b", "http://127.0.0.1:1"]
    {
        assert_eq!(problem(good), None, "{good}");
    }
    for bad in ["", "etcd-1:2379", "ftp://a", "https://", "https://a:b", "https://a b", "http://192.0.2.1:2379"] {
        assert!(problem(bad).is_some(), "{bad}");
    }
    assert!(problem(&["https://a"; 10].join(",")).is_some(), "too many");
}
