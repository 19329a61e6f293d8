//! Web hooks: JSON over HTTPS, signed as in the Standard Webhooks specification 1.0.
//!
//! `webhook-signature` is the HMAC-SHA256 of `ID.TIMESTAMP.BODY`. With it, a receiver recognizes
//! the array's notices, and refuses repeated ones.

use crate::address::HTTPS_PORT;
use crate::error::LOCKED;
use crate::tls::connect_tls;
use crate::{Notice, SendError, host_and_port};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use catalog::WebHook;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use ring::hmac::{self, HMAC_SHA256};
use serde_json::json;
use std::io;

/// Begins every secret.
pub const SECRET_PREFIX: &str = "whsec_";
/// Valid lengths of the key in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Returns a new secret, with 256 random bits.
pub fn new_secret() -> io::Result<String> {
    Ok(format!("{SECRET_PREFIX}{}", BASE64_STANDARD.encode(platform::random::bytes::<32>()?)))
}

/// Returns whether the text is a secret: `whsec_` and base64 of 24 to 64 bytes.
pub fn check_secret(text: &str) -> bool {
    key(text).is_some()
}

fn key(secret: &str) -> Option<Vec<u8>> {
    let bytes = BASE64_STANDARD.decode(secret.strip_prefix(SECRET_PREFIX)?).ok()?;
    KEY_BYTES.contains(&bytes.len()).then_some(bytes)
}

/// Sends the notice to one web hook. `now_ms` is the time of the attempt.
pub(crate) async fn send(hook: &WebHook, notice: &Notice, now_ms: u64) -> Result<(), SendError> {
    let wrong = SendError::Setting("the URL of the web hook is not valid");
    let uri: Uri = hook.url.parse().map_err(|_| SendError::Setting("the URL of the web hook is not valid"))?;
    let authority = uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
    let (host, port) = host_and_port(&authority, HTTPS_PORT).ok_or(wrong)?;
    let request = request(hook, &uri, &authority, notice, now_ms)?;
    let stream = connect_tls(&host, port, hook.ca_certificate.as_deref()).await?;
    let failed = |error: hyper::Error| SendError::Http(error.to_string());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let mut connection = std::pin::pin!(connection);
    let mut response = std::pin::pin!(sender.send_request(request));
    // Some servers close the connection with the answer, and without the end of TLS. The answer
    // counts. Its body is not read. A redirection is an error, because the notice would go to an
    // address that no administrator chose.
    let response = tokio::select! {
        response = response.as_mut() => response,
        _ = connection.as_mut() => response.await,
    };
    let response = response.map_err(failed)?;
    match response.status() {
        status if status.is_success() => Ok(()),
        status => Err(SendError::Status(status.as_u16())),
    }
}

fn request(
    hook: &WebHook,
    uri: &Uri,
    authority: &str,
    notice: &Notice,
    now_ms: u64,
) -> Result<Request<Full<Bytes>>, SendError> {
    let body = body(notice);
    let (id, seconds) = (notice.id(), now_ms / 1000);
    let key = key(hook.secret.expose().ok_or(LOCKED)?).ok_or(SendError::Setting("its secret is not valid"))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Request::post(path)
        .header(header::HOST, authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "ibid")
        .header("webhook-id", &id)
        .header("webhook-timestamp", seconds)
        .header("webhook-signature", signature(&key, &id, seconds, &body))
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| SendError::Http(error.to_string()))
}

fn body(notice: &Notice) -> String {
    json!({
        "type": format!("alert.{}", notice.event.name()),
        "timestamp": types::utc_time(notice.at_ms),
        "data": {
            "array": {"id": notice.array_id, "name": notice.array},
            "alert": notice.alert,
        },
    })
    .to_string()
}

fn signature(key: &[u8], id: &str, seconds: u64, body: &str) -> String {
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, key), format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", BASE64_STANDARD.encode(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_matches_the_published_example() {
        // The example of the Standard Webhooks libraries.
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signed = signature(&key, id, 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_have_a_prefix_and_a_length() {
        assert!(check_secret(&new_secret().unwrap()));
        for wrong in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_not base64 not base64"]
        {
            assert!(!check_secret(wrong), "{wrong}");
        }
    }
}
