//! The client of a mediator, for one array.

use crate::PROTOCOL;
use crate::message::{Action, MessageError, PodKey, REPLY_BYTES, Register, Reply, Request, Status};
use pinned_tls::{Fingerprint, TlsIdentity, fingerprint};
use platform::net::{Stream, resolve_all};
use rustls::ClientConfig;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A request was not carried out, or nothing is known about it.
#[derive(Debug, Error)]
pub enum CallError {
    /// No answer in time. A change may still be carried out.
    #[error("the mediator at {0} did not answer in time")]
    TimedOut(String),
    /// No connection, or it ended. A change may have been carried out.
    #[error("the mediator at {0} cannot be reached: {1}")]
    Unreachable(String, io::Error),
    /// The other side is no mediator of this protocol.
    #[error("at {0}: {1}")]
    Protocol(String, MessageError),
    /// Its certificate is not the expected one.
    #[error("the mediator at {0} has another certificate than the expected one")]
    Certificate(String),
    /// TLS cannot be set up here.
    #[error("TLS cannot be used")]
    Tls(#[from] rustls::Error),
    /// It is another mediator than before: an empty one, or one of another directory.
    #[error("the mediator at {0} is another one than before: its registers are not the same")]
    OtherInstance(String),
    /// It has no register of this pod for this array.
    #[error("the mediator has no register of this pod for this array")]
    Missing,
    /// A limit of registers is reached.
    #[error("the mediator has no place for another register")]
    Full,
    /// The register belongs to another pair of arrays.
    #[error("the register belongs to another pair of arrays")]
    Taken,
    /// No administrator of the mediator has allowed this array.
    #[error("the mediator does not serve this array; allow it there with `ibid mediator allow {0}`")]
    NotAllowed(String),
    /// A member of etcd has refused the request, or its answer is malformed.
    #[error("etcd at {0}: {1}")]
    Etcd(String, String),
    /// The request breaks a rule of registers: epochs grow, an array names only itself.
    #[error("the mediator refused the change: epochs grow, and an array names only itself")]
    Invalid,
}

/// An answer of a mediator that is awaited.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send + 'a>>;

/// The registers of a mediator, as one array uses them.
pub trait RegisterClient: Send + Sync {
    /// As [`MediatorClient::read`].
    fn read(&self, pod: PodKey) -> Answer<'_, Register>;
    /// As [`MediatorClient::create`].
    fn create(&self, pod: PodKey, peer: Fingerprint, nonce: [u8; 16], epoch: u64) -> Answer<'_, Option<Register>>;
    /// As [`MediatorClient::swap`].
    fn swap(&self, pod: PodKey, expected: Register, new: Register) -> Answer<'_, Register>;
    /// As [`MediatorClient::retire`].
    fn retire(&self, pod: PodKey, expected: Register) -> Answer<'_, Register>;
}

impl RegisterClient for MediatorClient {
    fn read(&self, pod: PodKey) -> Answer<'_, Register> {
        Box::pin(self.read(pod))
    }

    fn create(&self, pod: PodKey, peer: Fingerprint, nonce: [u8; 16], epoch: u64) -> Answer<'_, Option<Register>> {
        Box::pin(self.create(pod, peer, nonce, epoch))
    }

    fn swap(&self, pod: PodKey, expected: Register, new: Register) -> Answer<'_, Register> {
        Box::pin(self.swap(pod, expected, new))
    }

    fn retire(&self, pod: PodKey, expected: Register) -> Answer<'_, Register> {
        Box::pin(self.retire(pod, expected))
    }
}

/// A mediator, as it presents itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediatorInfo {
    /// SHA-256 of its certificate.
    pub fingerprint: Fingerprint,
    /// Its id.
    pub instance: [u8; 16],
}

struct Connection {
    stream: TlsStream<Stream>,
    fingerprint: Fingerprint,
}

/// A mediator as one array uses it. Requests are made one after the other.
pub struct MediatorClient {
    host: String,
    port: u16,
    config: Arc<ClientConfig>,
    /// The certificate of this array.
    own: Fingerprint,
    /// The instance that the array knows; zeros if it knows none.
    instance: [u8; 16],
    timeout: Duration,
    connection: Mutex<Option<Connection>>,
    next: AtomicU32,
}

impl MediatorClient {
    /// Creates a client. It connects with the first request. `known` is the mediator that the
    /// array has agreed on; without it, any is accepted.
    ///
    /// # Errors
    ///
    /// TLS refuses the own certificate.
    pub fn new(
        (host, port): (&str, u16),
        identity: &TlsIdentity,
        known: Option<MediatorInfo>,
        timeout: Duration,
    ) -> Result<Self, rustls::Error> {
        let config = pinned_tls::client(identity, PROTOCOL, known.map(|known| known.fingerprint))?;
        Ok(Self {
            host: host.to_owned(),
            port,
            config,
            own: identity.fingerprint,
            instance: known.map_or([0; 16], |known| known.instance),
            timeout,
            connection: Mutex::default(),
            next: AtomicU32::new(1),
        })
    }

    /// Returns the mediator's certificate and instance. It answers every client.
    pub async fn identify(&self) -> Result<MediatorInfo, CallError> {
        let (reply, fingerprint) = self.ask([0; 16], Action::Identify).await?;
        Ok(MediatorInfo { fingerprint, instance: reply.instance })
    }

    /// Reads a register.
    pub async fn read(&self, pod: PodKey) -> Result<Register, CallError> {
        self.call(pod, Action::Read).await.map(|reply| reply.register)
    }

    /// Asks for a register of this array and the one with the certificate `peer`, which begins with
    /// `epoch`. `None` as long as the other array has not asked for the same, with the same nonce:
    /// then ask again.
    pub async fn create(
        &self,
        pod: PodKey,
        peer: Fingerprint,
        nonce: [u8; 16],
        epoch: u64,
    ) -> Result<Option<Register>, CallError> {
        let reply = self.call(pod, Action::Create { peer, nonce, epoch }).await?;
        Ok((reply.status != Status::Waiting).then_some(reply.register))
    }

    /// Replaces the content of a register if it is the expected one.
    ///
    /// Returns the content afterwards: the new one, or another if it was not the expected one. If a
    /// connection has ended, the request is repeated: then another content does not prove that the
    /// swap was not carried out, because the other array may have changed the register since.
    pub async fn swap(&self, pod: PodKey, expected: Register, new: Register) -> Result<Register, CallError> {
        self.call(pod, Action::Swap { expected, new }).await.map(|reply| reply.register)
    }

    /// Retires a register for good if its content is the expected one. Returns the content
    /// afterwards.
    pub async fn retire(&self, pod: PodKey, expected: Register) -> Result<Register, CallError> {
        self.call(pod, Action::Retire { expected }).await.map(|reply| reply.register)
    }

    fn place(&self) -> String {
        match self.host.contains(':') && !self.host.starts_with('[') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    fn unreachable(&self, error: io::Error) -> CallError {
        CallError::Unreachable(self.place(), error)
    }

    async fn call(&self, pod: PodKey, action: Action) -> Result<Reply, CallError> {
        self.ask(pod, action).await.map(|(reply, _)| reply)
    }

    /// Makes a request. Returns the reply, and the certificate of the mediator. After an error or
    /// without an answer in time, the connection is closed, so that no late answer is taken for
    /// that of another request.
    async fn ask(&self, pod: PodKey, action: Action) -> Result<(Reply, Fingerprint), CallError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let request = Request { number, pod, instance: self.instance, action };
        let exchanging = async {
            let mut held = self.connection.lock().await;
            // Taken out, so that it is closed when the future is dropped.
            let connection = held.take();
            let (connection, reply) = self.exchange(connection, &request).await?;
            let fingerprint = connection.fingerprint;
            *held = Some(connection);
            Ok::<_, CallError>((reply, fingerprint))
        };
        let exchanged = tokio::time::timeout(self.timeout, exchanging).await;
        let (reply, fingerprint) = exchanged.map_err(|_| CallError::TimedOut(self.place()))??;
        match reply.status {
            Status::Done | Status::Differs | Status::Waiting => Ok((reply, fingerprint)),
            Status::OtherInstance => Err(CallError::OtherInstance(self.place())),
            Status::Missing => Err(CallError::Missing),
            Status::Full => Err(CallError::Full),
            Status::Taken => Err(CallError::Taken),
            Status::Invalid => Err(CallError::Invalid),
            Status::NotAllowed => Err(CallError::NotAllowed(types::hex::encode(&self.own))),
        }
    }

    async fn exchange(
        &self,
        connection: Option<Connection>,
        request: &Request,
    ) -> Result<(Connection, Reply), CallError> {
        if let Some(mut connection) = connection
            && let Ok(reply) = talk(&mut connection.stream, request).await
        {
            return self.check(reply, request).map(|reply| (connection, reply));
        }
        // The mediator may have been restarted. Each request may be repeated: a swap that was
        // carried out does not find the expected content again.
        let mut connection = self.connect().await?;
        let reply = talk(&mut connection.stream, request).await.map_err(|error| self.unreachable(error))?;
        self.check(reply, request).map(|reply| (connection, reply))
    }

    fn check(&self, bytes: [u8; REPLY_BYTES], request: &Request) -> Result<Reply, CallError> {
        let reply = Reply::decode(&bytes).map_err(|error| CallError::Protocol(self.place(), error))?;
        match reply.number == request.number {
            true => Ok(reply),
            false => Err(CallError::Protocol(self.place(), MessageError::Malformed("number of the reply"))),
        }
    }

    async fn connect(&self) -> Result<Connection, CallError> {
        let failed = |error| self.unreachable(error);
        let addresses = resolve_all(&self.host, self.port).await.map_err(failed)?;
        let mut last = io::ErrorKind::NotFound.into();
        // An address that does not answer leaves time for the others.
        let part = self.timeout / u32::try_from(addresses.len() + 1).unwrap_or(u32::MAX);
        for address in addresses {
            match tokio::time::timeout(part, Stream::connect(address)).await {
                Ok(Ok(stream)) => return self.handshake(stream).await,
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failed(last))
    }

    async fn handshake(&self, stream: Stream) -> Result<Connection, CallError> {
        let (stream, fingerprint) = secure(&self.config, stream, &self.place()).await?;
        if stream.get_ref().1.alpn_protocol() != Some(PROTOCOL) {
            return Err(CallError::Protocol(self.place(), MessageError::NotMediator));
        }
        Ok(Connection { stream, fingerprint })
    }
}

/// Begins TLS with a mediator, or a member of etcd, at `place`. Returns the certificate that it has
/// presented, too.
pub(crate) async fn secure(
    config: &Arc<ClientConfig>,
    stream: Stream,
    place: &str,
) -> Result<(TlsStream<Stream>, Fingerprint), CallError> {
    let unreachable = |error: io::Error| CallError::Unreachable(place.to_owned(), error);
    let connector = TlsConnector::from(config.clone());
    let stream = connector.connect(pinned_tls::server_name()?, stream).await.map_err(|error| {
        let cause = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        match cause {
            Some(rustls::Error::InvalidCertificate(_)) => CallError::Certificate(place.to_owned()),
            _ => unreachable(error),
        }
    })?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let fingerprint = certificate.map(|certificate| fingerprint(certificate));
    let fingerprint = fingerprint.ok_or_else(|| unreachable(io::ErrorKind::InvalidData.into()))?;
    Ok((stream, fingerprint))
}

async fn talk(stream: &mut TlsStream<Stream>, request: &Request) -> io::Result<[u8; REPLY_BYTES]> {
    stream.write_all(&request.encode()).await?;
    stream.flush().await?;
    let mut reply = [0; REPLY_BYTES];
    stream.read_exact(&mut reply).await?;
    Ok(reply)
}
