//! `ibid mediator`: runs a mediator, lists its registers, and examines one over the network.

use crate::cli::{LogFormat, MediatorCommand};
use crate::log;
use crate::output::{either, facts, print, table, time};
use crate::problem::Problem;
use mediator::{
    CallError, DEFAULT_PORT, Entry, Holder, IDENTITY, Mediator, MediatorClient, MediatorInfo, Store, StoreError,
};
use pinned_tls::TlsIdentity;
use platform::{TemporaryDirectory, clock, process};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use types::hex;

/// Time for an answer of the mediator.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs an `ibid mediator` command.
pub(crate) fn run(data: Option<PathBuf>, command: MediatorCommand) -> Result<(), Problem> {
    match command {
        MediatorCommand::Serve { listen } => {
            process::abort_on_panic();
            process::raise_file_limit();
            log::start(None, LogFormat::Text)?;
            Runtime::new()?.block_on(serve(&directory(data)?, listen))
        }
        MediatorCommand::Allow { certificate } => allow(&directory(data)?, &certificate),
        MediatorCommand::List { json } => list(&directory(data)?, json),
        MediatorCommand::Check { address, certificate, json } => {
            let certificate = certificate.map(|text| fingerprint(&text)).transpose()?;
            Runtime::new()?.block_on(check(&address, certificate, json))
        }
    }
}

fn directory(data: Option<PathBuf>) -> Result<PathBuf, Problem> {
    data.ok_or_else(|| Problem::new("no directory of a mediator").hint("name it with --data DIR").exit_code(2))
}

async fn serve(directory: &Path, listen: SocketAddr) -> Result<(), Problem> {
    // Before the announcement, after which a signal must stop the mediator cleanly.
    let mut signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mediator = Mediator::bind(directory, listen).await.map_err(|error| {
        let hint = match &error {
            mediator::StartError::Bind(..) => "choose another address with --listen ADDR:PORT",
            mediator::StartError::Store(_) => {
                "use a directory that no other mediator uses. If files are damaged or lost, make a new mediator in an \
                 empty directory and set it for each pod again; never restore registers from a backup, which may have \
                 forgotten decisions"
            }
            _ => "restore mediator.pem and mediator.key from a backup, or make a new mediator in an empty directory",
        };
        Problem::from(error).hint(hint)
    })?;
    let announced = [
        ("address", mediator.address().to_string()),
        ("certificate", hex::encode(&mediator.fingerprint())),
        ("instance", hex::encode(&mediator.instance())),
        ("registers", mediator.registers().await.to_string()),
    ];
    print(&format!("{}ready\n", facts(&announced)))?;
    tokio::select! {
        _ = signals.0.recv() => tracing::info!("SIGTERM received; stopped"),
        _ = signals.1.recv() => tracing::info!("SIGINT received; stopped"),
        reason = mediator.run() => {
            return Err(Problem::new(format!("a register could not be stored: {reason}"))
                .hint("free space or repair the drive, then start the mediator again; the stored registers count"));
        }
    }
    Ok(())
}

fn open(directory: &Path) -> Result<Store, Problem> {
    Store::inspect(directory)?.ok_or_else(|| {
        Problem::new(format!("{}: no mediator", directory.display()))
            .hint("`ibid mediator serve --data DIR` makes one; check the directory")
    })
}

fn allow(directory: &Path, certificate: &str) -> Result<(), Problem> {
    let array = fingerprint(certificate)?;
    let is_new = open(directory)?.allow(array).map_err(|error| {
        let hint = match &error {
            StoreError::Lock(_) => "another `ibid mediator allow` runs; run this one again",
            _ => "check the permissions and the free space of the directory",
        };
        Problem::from(error).hint(hint)
    })?;
    let state = if is_new { "allowed" } else { "was allowed already" };
    print(&format!("{}: {state}\n", hex::encode(&array)))
}

/// A register, as printed.
#[derive(Serialize)]
struct Listed {
    pod: String,
    arrays: [String; 2],
    epoch: u64,
    /// `both`, `retired`, or the certificate of an array.
    owner: String,
    changed: u64,
}

impl Listed {
    fn new(entry: &Entry) -> Self {
        let owner = match entry.owner {
            Holder::Both => "both".to_owned(),
            Holder::Retired => "retired".to_owned(),
            Holder::One(array) => hex::encode(&array),
        };
        let arrays = entry.arrays.map(|array| hex::encode(&array));
        Self { pod: hex::encode(&entry.pod), arrays, epoch: entry.epoch, owner, changed: entry.changed_ms }
    }
}

fn list(directory: &Path, as_json: bool) -> Result<(), Problem> {
    let store = open(directory)?;
    let listed: Vec<Listed> = store.load()?.iter().map(Listed::new).collect();
    either(as_json, &listed, || {
        // The first digits of a certificate are enough to recognise an array.
        let short = |text: &str| text.get(..12).unwrap_or(text).to_owned();
        let row = |register: &Listed| {
            let [first, second] = &register.arrays;
            let arrays = format!("{}, {}", short(first), short(second));
            let epoch = register.epoch.to_string();
            vec![register.pod.clone(), arrays, epoch, short(&register.owner), time(register.changed)]
        };
        table(&["POD", "ARRAYS", "EPOCH", "OWNER", "CHANGED"], &[2], listed.iter().map(row).collect())
    })
}

/// A mediator that was reached.
#[derive(Serialize)]
struct Reached {
    address: String,
    certificate: String,
    instance: String,
    /// Time for one request on an open connection, in microseconds.
    answer_usec: u64,
}

async fn check(address: &str, certificate: Option<[u8; 32]>, as_json: bool) -> Result<(), Problem> {
    let (host, port) = place(address)?;
    // The mediator presents itself to every client; this certificate is used once.
    let scratch = TemporaryDirectory::new(None, "ibid-mediator")?;
    let identity = TlsIdentity::load_or_create(scratch.path(), IDENTITY)?;
    let known = certificate.map(|fingerprint| MediatorInfo { fingerprint, instance: [0; 16] });
    let client = MediatorClient::new((host, port), &identity, known, TIMEOUT)?;
    let failed = |error: CallError| {
        let hint = match &error {
            CallError::Certificate(_) => {
                "compare --certificate with what `ibid mediator serve` prints; if it is another mediator, do not use it"
            }
            _ => "check the address, that `ibid mediator serve` runs there, and that no firewall is between",
        };
        Problem::from(error).hint(hint)
    };
    client.identify().await.map_err(failed)?;
    let began = clock::now();
    let info = client.identify().await.map_err(failed)?;
    let answer = clock::now().saturating_duration_since(began);
    let reached = Reached {
        address: if host.contains(':') && !host.starts_with('[') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        },
        certificate: hex::encode(&info.fingerprint),
        instance: hex::encode(&info.instance),
        answer_usec: u64::try_from(answer.as_micros()).unwrap_or(u64::MAX),
    };
    either(as_json, &reached, || {
        facts(&[
            ("address", reached.address.clone()),
            ("certificate", reached.certificate.clone()),
            ("instance", reached.instance.clone()),
            ("answer", format!("{:.1} ms", answer.as_secs_f64() * 1000.0)),
        ])
    })
}

/// Splits an address: `HOST`, `HOST:PORT`, or the same with an IPv6 address in brackets.
fn place(address: &str) -> Result<(&str, u16), Problem> {
    let wrong = || Problem::new(format!("'{address}' is no address")).hint("write HOST or HOST:PORT").exit_code(2);
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
        _ => (address, DEFAULT_PORT),
    };
    if host.is_empty() { Err(wrong()) } else { Ok((host, port)) }
}

fn fingerprint(text: &str) -> Result<[u8; 32], Problem> {
    let digits = text.replace(':', "");
    let bytes = hex::decode(&digits).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| {
        Problem::new(format!("'{text}' is no SHA-256 of a certificate"))
            .hint("write its 64 hexadecimal digits")
            .exit_code(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_default_port() {
        let parsed = |text| place(text).ok();
        assert_eq!(parsed("mediator"), Some(("mediator", 8118)));
        assert_eq!(parsed("192.0.2.30:99"), Some(("192.0.2.30", 99)));
        assert_eq!(parsed("[2001:db8::1]:99"), Some(("[2001:db8::1]", 99)));
        assert_eq!(parsed("2001:db8::1"), Some(("2001:db8::1", 8118)));
        assert_eq!((parsed(""), parsed(":99"), parsed("host:x")), (None, None, None));
    }
}
