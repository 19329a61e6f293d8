//! Who may log in: the catalogue's answers to the login phase.

use crate::shared::Shared;
use iscsi::{Authentication, ChapAccount, ChapSecret, LoginAuthority, LoginStatus, SessionKind, SessionRequest};
use std::sync::Arc;

/// The login phase's view of the array.
pub(crate) struct Authority {
    shared: Arc<Shared>,
    /// The system had no random bytes: a challenge may be predictable, so nobody is admitted.
    has_no_chance: bool,
}

impl Authority {
    /// The authority for one login.
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone(), has_no_chance: false }
    }
}

impl LoginAuthority for Authority {
    /// An initiator that belongs to no host may ask which targets there are, and nothing more.
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
        const PIECE: usize = 32;
        for piece in bytes.chunks_mut(PIECE) {
            match platform::random::bytes::<PIECE>() {
                Ok(random) => piece.copy_from_slice(&random[..piece.len()]),
                Err(_) => self.has_no_chance = true,
            }
        }
    }

    /// A session of the same name ends when the connection takes its seat, before the login is answered.
    fn admit(&mut self, request: &SessionRequest) -> Result<u16, LoginStatus> {
        match request.tsih {
            _ if self.has_no_chance => Err(LoginStatus::OutOfResources),
            0 => Ok(self.shared.next_tsih()),
            // Sessions have one connection, and none that is lost can be reinstated at error recovery level 0.
            _ => Err(LoginStatus::SessionDoesNotExist),
        }
    }
}
