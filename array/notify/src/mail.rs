//! Mail over SMTP (RFC 5321).

use crate::error::LOCKED;
use crate::{Notice, SendError, host_and_port};
use catalog::{MailEncryption, MailServer};
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, SmtpTransport, Transport};
use std::time::Duration;

/// Maximum time for each answer of the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Default port of a mail server, for STARTTLS as well.
pub const SMTP_PORT: u16 = 25;
/// Default port for TLS from the first byte (RFC 8314 3.3).
pub const SMTPS_PORT: u16 = 465;

/// Sends the notice to one address, on a thread that may block.
pub(crate) async fn send(server: &MailServer, to: &str, notice: &Notice) -> Result<(), SendError> {
    let mail = compose(server, to, notice)?;
    let transport = transport(server)?;
    let sent = tokio::task::spawn_blocking(move || transport.send(&mail)).await;
    match sent {
        Ok(sent) => sent.map(drop).map_err(|error| SendError::Mail(error.to_string())),
        Err(error) => Err(SendError::Mail(error.to_string())),
    }
}

fn compose(server: &MailServer, to: &str, notice: &Notice) -> Result<Message, SendError> {
    let domain = server.sender_domain.as_deref().ok_or(SendError::Setting("the mail server has no sender domain"))?;
    let user = server.sender_username.as_deref().unwrap_or(&notice.array);
    let sender = Address::new(user, domain).map_err(|_| SendError::Setting("the sender is not a mail address"))?;
    let to = to.parse::<Address>().map_err(|_| SendError::Setting("the recipient is not a mail address"))?;
    let prefix = server.subject_prefix.iter().map(|prefix| format!("{prefix} ")).collect::<String>();
    let subject = format!("{prefix}{}: {}", notice.array, notice.line());
    let first = server.body_prefix.iter().map(|prefix| format!("{prefix}\n\n")).collect::<String>();
    Message::builder()
        .from(Mailbox::new(Some(format!("Ibid array {}", notice.array)), sender))
        .to(Mailbox::new(None, to))
        .subject(subject)
        .message_id(Some(format!("<{}@{domain}>", notice.id())))
        .header(ContentType::TEXT_PLAIN)
        .body(format!("{first}{}", notice.text()))
        .map_err(|error| SendError::Mail(error.to_string()))
}

fn transport(server: &MailServer) -> Result<SmtpTransport, SendError> {
    let relay = server.relay_host.as_deref().ok_or(SendError::Setting("no mail server is set"))?;
    let default_port = if server.encryption == Some(MailEncryption::Tls) { SMTPS_PORT } else { SMTP_PORT };
    let wrong = SendError::Setting("the mail server is not HOST or HOST:PORT");
    let (host, port) = host_and_port(relay, default_port).ok_or(wrong)?;
    let tls = match server.encryption {
        None => Tls::None,
        Some(MailEncryption::StartTls) => Tls::Required(parameters(&host, server.ca_certificate.as_deref())?),
        Some(MailEncryption::Tls) => Tls::Wrapper(parameters(&host, server.ca_certificate.as_deref())?),
    };
    let builder = SmtpTransport::builder_dangerous(host).port(port).tls(tls);
    let mut builder = builder.timeout(Some(ANSWER_TIMEOUT));
    if let Some(domain) = &server.sender_domain {
        builder = builder.hello_name(ClientId::Domain(domain.clone()));
    }
    if let Some(user) = &server.user_name {
        let password = server.password.as_ref().map_or(Some(""), |password| password.expose()).ok_or(LOCKED)?;
        builder = builder.credentials(Credentials::new(user.clone(), password.to_owned()));
    }
    Ok(builder.build())
}

fn parameters(host: &str, ca: Option<&str>) -> Result<TlsParameters, SendError> {
    let failed = |error: lettre::transport::smtp::Error| SendError::Mail(error.to_string());
    let mut builder = TlsParameters::builder(host.to_owned());
    builder = match ca {
        Some(pem) => builder
            .certificate_store(CertificateStore::None)
            .add_root_certificate(Certificate::from_pem(pem.as_bytes()).map_err(failed)?),
        None => builder.certificate_store(CertificateStore::WebpkiRoots),
    };
    builder.build().map_err(failed)
}
