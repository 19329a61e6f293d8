//! Configuration of a session: names, credentials, and the keys to offer (RFC 7143 13).

use crate::url::{Credentials, Portal, Url};
use iscsi::initiator_connection::{ChapIdentity, InitiatorLoginConfig, MutualChap};
use iscsi::{ChapSecret, Digests, Parameters};
use std::time::Duration;

/// Longest data segment to accept, in bytes: a whole burst of most targets in a moderate buffer.
const MAX_RECEIVE_SEGMENT: u32 = 262_144;
/// Most R2Ts outstanding at once.
const MAX_OUTSTANDING_R2T: u16 = 16;
/// Length of a CHAP challenge in bytes, that of the longest hash (RFC 7143 12.1.3).
const CHALLENGE_BYTES: usize = 32;

/// The configuration of a session.
#[derive(Clone, Debug)]
pub struct InitiatorConfig {
    /// Portal to connect to.
    pub portal: Portal,
    /// TargetName; empty for discovery.
    pub target: String,
    /// InitiatorName.
    pub initiator: String,
    /// The initiator's CHAP credentials, used if the target requires CHAP.
    pub credentials: Option<Credentials>,
    /// CHAP credentials that the target must present (mutual CHAP).
    pub target_credentials: Option<Credentials>,
    /// Offer CHAP with MD5 only: tgt interprets the number of SHA-256 as SHA-1.
    pub chap_md5: bool,
    /// Digests to request. A target may decline them.
    pub digests: Digests,
    /// ImmediateData (RFC 7143 13.11).
    pub immediate_data: bool,
    /// InitialR2T (RFC 7143 13.10).
    pub initial_r2t: bool,
    /// FirstBurstLength in bytes (RFC 7143 13.14).
    pub first_burst: u32,
    /// MaxBurstLength in bytes (RFC 7143 13.13).
    pub max_burst: u32,
    /// Timeout for the connection and login together.
    pub login_timeout: Duration,
}

impl InitiatorConfig {
    /// Creates the configuration for `url`. Data is sent as early as the target allows.
    pub fn new(initiator: &str, url: &Url) -> Self {
        Self {
            portal: url.portal.clone(),
            target: url.target.clone(),
            initiator: initiator.to_owned(),
            credentials: url.credentials.clone(),
            target_credentials: url.target_credentials.clone(),
            chap_md5: false,
            digests: Digests::default(),
            immediate_data: true,
            initial_r2t: false,
            first_burst: 262_144,
            max_burst: 1 << 20,
            login_timeout: Duration::from_secs(15),
        }
    }

    /// Creates the login of one session. Each session has its own ISID, so that one host can have
    /// several.
    pub(crate) fn login(&self) -> std::io::Result<InitiatorLoginConfig> {
        // RFC 7143 11.12.5: T field 10b, random: bytes 1 to 3 are a random number, 4 and 5 a
        // qualifier.
        let [a, b, c, d, e] = platform::random::bytes::<5>()?;
        let target = (!self.target.is_empty()).then(|| self.target.clone());
        Ok(InitiatorLoginConfig {
            initiator: self.initiator.clone(),
            initiator_alias: None,
            target,
            isid: [0x80, a, b, c, d, e],
            cid: 1,
            offer: Parameters {
                digests: self.digests,
                immediate_data: self.immediate_data,
                initial_r2t: self.initial_r2t,
                first_burst_length: self.first_burst.min(self.max_burst),
                max_burst_length: self.max_burst,
                max_receive_segment: MAX_RECEIVE_SEGMENT,
                max_outstanding_r2t: MAX_OUTSTANDING_R2T,
                ..Parameters::default()
            },
            chap: self.chap()?,
        })
    }

    fn chap(&self) -> std::io::Result<Option<ChapIdentity>> {
        let Some(own) = &self.credentials else { return Ok(None) };
        let mutual = match &self.target_credentials {
            Some(target) => Some(MutualChap {
                user: Some(target.user.clone()),
                secret: ChapSecret::new(target.secret.clone()),
                identifier: platform::random::bytes::<1>()?[0],
                challenge: platform::random::bytes::<CHALLENGE_BYTES>()?.to_vec(),
            }),
            None => None,
        };
        let secret = ChapSecret::new(own.secret.clone());
        Ok(Some(ChapIdentity { user: own.user.clone(), secret, md5_only: self.chap_md5, mutual }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_burst_is_limited_to_max_burst() {
        let url: Url = "iscsi://h/iqn.2026-11.test:t/0".parse().unwrap();
        let config = InitiatorConfig {
            first_burst: 262_144,
            max_burst: 65_536,
            ..InitiatorConfig::new("iqn.2026-11.test:i", &url)
        };
        assert_eq!(config.login().unwrap().offer.first_burst_length, 65_536);
    }

    #[test]
    fn sessions_get_distinct_isids_and_challenges() {
        let url: Url = "iscsi://u%p@h/iqn.2026-11.test:t/0?target_user=x&target_password=y".parse().unwrap();
        let config = InitiatorConfig::new("iqn.2026-11.test:i", &url);
        let (one, two) = (config.login().unwrap(), config.login().unwrap());
        assert_eq!(one.isid[0], 0x80);
        assert_ne!(one.isid, two.isid);
        let challenge = |login: InitiatorLoginConfig| login.chap.unwrap().mutual.unwrap().challenge;
        assert_ne!(challenge(one), challenge(two));
    }

    #[test]
    fn url_without_target_means_discovery() {
        let url: Url = "iscsi://h".parse().unwrap();
        assert_eq!(InitiatorConfig::new("iqn.2026-11.test:i", &url).login().unwrap().target, None);
    }
}
