//! The certificates that a client trusts.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use thiserror::Error as ThisError;

/// The certificates that a client trusts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The certificate with this SHA-256 fingerprint. Its names do not matter, because arrays sign
    /// their own certificates.
    Fingerprint([u8; 32]),
    /// Certificates issued by these authorities for the host name of the URL.
    Authorities(Vec<CertificateDer<'static>>),
    /// Any certificate. Vulnerable to interception.
    AnyCertificate,
}

/// The trust settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum TrustError {
    /// The text is not a fingerprint.
    #[error("'{0}' is not a SHA-256 fingerprint: 64 hexadecimal digits, with or without colons")]
    Fingerprint(String),
    /// The text contains no certificate.
    #[error("not a PEM certificate: {0}")]
    Pem(String),
    /// TLS cannot use the certificates.
    #[error("certificates cannot be used: {0}")]
    Tls(String),
}

impl Trust {
    /// Trusts only the first certificate of a PEM text.
    pub fn certificate(pem: &str) -> Result<Self, TrustError> {
        let certificate =
            CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| TrustError::Pem(error.to_string()))?;
        Ok(Self::Fingerprint(fingerprint(&certificate)))
    }

    /// Trusts certificates issued by the authorities of a PEM text.
    pub fn authorities(pem: &str) -> Result<Self, TrustError> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        match all {
            Ok(all) if !all.is_empty() => Ok(Self::Authorities(all)),
            Ok(_) => Err(TrustError::Pem("no certificate found".to_owned())),
            Err(error) => Err(TrustError::Pem(error.to_string())),
        }
    }

    /// Trusts the certificate with this fingerprint, in the form of `openssl x509 -fingerprint
    /// -sha256`.
    pub fn fingerprint(text: &str) -> Result<Self, TrustError> {
        let bad = || TrustError::Fingerprint(text.to_owned());
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(bad());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(bad);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Ok(Self::Fingerprint(bytes))
    }

    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = |error: &dyn std::fmt::Display| TrustError::Tls(error.to_string());
        let verifier: Arc<dyn ServerCertVerifier> = match self {
            Self::Fingerprint(fingerprint) => {
                Arc::new(FingerprintVerifier { fingerprint: Some(*fingerprint), provider: provider.clone() })
            }
            Self::AnyCertificate => Arc::new(FingerprintVerifier { fingerprint: None, provider: provider.clone() }),
            Self::Authorities(authorities) => {
                let mut roots = RootCertStore::empty();
                authorities.iter().try_for_each(|root| roots.add(root.clone())).map_err(|error| tls(&error))?;
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .build()
                    .map_err(|error| tls(&error))?
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| tls(&error))?;
        Ok(Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
    }
}

fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate).into()
}

/// Accepts one certificate, or any. The server's signature is always verified, so the server must
/// have the private key.
#[derive(Debug)]
struct FingerprintVerifier {
    fingerprint: Option<[u8; 32]>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for FingerprintVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.fingerprint {
            Some(known) if known != fingerprint(end_entity) => {
                Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_parse_with_or_without_colons() {
        let plain = "00ff".repeat(16);
        let colons = ["00:FF"; 16].join(":");
        for text in [&plain, &colons] {
            let Ok(Trust::Fingerprint(bytes)) = Trust::fingerprint(text) else { panic!("{text}") };
            assert_eq!(bytes[..4], [0, 255, 0, 255]);
        }
        for text in ["", "00ff", &"0g".repeat(32), &"0".repeat(63), &"é".repeat(32)] {
            assert_eq!(Trust::fingerprint(text).unwrap_err(), TrustError::Fingerprint(text.to_owned()));
        }
    }

    #[test]
    fn invalid_pem_is_refused() {
        assert!(Trust::certificate("hello").is_err());
        assert!(Trust::authorities("").is_err());
    }
}
