//! The certificate of an array on its links, in the array's directory.

use pinned_tls::IdentityNames;

/// The files of the certificate.
pub(crate) const NAMES: IdentityNames =
    IdentityNames { certificate: "link.pem", key: "link.key", subject: "Ibid array link" };
/// The files of the links in the array's directory.
pub const IDENTITY_FILES: [&str; 3] = [NAMES.certificate, NAMES.key, crate::store::FILE];
/// The application protocol. Versions of it are a matter of `Hello`.
pub(crate) const PROTOCOL: &[u8] = b"ibid-link";
