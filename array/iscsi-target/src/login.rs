//! Login authorization: checks initiators against the catalog during the login phase.

use crate::nexus::ids::InitiatorPort;
use crate::shared::Shared;
use crate::slots::ConnectionSlot;
use iscsi::{Authentication, ChapAccount, ChapSecret, LoginAuthority, LoginStatus, SessionKind, SessionRequest};
use std::sync::Arc;

/// Decides on one login.
pub(crate) struct Authority {
    shared: Arc<Shared>,
    slot: Arc<ConnectionSlot>,
    /// The system returned no random bytes. The challenge may be predictable, so the login is
    /// refused.
    has_random_failed: bool,
}

impl Authority {
    /// Creates the authority for one login.
    pub(crate) fn new(shared: &Arc<Shared>, slot: &Arc<ConnectionSlot>) -> Self {
        Self { shared: shared.clone(), slot: slot.clone(), has_random_failed: false }
    }
}

impl LoginAuthority for Authority {
    /// An initiator that belongs to no host may open a discovery session only.
    fn authentication(&mut self, initiator: &str, kind: &SessionKind) -> Result<Authentication, LoginStatus> {
        if kind.target().is_some_and(|target| !target.eq_ignore_ascii_case(&self.shared.catalog.target_iqn())) {
            return Err(LoginStatus::NotFound);
        }
        let Some(chap) = self.shared.catalog.chap(initiator) else {
            return match kind {
                SessionKind::Discovery => Ok(Authentication::None),
                SessionKind::Normal { .. } => Err(LoginStatus::AuthorizationFailure),
            };
        };
        let Some((user, secret)) = chap.host else { return Ok(Authentication::None) };
        let in_clear = |secret: &catalog::Secret| ChapSecret::new(secret.expose().as_bytes().to_vec());
        Ok(Authentication::Chap(ChapAccount {
            user,
            secret: in_clear(&secret),
            mutual: chap.target.map(|(name, secret)| (name, in_clear(&secret))),
        }))
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

    /// An earlier session of the same initiator port is closed later, when the new one is
    /// registered, before the login is answered.
    fn admit(&mut self, request: &SessionRequest) -> Result<u16, LoginStatus> {
        match request.tsih {
            _ if self.has_random_failed => Err(LoginStatus::OutOfResources),
            0 => {
                let port = InitiatorPort { iqn: request.initiator.to_ascii_lowercase(), isid: request.isid };
                let replaces = self.shared.registry.is_registered(&port);
                if request.kind != SessionKind::Discovery && !self.slot.admit_session(&port.iqn, replaces) {
                    return Err(LoginStatus::OutOfResources);
                }
                Ok(self.shared.next_tsih())
            }
            // Sessions have one connection, and error recovery level 0 cannot reinstate a lost one.
            _ => Err(LoginStatus::SessionDoesNotExist),
        }
    }
}
