//! `ibid mediator`: start, check, kill, and the stored registers.

use crate::array::{Scratch, ibid};
use mediator::{MediatorClient, MediatorInfo, Owner, Register};
use pinned_tls::{IdentityNames, TlsIdentity};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const NAMES: IdentityNames = IdentityNames { certificate: "a.pem", key: "a.key", subject: "an array" };
const POD: [u8; 16] = [7; 16];

/// A running mediator, killed when dropped.
struct Running {
    child: Child,
    address: String,
    info: MediatorInfo,
}

impl Running {
    fn start(data: &Path, listen: &str) -> Self {
        let mut child = ibid()
            .args(["mediator", "serve", "--listen", listen, "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let announced: Vec<String> = lines.take_while(|line| line != "ready").collect();
        let fact = |name: &str| {
            let line = announced.iter().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().last()).unwrap_or_default().to_owned()
        };
        let bytes = |name| types::hex::decode(&fact(name)).unwrap();
        let info = MediatorInfo {
            fingerprint: bytes("certificate").try_into().unwrap(),
            instance: bytes("instance").try_into().unwrap(),
        };
        Self { address: fact("address"), child, info }
    }

    /// Sends a signal and waits for the end. Returns the exit code and the log.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let killed = Command::new("kill").args([format!("-{signal}"), self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }

    fn client(&self, identity: &TlsIdentity) -> MediatorClient {
        let (host, port) = self.address.rsplit_once(':').unwrap();
        let place = (host, port.parse().unwrap());
        MediatorClient::new(place, identity, Some(self.info), Duration::from_secs(20)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(words: &str, data: &Path) -> Output {
    ibid().args(["mediator"]).args(words.split_whitespace()).arg("--data").arg(data).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn mediator_keeps_its_registers_over_sigkill() {
    let scratch = Scratch::new("mediator");
    let data = scratch.0.join("mediator");
    let arrays = ["a", "b"].map(|name| {
        let directory = scratch.0.join(name);
        platform::files::create_directory(&directory).unwrap();
        TlsIdentity::load_or_create(&directory, NAMES).unwrap()
    });
    let running = Running::start(&data, "127.0.0.1:0");
    let clients = [running.client(&arrays[0]), running.client(&arrays[1])];
    let refused = clients[0].read(POD).await.unwrap_err().to_string();
    assert!(refused.contains("`ibid mediator allow "), "{refused}");
    for array in &arrays {
        let digits = types::hex::encode(&array.fingerprint).to_uppercase();
        let pairs: Vec<&str> = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]).collect();
        let allowed = text(&run(&format!("allow {}", pairs.join(":")), &data));
        assert!(allowed.ends_with(": allowed\n"), "{allowed}");
    }
    assert_eq!(clients[0].create(POD, arrays[1].fingerprint, [1; 16], 5).await.unwrap(), None);
    let both = Register { epoch: 5, owner: Owner::Both };
    assert_eq!(clients[1].create(POD, arrays[0].fingerprint, [1; 16], 5).await.unwrap(), Some(both));
    let own = Register { epoch: 7, owner: Owner::Own };
    assert_eq!(clients[0].swap(POD, both, own).await.unwrap(), own);

    let second = text(&run("serve --listen 127.0.0.1:0", &data));
    assert!(second.contains("it is in use by process"), "{second}");
    let address = running.address.clone();
    assert_eq!(running.end("KILL").0, None);
    let running = Running::start(&data, &address);
    assert_eq!(clients[0].read(POD).await.unwrap(), own);
    assert_eq!(clients[1].swap(POD, both, own).await.unwrap(), Register { epoch: 7, owner: Owner::Peer });

    let listed: Value = serde_json::from_slice(&run("list --json", &data).stdout).unwrap();
    assert_eq!((&listed[0]["epoch"], &listed[0]["pod"]), (&7.into(), &"07".repeat(16).into()));
    assert_eq!(listed[0]["owner"], types::hex::encode(&arrays[0].fingerprint));
    let table = text(&run("list", &data));
    assert!(table.contains("EPOCH") && table.contains(&types::hex::encode(&arrays[0].fingerprint)[..12]), "{table}");
    let (code, log) = running.end("TERM");
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("SIGTERM received; stopped"), "{log}");
}

#[test]
fn mediator_is_checked_over_the_network() {
    let scratch = Scratch::new("mediator-check");
    let running = Running::start(&scratch.0.join("mediator"), "127.0.0.1:0");
    let check = |words: &str| ibid().args(["mediator", "check"]).args(words.split_whitespace()).output().unwrap();
    let certificate = types::hex::encode(&running.info.fingerprint);
    let found = check(&format!("{} --json --certificate {certificate}", running.address));
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found["certificate"], certificate);
    assert_eq!(found["instance"], types::hex::encode(&running.info.instance));
    let wrong = check(&format!("{} --certificate {}", running.address, "00".repeat(32)));
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong).contains("another certificate than the expected one"), "{}", text(&wrong));
    let address = running.address.clone();
    drop(running);
    let gone = check(&address);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone).contains("hint: check the address"), "{}", text(&gone));
}

#[tokio::test]
async fn mediator_commands_refuse_in_words() {
    let scratch = Scratch::new("mediator-words");
    let none = run("list", &scratch.0);
    assert!(text(&none).contains("no mediator\nhint: `ibid mediator serve --data DIR` makes one"), "{}", text(&none));
    let wrong = run("allow 00ff", &scratch.0);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong).contains("'00ff' is no SHA-256 of a certificate\nhint: write its 64"), "{}", text(&wrong));
    let without = ibid().args(["mediator", "serve"]).output().unwrap();
    assert_eq!(without.status.code(), Some(2));
    assert!(text(&without).contains("hint: name it with --data DIR"), "{}", text(&without));
    let busy = platform::net::Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let taken = run(&format!("serve --listen {}", busy.local_addr().unwrap()), &scratch.0);
    assert_eq!(taken.status.code(), Some(1));
    assert!(text(&taken).contains("hint: choose another address with --listen"), "{}", text(&taken));
}
