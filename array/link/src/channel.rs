//! A TLS connection that carries frames.

use crate::error::LinkError;
use crate::frame::{Decoder, Encoder, Frame, FrameError, Kind};
use crate::identity::PROTOCOL;
use crate::message::Refusal;
use bytes::BytesMut;
use pinned_tls::Fingerprint;
use platform::net::Stream;
use rustls::{AlertDescription, CertificateError, ClientConfig, ServerConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// Maximum time to connect, for TLS, and for the first frames.
pub(crate) const OPENING_TIMEOUT: Duration = Duration::from_secs(5);
/// Initial size of the read buffer in bytes.
const BUFFER_BYTES: usize = 16 << 10;
/// Label of the keying material that binds a connection key to a session (RFC 8446 7.5).
const EXPORTER_LABEL: &[u8] = b"EXPORTER-ibid-link";

/// The end of a stream of frames.
#[derive(Debug, Error)]
pub(crate) enum ChannelError {
    #[error("the other array closed the connection")]
    Closed,
    #[error("the connection failed: {0}")]
    Io(io::Error),
    #[error("the other array broke the protocol: {0}")]
    Frame(#[from] FrameError),
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

impl From<ChannelError> for LinkError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Closed | ChannelError::Io(_) => Self::Ended,
            ChannelError::Frame(error) => Self::Protocol(error.to_string()),
        }
    }
}

/// The receiving half.
pub(crate) struct FrameReader {
    stream: ReadHalf<TlsStream<Stream>>,
    buffer: BytesMut,
    decoder: Decoder,
}

impl FrameReader {
    /// Returns the next frame. No data is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Frame, ChannelError> {
        loop {
            // The decoder reserves space for an incomplete frame, whose length it has checked.
            if let Some(frame) = self.decoder.next(&mut self.buffer)? {
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(ChannelError::Closed);
            }
        }
    }

    /// Returns the next frame if it is of this kind.
    pub(crate) async fn expect(&mut self, kind: Kind) -> Result<Frame, LinkError> {
        let frame = self.next().await?;
        match frame.kind {
            found if found == kind => Ok(frame),
            Kind::Refuse => Err(LinkError::Refused(Refusal::decode(&frame.body).text)),
            found => Err(LinkError::Protocol(format!("{found:?} where {kind:?} was due"))),
        }
    }
}

/// The sending half.
pub(crate) struct FrameWriter {
    stream: WriteHalf<TlsStream<Stream>>,
    buffer: BytesMut,
    encoder: Encoder,
}

impl FrameWriter {
    /// Sends a frame completely.
    pub(crate) async fn send(&mut self, frame: &Frame) -> Result<(), ChannelError> {
        self.push(frame);
        self.flush().await
    }

    /// Adds a frame to those that the next flush sends.
    pub(crate) fn push(&mut self, frame: &Frame) {
        self.encoder.encode(frame, &mut self.buffer);
    }

    /// Returns the bytes that wait for a flush.
    pub(crate) fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// Sends the frames that wait.
    pub(crate) async fn flush(&mut self) -> Result<(), ChannelError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.stream.write_all(&self.buffer).await?;
        self.buffer.clear();
        Ok(self.stream.flush().await?)
    }

    /// Sends the reason, then closes the connection.
    pub(crate) async fn refuse(&mut self, refusal: &Refusal) {
        // The peer may have gone; then it needs no reason.
        let _ = self.send(&refusal.encode()).await;
        let _ = self.stream.shutdown().await;
    }
}

/// A connection whose TLS handshake is complete.
pub(crate) struct Channel {
    pub(crate) reader: FrameReader,
    pub(crate) writer: FrameWriter,
    /// The certificate of the peer.
    pub(crate) peer: Fingerprint,
    /// Both ends have the same value, and no other session has it.
    pub(crate) exporter: [u8; 32],
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

impl Channel {
    /// Connects to the first of the addresses that accepts.
    pub(crate) async fn connect(
        place: &str,
        addresses: &[SocketAddr],
        config: Arc<ClientConfig>,
    ) -> Result<Self, LinkError> {
        let opening = async {
            let mut failed = LinkError::Ended;
            for address in addresses {
                match Stream::connect(*address).await {
                    Ok(stream) => return Self::handshake(place, stream, config).await,
                    Err(error) => failed = LinkError::Connect(place.to_owned(), error),
                }
            }
            Err(failed)
        };
        let opened = tokio::time::timeout(OPENING_TIMEOUT, opening).await;
        opened.unwrap_or_else(|_| Err(LinkError::TimedOut(place.to_owned())))
    }

    async fn handshake(place: &str, stream: Stream, config: Arc<ClientConfig>) -> Result<Self, LinkError> {
        let name = pinned_tls::server_name().map_err(|error| LinkError::System(error.to_string()))?;
        let stream = TlsConnector::from(config).connect(name, stream).await;
        let stream = stream.map_err(|error| explain(place, &error))?;
        Self::new(stream.into()).map_err(|error| LinkError::NotALink(place.to_owned(), error.to_string()))
    }

    /// Accepts a connection.
    pub(crate) async fn accept(stream: Stream, config: Arc<ServerConfig>) -> io::Result<Self> {
        Self::new(TlsAcceptor::from(config).accept(stream).await?.into())
    }

    fn new(stream: TlsStream<Stream>) -> io::Result<Self> {
        let (socket, session) = stream.get_ref();
        let (local, remote) = (socket.local_addr()?, socket.peer_addr()?);
        if session.alpn_protocol() != Some(PROTOCOL) {
            return Err(io::Error::other("TLS of another protocol"));
        }
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let peer = pinned_tls::fingerprint(certificate.ok_or_else(|| io::Error::other("no certificate"))?);
        let exporter = match &stream {
            TlsStream::Client(stream) => stream.get_ref().1.export_keying_material([0; 32], EXPORTER_LABEL, None),
            TlsStream::Server(stream) => stream.get_ref().1.export_keying_material([0; 32], EXPORTER_LABEL, None),
        };
        let exporter = exporter.map_err(io::Error::other)?;
        let (reader, writer) = tokio::io::split(stream);
        let buffer = BytesMut::with_capacity(BUFFER_BYTES);
        Ok(Self {
            reader: FrameReader { stream: reader, buffer, decoder: Decoder::default() },
            writer: FrameWriter { stream: writer, buffer: BytesMut::new(), encoder: Encoder::default() },
            peer,
            exporter,
            local,
            remote,
        })
    }
}

/// Returns the cause of a failed handshake.
fn explain(place: &str, error: &io::Error) -> LinkError {
    use rustls::Error as Tls;
    let other = |cause: &str| LinkError::NotALink(place.to_owned(), cause.to_owned());
    match error.get_ref().and_then(|error| error.downcast_ref::<Tls>()) {
        Some(Tls::InvalidCertificate(CertificateError::ApplicationVerificationFailure)) => {
            LinkError::WrongCertificate(place.to_owned())
        }
        Some(Tls::InvalidMessage(_)) => other("its answer is not TLS"),
        Some(Tls::AlertReceived(AlertDescription::NoApplicationProtocol) | Tls::NoApplicationProtocol) => {
            other("TLS of another protocol")
        }
        Some(error) => other(&error.to_string()),
        None if error.kind() == io::ErrorKind::UnexpectedEof => other("it closed the connection"),
        None => other(&error.to_string()),
    }
}
