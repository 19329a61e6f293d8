//! Login authorization: checks initiators against the catalog during the login phase.

use crate::nexus::ids::{InitiatorPort, NexusName};
use crate::shared::Shared;
use crate::slots::ConnectionSlot;
use catalog::Secret;
use iscsi::{Authentication, ChapAccount, ChapSecret, LoginAuthority, LoginStatus, SessionKind, SessionRequest};
use std::sync::Arc;

/// Decides on one login.
pub(crate) struct Authority {
    shared: Arc<Shared>,
    slot: Arc<ConnectionSlot>,
    /// Relative identifier of the target port.
    target_port: u16,
    /// The system returned no random bytes. The challenge may be predictable, so the login is
    /// refused.
    has_random_failed: bool,
}

impl Authority {
    /// Creates the authority for one login.
    pub(crate) fn new(shared: &Arc<Shared>, slot: &Arc<ConnectionSlot>, target_port: u16) -> Self {
        Self { shared: shared.clone(), slot: slot.clone(), target_port, has_random_failed: false }
    }
}

impl Authority {
    /// Counts an attempt to authenticate. Fails if there were too many.
    fn begin_chap(&self, initiator: &str) -> Result<(), LoginStatus> {
        let now = platform::clock::now();
        match self.shared.login_limit.begin(now, self.slot.source(), initiator) {
            true => Ok(()),
            false => Err(LoginStatus::AuthenticationFailure),
        }
    }

    /// Returns true if any host has a CHAP secret.
    fn is_chap_used(&self) -> bool {
        self.shared.catalog.state().hosts().any(|host| host.chap.host.is_some())
    }

    /// Returns an account that no one knows, so that an unknown name gets the answers of a known
    /// one.
    fn unknown_account(&mut self) -> Result<Authentication, LoginStatus> {
        let mut secret = vec![0; 32];
        self.fill_random(&mut secret);
        let user = String::new();
        Ok(Authentication::Chap(ChapAccount { user, secret: ChapSecret::new(secret), mutual: None }))
    }
}

/// Returns the nexus of a login at a target port.
pub(crate) fn nexus_of(request: &SessionRequest, target_port: u16) -> NexusName {
    let initiator = InitiatorPort { iqn: request.initiator.to_ascii_lowercase(), isid: request.isid };
    NexusName { initiator, target_port }
}

impl LoginAuthority for Authority {
    /// An initiator that belongs to no host may open a discovery session only.
    fn authentication(&mut self, initiator: &str, kind: &SessionKind) -> Result<Authentication, LoginStatus> {
        if kind.target().is_some_and(|target| !target.eq_ignore_ascii_case(&self.shared.catalog.target_iqn())) {
            return Err(LoginStatus::NotFound);
        }
        let Some(chap) = self.shared.catalog.chap(initiator) else {
            if self.is_chap_used() {
                self.begin_chap(initiator)?;
                return self.unknown_account();
            }
            return match kind {
                SessionKind::Discovery => Ok(Authentication::None),
                SessionKind::Normal { .. } => Err(LoginStatus::AuthorizationFailure),
            };
        };
        let Some((user, secret)) = chap.host else { return Ok(Authentication::None) };
        self.begin_chap(initiator)?;
        let in_clear = |secret: &Secret| secret.expose().map(|secret| ChapSecret::new(secret.as_bytes().to_vec()));
        let mutual = chap.target.map(|(name, secret)| Some((name, in_clear(&secret)?)));
        match (in_clear(&secret), mutual) {
            (Some(secret), None) => Ok(Authentication::Chap(ChapAccount { user, secret, mutual: None })),
            (Some(secret), Some(Some(own))) => {
                Ok(Authentication::Chap(ChapAccount { user, secret, mutual: Some(own) }))
            }
            // The key of a secret is missing.
            _ => self.unknown_account(),
        }
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        const CHUNK: usize = 32;
        for chunk in bytes.chunks_mut(CHUNK) {
            match platform::random::bytes::<CHUNK>() {
                Ok(random) => chunk.copy_from_slice(&random[..chunk.len()]),
                Err(_) => self.has_random_failed = true,
            }
        }
    }

    /// An earlier session of the same nexus is closed later, when the new one is
    /// registered, before the login is answered.
    fn admit(&mut self, request: &SessionRequest) -> Result<u16, LoginStatus> {
        match request.tsih {
            _ if self.has_random_failed => Err(LoginStatus::OutOfResources),
            0 => {
                if request.user.is_some() {
                    self.shared.login_limit.succeeded(self.slot.source(), &request.initiator);
                }
                let nexus = nexus_of(request, self.target_port);
                let replaces = self.shared.registry.tsih(&nexus).is_some();
                let iqn = &nexus.initiator.iqn;
                let is_wildcard = !self.shared.catalog.state().lists_initiator(iqn);
                if request.kind != SessionKind::Discovery && !self.slot.admit_session(iqn, is_wildcard, replaces) {
                    return Err(LoginStatus::OutOfResources);
                }
                Ok(self.shared.next_tsih())
            }
            // Sessions have one connection (MaxConnections=1).
            tsih if self.shared.registry.tsih(&nexus_of(request, self.target_port)) == Some(tsih) => {
                Err(LoginStatus::TooManyConnections)
            }
            // Error recovery level 0 cannot reinstate a connection that was lost.
            _ => Err(LoginStatus::SessionDoesNotExist),
        }
    }
}
