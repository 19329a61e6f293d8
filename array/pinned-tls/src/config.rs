//! The settings of both sides. Both present a certificate; no authority signs it.
//!
//! TLS proves that the peer has the key of its certificate. A client that knows the other side
//! accepts only its certificate. A server compares the certificate after the handshake, so that it
//! can answer an unknown one in words.

use crate::identity::{CERTIFICATE_NAME, Fingerprint, TlsIdentity, fingerprint};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};
use std::sync::Arc;

/// Accepts one certificate, or all.
#[derive(Debug)]
struct Verifier {
    pinned: Option<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        match self.pinned.is_none_or(|pinned| pinned == fingerprint(certificate)) {
            true => Ok(()),
            false => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// TLS 1.2 is not offered.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("only TLS 1.3 is used".to_owned()))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(certificate).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(certificate).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

/// Returns the settings of a client of an application protocol (ALPN), or of none if it is empty,
/// that accepts only the `pinned` certificate, or any if the two meet for the first time.
///
/// # Errors
///
/// TLS refuses the own certificate.
pub fn client(
    identity: &TlsIdentity,
    protocol: &[u8],
    pinned: Option<Fingerprint>,
) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Verifier { pinned, provider: provider.clone() });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(vec![identity.certificate.clone()], identity.key.clone_key())?;
    config.alpn_protocols = Some(protocol.to_vec()).filter(|protocol| !protocol.is_empty()).into_iter().collect();
    // Every session proves both certificates.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Returns the settings of a server of an application protocol. The caller compares the certificate
/// of the client.
///
/// # Errors
///
/// TLS refuses the own certificate.
pub fn server(identity: &TlsIdentity, protocol: &[u8]) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Verifier { pinned: None, provider: provider.clone() });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![identity.certificate.clone()], identity.key.clone_key())?;
    config.alpn_protocols = vec![protocol.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Returns the name that a client asks for. An error would be a fault of this crate's constant.
pub fn server_name() -> Result<ServerName<'static>, Error> {
    ServerName::try_from(CERTIFICATE_NAME).map_err(|error| Error::General(error.to_string()))
}
