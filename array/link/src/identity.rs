//! The certificate of an array on its links: self-signed, created at the first start, stored in the
//! array's directory like that of the REST API.

use crate::key::Fingerprint;
use platform::files::{self, Access};
use ring::digest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::Path;
use thiserror::Error;

/// The certificate file in the array's directory.
pub(crate) const CERTIFICATE_FILE: &str = "link.pem";
/// The file with the private key, readable by the owner only.
pub(crate) const KEY_FILE: &str = "link.key";
/// The files of the links in the array's directory.
pub const IDENTITY_FILES: [&str; 3] = [CERTIFICATE_FILE, KEY_FILE, crate::store::FILE];
/// Maximum size of either file in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// The name in every certificate of a link. It proves nothing; the key does.
pub(crate) const CERTIFICATE_NAME: &str = "ibid-link";

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

/// Certificate and key of an array.
#[derive(Debug)]
pub(crate) struct LinkIdentity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) fingerprint: Fingerprint,
}

impl LinkIdentity {
    /// Reads certificate and key, or creates them if the certificate is missing.
    pub(crate) fn load_or_create(directory: &Path) -> Result<Self, IdentityError> {
        let read = |file: &'static str| {
            files::read_text(&directory.join(file), MAX_FILE_BYTES).map_err(|error| IdentityError::File(file, error))
        };
        match (read(CERTIFICATE_FILE)?, read(KEY_FILE)?) {
            (Some(certificate), Some(key)) => Self::from_pem(&certificate, &key),
            // An interrupted first start may leave a key without a certificate. It is replaced.
            (None, _) => Self::create(directory),
            (Some(_), None) => Err(IdentityError::File(KEY_FILE, io::ErrorKind::NotFound.into())),
        }
    }

    fn create(directory: &Path) -> Result<Self, IdentityError> {
        let mut params = rcgen::CertificateParams::new(vec![CERTIFICATE_NAME.to_owned()])?;
        params.distinguished_name.push(rcgen::DnType::CommonName, "Ibid array link");
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
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|error| content(CERTIFICATE_FILE)(error.to_string()))?;
        let key =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| content(KEY_FILE)(error.to_string()))?;
        Ok(Self { fingerprint: fingerprint(&certificate), certificate, key })
    }
}

/// Returns the SHA-256 of a certificate.
pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    fingerprint
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::TemporaryDirectory;

    #[test]
    fn identity_survives_a_restart_and_its_key_is_private() {
        let directory = TemporaryDirectory::new(None, "ibid-link").unwrap();
        let made = LinkIdentity::load_or_create(directory.path()).unwrap();
        let loaded = LinkIdentity::load_or_create(directory.path()).unwrap();
        assert_eq!(made.fingerprint, loaded.fingerprint);
        assert!(!files::is_readable_by_others(&directory.path().join(KEY_FILE)).unwrap());
        files::remove(&directory.path().join(KEY_FILE)).unwrap();
        assert!(matches!(LinkIdentity::load_or_create(directory.path()), Err(IdentityError::File(KEY_FILE, _))));
        files::remove(&directory.path().join(CERTIFICATE_FILE)).unwrap();
        let other = LinkIdentity::load_or_create(directory.path()).unwrap();
        assert_ne!(made.fingerprint, other.fingerprint);
    }
}
