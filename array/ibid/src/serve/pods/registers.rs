//! The registers of pods: at a mediator, or in an etcd cluster.

use catalog::PodMediator;
use mediator::{CallError, EtcdClient, EtcdInfo, MediatorClient, MediatorInfo, RegisterClient};
use pinned_tls::{Fingerprint, TlsIdentity};
use std::sync::Arc;
use std::time::Duration;
use types::hex;

/// Time for an answer of a mediator. The protocol asks again after 0.8 s.
const MEDIATOR_TIMEOUT: Duration = Duration::from_millis(800);
/// Time for each member of a cluster to present itself.
const IDENTIFY: Duration = Duration::from_secs(4);

/// Separates the certificates of a cluster's members.
const SEPARATOR: &str = ",";
/// Is written for a member without TLS.
const NO_CERTIFICATE: &str = "-";

/// Returns true for the URLs of an etcd cluster.
fn is_etcd(address: &str) -> bool {
    address.contains("://")
}

/// Splits `HOST` or `HOST:PORT`.
fn split_address(address: &str) -> Option<(&str, u16)> {
    match address.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => Some((host, port.parse().ok()?)),
        _ => Some((address, mediator::DEFAULT_PORT)),
    }
}

/// Returns the bytes of hexadecimal digits.
pub(super) fn bytes_of<const N: usize>(digits: &str) -> Option<[u8; N]> {
    hex::decode(digits)?.try_into().ok()
}

/// Returns the client of a pod's mediator, and the number of its instance.
pub(super) fn client(mediator: &PodMediator, identity: &TlsIdentity) -> Result<(Arc<dyn RegisterClient>, u64), String> {
    let PodMediator { address, certificate, instance } = mediator;
    let malformed = || format!("the mediator {address} of the pod is malformed");
    let instance: [u8; 16] = bytes_of(instance).ok_or_else(malformed)?;
    let (first, _) = instance.split_first_chunk::<8>().ok_or_else(malformed)?;
    let number = u64::from_le_bytes(*first);
    if is_etcd(address) {
        let pinned = |digits: &str| match digits {
            NO_CERTIFICATE => Some(None),
            digits => bytes_of::<32>(digits).map(Some),
        };
        let certificates: Option<Vec<_>> = certificate.split(SEPARATOR).map(pinned).collect();
        let known = EtcdInfo { certificates: certificates.ok_or_else(malformed)?, instance };
        let client = EtcdClient::new(address, identity, Some(&known), MEDIATOR_TIMEOUT)?;
        return Ok((Arc::new(client), number));
    }
    let place = split_address(address).ok_or_else(malformed)?;
    let fingerprint: Fingerprint = bytes_of(certificate).ok_or_else(malformed)?;
    let known = MediatorInfo { fingerprint, instance };
    let client = MediatorClient::new(place, identity, Some(known), MEDIATOR_TIMEOUT);
    let client = client.map_err(|error| error.to_string())?;
    Ok((Arc::new(client), number))
}

/// Asks a mediator, or each member of a cluster, for its certificate and instance, which the pod
/// then knows.
pub(super) async fn identify(address: &str, identity: &TlsIdentity) -> Result<PodMediator, String> {
    let address = address.trim().to_owned();
    let found = |certificate: String, instance: &[u8]| PodMediator {
        address: address.clone(),
        certificate,
        instance: hex::encode(instance),
    };
    if is_etcd(&address) {
        // A cluster that has just begun chooses a leader first.
        let client = EtcdClient::new(&address, identity, None, IDENTIFY)?;
        let info = client.identify().await.map_err(|error| error.to_string())?;
        let certificate = |pinned: &Option<Fingerprint>| {
            pinned.map_or_else(|| NO_CERTIFICATE.to_owned(), |pinned| hex::encode(&pinned))
        };
        let certificates: Vec<String> = info.certificates.iter().map(certificate).collect();
        return Ok(found(certificates.join(SEPARATOR), &info.instance));
    }
    let place = split_address(&address).ok_or_else(|| format!("{address} is no HOST or HOST:PORT"))?;
    let client = MediatorClient::new(place, identity, None, MEDIATOR_TIMEOUT).map_err(|error| error.to_string())?;
    let asked = client.identify().await;
    let info = asked.map_err(|error: CallError| format!("{error}; `ibid mediator check {address}` tests it"))?;
    Ok(found(hex::encode(&info.fingerprint), &info.instance))
}
