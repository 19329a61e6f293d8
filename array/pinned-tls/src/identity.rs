//! A self-signed certificate, created at the first start and stored in a directory.

use platform::files::{self, Access};
use ring::digest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::Path;
use thiserror::Error;

/// Maximum size of either file in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// The name in every certificate. It proves nothing; the key does.
pub(crate) const CERTIFICATE_NAME: &str = "ibid-link";

/// SHA-256 of a certificate.
pub type Fingerprint = [u8; 32];

/// The files of a certificate, and its subject.
#[derive(Clone, Copy, Debug)]
pub struct IdentityNames {
    /// The certificate file.
    pub certificate: &'static str,
    /// The file with the private key, readable by the owner only.
    pub key: &'static str,
    /// Common name of the subject, for people.
    pub subject: &'static str,
}

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

/// Certificate and key of a program.
#[derive(Debug)]
pub struct TlsIdentity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
    /// SHA-256 of the certificate.
    pub fingerprint: Fingerprint,
}

impl TlsIdentity {
    /// Reads certificate and key from `directory`, or creates them if the certificate is missing.
    pub fn load_or_create(directory: &Path, names: IdentityNames) -> Result<Self, IdentityError> {
        let read = |file: &'static str| {
            files::read_text(&directory.join(file), MAX_FILE_BYTES).map_err(|error| IdentityError::File(file, error))
        };
        match (read(names.certificate)?, read(names.key)?) {
            (Some(certificate), Some(key)) => Self::from_pem(&certificate, &key, names),
            // An interrupted first start may leave a key without a certificate. It is replaced.
            (None, _) => Self::create(directory, names),
            (Some(_), None) => Err(IdentityError::File(names.key, io::ErrorKind::NotFound.into())),
        }
    }

    fn create(directory: &Path, names: IdentityNames) -> Result<Self, IdentityError> {
        let mut params = rcgen::CertificateParams::new(vec![CERTIFICATE_NAME.to_owned()])?;
        params.distinguished_name.push(rcgen::DnType::CommonName, names.subject);
        let key = rcgen::KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        let write = |file: &'static str, content: &str, access: Access| {
            files::replace(&directory.join(file), content.as_bytes(), access)
                .map_err(|error| IdentityError::File(file, error))
        };
        write(names.key, &key.serialize_pem(), Access::Owner)?;
        write(names.certificate, &certificate, Access::Everyone)?;
        Self::from_pem(&certificate, &key.serialize_pem(), names)
    }

    fn from_pem(certificate: &str, key: &str, names: IdentityNames) -> Result<Self, IdentityError> {
        let content = |file: &'static str| move |error: String| IdentityError::Content(file, error);
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|error| content(names.certificate)(error.to_string()))?;
        let key =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| content(names.key)(error.to_string()))?;
        Ok(Self { fingerprint: fingerprint(&certificate), certificate, key })
    }
}

/// Returns the SHA-256 of a certificate.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    fingerprint
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test panics")]
    use super::*;
    use platform::TemporaryDirectory;

    const NAMES: IdentityNames = IdentityNames { certificate: "a.pem", key: "a.key", subject: "a test" };

    #[test]
    fn identity_survives_a_restart_and_its_key_is_private() {
        let directory = TemporaryDirectory::new(None, "ibid-pinned-tls").unwrap();
        let made = TlsIdentity::load_or_create(directory.path(), NAMES).unwrap();
        let loaded = TlsIdentity::load_or_create(directory.path(), NAMES).unwrap();
        assert_eq!(made.fingerprint, loaded.fingerprint);
        assert!(!files::is_readable_by_others(&directory.path().join(NAMES.key)).unwrap());
        files::remove(&directory.path().join(NAMES.key)).unwrap();
        assert!(matches!(TlsIdentity::load_or_create(directory.path(), NAMES), Err(IdentityError::File("a.key", _))));
        files::remove(&directory.path().join(NAMES.certificate)).unwrap();
        let other = TlsIdentity::load_or_create(directory.path(), NAMES).unwrap();
        assert_ne!(made.fingerprint, other.fingerprint);
    }
}
