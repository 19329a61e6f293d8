//! Forms of addresses and certificates.

use hyper::Uri;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::Ipv6Addr;

/// Parses `HOST` or `HOST:PORT`. A host is a name, an IPv4 address, or an IPv6 address, which has
/// brackets before a port. Returns it without brackets.
pub fn host_and_port(text: &str, default_port: u16) -> Option<(String, u16)> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some((address.to_string(), default_port));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port.parse().ok()?),
        Some((_, _)) if !text.ends_with(']') => return None,
        _ => (text, default_port),
    };
    if port == 0 {
        return None;
    }
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return Some((address.parse::<Ipv6Addr>().ok()?.to_string(), port));
    }
    let is_label = |label: &str| {
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && ends(label.bytes().next())
            && ends(label.bytes().last())
    };
    let is_host = host.len() <= 253 && host.split('.').all(is_label);
    is_host.then(|| (host.to_owned(), port))
}

/// Returns whether the text is a mail address.
pub fn check_mail_address(text: &str) -> bool {
    text.is_ascii() && text.parse::<lettre::Address>().is_ok()
}

/// Returns whether the text is an absolute URL with `https`, and without a user.
pub fn check_url(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let authority = uri.authority().is_some_and(|authority| {
        !authority.as_str().contains('@') && host_and_port(authority.as_str(), HTTPS_PORT).is_some()
    });
    uri.scheme_str() == Some("https") && authority
}

/// Default port of HTTPS.
pub(crate) const HTTPS_PORT: u16 = 443;

/// Returns whether the text has certificates of authorities, in PEM, and all of them are readable.
pub fn check_certificates(pem: &str) -> bool {
    roots(pem).is_some()
}

/// Returns the authorities of a text in PEM, or `None` if there is none or one is not readable.
pub(crate) fn roots(pem: &str) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.ok()?).ok()?;
    }
    (!roots.is_empty()).then_some(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_parsed_strictly() {
        for (text, host, port) in [
            ("loghost", "loghost", 514),
            ("log.example.org:6514", "log.example.org", 6514),
            ("192.0.2.1:1", "192.0.2.1", 1),
            ("2001:db8::1", "2001:db8::1", 514),
            ("[2001:db8::1]", "2001:db8::1", 514),
            ("[2001:db8::1]:7", "2001:db8::1", 7),
        ] {
            assert_eq!(host_and_port(text, 514), Some((host.to_owned(), port)), "{text}");
        }
        for text in ["", ":1", "a:0", "a:65536", "a:b", "a b", "-a", "a..b", "[::1", "[x]:1", "user@a", "a/b", "a:1:2"]
        {
            assert_eq!(host_and_port(text, 514), None, "{text}");
        }
    }

    #[test]
    fn urls_and_mail_addresses_are_checked() {
        assert!(check_url("https://chat.example.org/hook?x=1") && check_url("https://[::1]:8443/"));
        for wrong in ["http://a/", "https://", "a", "https://user:word@a/", "https://a:0/", "ftp://a/", "https:///x"] {
            assert!(!check_url(wrong), "{wrong}");
        }
        assert!(check_mail_address("ops@example.org"));
        for wrong in ["ops", "ops@", "@example.org", "a b@example.org", "a@b\r\nRCPT TO:<x@y>"] {
            assert!(!check_mail_address(wrong), "{wrong}");
        }
        for wrong in ["", "text", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(!check_certificates(wrong), "{wrong}");
        }
    }
}
