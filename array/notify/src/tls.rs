//! TCP connections, with and without TLS.

use crate::SendError;
use crate::address::roots;
use platform::net::{Stream, resolve_all};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Returns the place in the form of messages.
pub(crate) fn place(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Connects over TCP, to the first address of the machine that accepts.
pub(crate) async fn connect(host: &str, port: u16) -> Result<Stream, SendError> {
    let addresses = resolve_all(host, port).await.map_err(|error| SendError::Resolve(host.to_owned(), error))?;
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match Stream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(SendError::Connect(place(host, port), last))
}

/// Connects over TCP and TLS. Trusts the authorities in `ca`, or the public ones.
pub(crate) async fn connect_tls(host: &str, port: u16, ca: Option<&str>) -> Result<TlsStream<Stream>, SendError> {
    let failed = |error: String| SendError::Tls(place(host, port), error);
    let roots = match ca {
        Some(pem) => roots(pem).ok_or(SendError::Setting("the certificates of the authorities are not readable"))?,
        None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
    };
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(error.to_string()))?;
    let stream = connect(host, port).await?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| failed(error.to_string()))
}
