//! Connection, login and discovery.

use super::{Answer, READ_BYTES, SLICES, Session};
use crate::config::InitiatorConfig;
use crate::error::{ConnectError, SessionError};
use crate::url::Portal;
use bytes::{Buf, BytesMut};
use iscsi::Output;
use iscsi::initiator_connection::{InitiatorConnection, InitiatorLogin, InitiatorLoginProgress, LoginError};
use iscsi::target_connection::{SendTargets, TargetRecord};
use platform::net::Stream;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::task::ready;

/// Most redirections to follow (RFC 7143 11.13.5, class 1).
const MAX_REDIRECTIONS: u32 = 3;

impl Session {
    /// Connects and logs in; follows redirections.
    pub async fn connect(config: &InitiatorConfig) -> Result<Self, ConnectError> {
        let mut portal = config.portal.clone();
        for _ in 0..MAX_REDIRECTIONS {
            let attempt = Self::log_in(config, &portal);
            let result = tokio::time::timeout(config.login_timeout, attempt).await;
            match result.map_err(|_| ConnectError::Timeout { portal: portal.clone() })? {
                Err(ConnectError::Login { error: LoginError::Moved(address), .. }) => {
                    portal = redirected(&address)
                        .ok_or(ConnectError::Login { portal, error: LoginError::Moved(address) })?;
                }
                result => return result,
            }
        }
        Err(ConnectError::Login { portal, error: LoginError::Protocol("too many redirections") })
    }

    /// Lists the targets of the portal with a discovery session (RFC 7143 4.3).
    pub async fn discover(config: &InitiatorConfig) -> Result<Vec<TargetRecord>, ConnectError> {
        let config = InitiatorConfig { target: String::new(), ..config.clone() };
        let mut session = Self::connect(&config).await?;
        let ended = |error| ConnectError::Session { portal: config.portal.clone(), error };
        let targets = session.send_targets(&SendTargets::All).await.map_err(ended)?;
        // The list has arrived; a failed logout does not matter.
        let _ = session.logout().await;
        Ok(targets)
    }

    /// Requests a list of targets.
    pub async fn send_targets(&mut self, scope: &SendTargets) -> Result<Vec<TargetRecord>, SessionError> {
        let request = self.connection.send_targets(scope);
        loop {
            let found = self.take_answer(|answer| match answer {
                Answer::Targets(id, targets) if *id == request => Some(targets.clone()),
                _ => None,
            });
            match found {
                Some(targets) => return Ok(targets),
                None => self.make_progress().await?,
            }
        }
    }

    async fn log_in(config: &InitiatorConfig, portal: &Portal) -> Result<Self, ConnectError> {
        let address = portal.resolve().map_err(|error| ConnectError::Resolve { portal: portal.clone(), error })?;
        let lost = |error| ConnectError::Lost { portal: portal.clone(), error };
        let mut stream =
            Stream::connect(address).await.map_err(|error| ConnectError::Connect { portal: portal.clone(), error })?;
        // Data of a dropped session must not reach the target later.
        stream.abort_when_dropped().map_err(lost)?;
        let (mut input, mut output) = (BytesMut::with_capacity(READ_BYTES), Output::default());
        let mut login = InitiatorLogin::start(config.login().map_err(ConnectError::Random)?, &mut output);
        loop {
            send(&mut stream, &mut output).await.map_err(lost)?;
            input.reserve(READ_BYTES);
            if stream.read(&mut input).await.map_err(lost)? == 0 {
                return Err(lost(ErrorKind::UnexpectedEof.into()));
            }
            match login.receive(&mut input, &mut output) {
                InitiatorLoginProgress::Pending => {}
                InitiatorLoginProgress::Failed(error) => {
                    return Err(ConnectError::Login { portal: portal.clone(), error });
                }
                InitiatorLoginProgress::Established(established) => {
                    return Ok(Self {
                        stream,
                        connection: InitiatorConnection::new(&established, output),
                        parameters: established.parameters,
                        input,
                        events: Vec::new(),
                        open: FxHashMap::default(),
                        done: VecDeque::new(),
                        answers: Vec::new(),
                        ended: None,
                    });
                }
            }
        }
    }
}

/// Writes all of `output`.
async fn send(stream: &mut Stream, output: &mut Output) -> io::Result<()> {
    poll_fn(|context| {
        while !output.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = output.chunks_vectored(&mut slices);
            let written = ready!(stream.poll_write(context, &slices[..count]))?;
            if written == 0 {
                return Err(io::Error::from(ErrorKind::WriteZero)).into();
            }
            output.advance(written);
        }
        Ok(()).into()
    })
    .await
}

/// Parses the portal of a TargetAddress, `host[:port][,portal-group-tag]` (RFC 7143 13.8).
fn redirected(address: &str) -> Option<Portal> {
    let address = address.split(',').next()?;
    let url: crate::url::Url = format!("iscsi://{address}").parse().ok()?;
    Some(url.portal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_address_parses_as_a_portal() {
        let portal = |host: &str, port| Some(Portal { host: host.to_owned(), port });
        assert_eq!(redirected("10.0.0.7:3261,1"), portal("10.0.0.7", 3261));
        assert_eq!(redirected("array.example"), portal("array.example", 3260));
        assert_eq!(redirected("[fe80::1]:3260,2"), portal("fe80::1", 3260));
        assert_eq!(redirected(""), None);
    }
}
