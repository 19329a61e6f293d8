//! The TLS certificate of the array: self-signed, created at the first start, stored in the array's
//! directory.

use platform::files::{self, Access};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// The certificate file in the array's directory. Clients on the same machine trust only this one.
pub(crate) const CERTIFICATE_FILE: &str = "certificate.pem";
/// The file with the private key, readable by the owner only.
pub(crate) const KEY_FILE: &str = "certificate.key";
/// The files of the certificate in the array's directory.
pub const IDENTITY_FILES: [&str; 2] = [CERTIFICATE_FILE, KEY_FILE];
/// Maximum size of either file in bytes, enough for any certificate chain.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// The certificate cannot be used.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// A file cannot be read or written.
    #[error("cannot read or write {0}: {1}")]
    File(&'static str, io::Error),
    /// A file has invalid content.
    #[error("{0} is invalid: {1}")]
    Content(&'static str, String),
    /// The certificate could not be created.
    #[error("cannot create a certificate: {0}")]
    Create(#[from] rcgen::Error),
}

/// The certificate and key of the server.
pub struct Identity {
    config: Arc<ServerConfig>,
}

impl Identity {
    /// Reads certificate and key from the array's directory, where an administrator may have
    /// replaced them. Creates them if the certificate is missing, for `localhost`, the loopback
    /// addresses and `names`.
    pub fn load_or_create(directory: &Path, names: &[IpAddr]) -> Result<Self, IdentityError> {
        let read = |file: &'static str| {
            files::read_text(&directory.join(file), MAX_FILE_BYTES).map_err(|error| IdentityError::File(file, error))
        };
        match (read(CERTIFICATE_FILE)?, read(KEY_FILE)?) {
            (Some(certificate), Some(key)) => Self::from_pem(&certificate, &key),
            // An interrupted first start may leave a key without a certificate. It is replaced.
            (None, _) => Self::create(directory, names),
            (Some(_), None) => Err(IdentityError::File(KEY_FILE, io::ErrorKind::NotFound.into())),
        }
    }

    fn create(directory: &Path, names: &[IpAddr]) -> Result<Self, IdentityError> {
        let mut subjects = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        subjects.extend(names.iter().filter(|name| !name.is_unspecified()).map(ToString::to_string));
        subjects.sort();
        subjects.dedup();
        let mut params = rcgen::CertificateParams::new(subjects)?;
        params.distinguished_name.push(rcgen::DnType::CommonName, "Ibid array");
        let key = rcgen::KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        let write = |file: &'static str, content: &str, access: Access| {
            files::replace(&directory.join(file), content.as_bytes(), access)
                .map_err(|error| IdentityError::File(file, error))
        };
        write(KEY_FILE, &key.serialize_pem(), Access::Owner)?;
        write(CERTIFICATE_FILE, &certificate, Access::Everyone)?;
        Self::from_pem(&certificate, &key.serialize_pem())
    }

    fn from_pem(certificate: &str, key: &str) -> Result<Self, IdentityError> {
        let content = |file: &'static str| move |error: String| IdentityError::Content(file, error);
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| content(CERTIFICATE_FILE)(error.to_string()))?;
        let key =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| content(KEY_FILE)(error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| content(CERTIFICATE_FILE)(error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config) })
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}
