//! One connection: its socket, its clock, its login, and then its session's turns.
//!
//! A turn takes everything that has arrived, parses all PDUs of it, submits all their operations, tells the engine that
//! the batch has ended, collects what it has answered meanwhile, and sends all answers with one gathering write.

use crate::login::Authority;
use crate::nexus::{InitiatorPort, Nexus};
use crate::session::Session;
use crate::shared::{PORTAL_GROUP, RELATIVE_PORT, Shared};
use bytes::{Buf, BytesMut};
use iscsi::target_connection::{ConnectionLimits, TargetConnection};
use iscsi::{Established, LoginConfig, LoginProgress, Output, Parameters, SessionKind, TargetLogin};
use platform::net::Stream;
use scsi::inquiry::vpd::MAX_TRANSFER_BLOCKS;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::Sleep;
use types::LBA_BYTES;

/// Room for one read at first; doubled, up to the larger value, each time a read fills it.
const FIRST_READ_BYTES: usize = 16 << 10;
const MAX_READ_BYTES: usize = 256 << 10;
/// Slices of one gathering write: a batch of 32 reads has 64.
const SLICES: usize = 128;
/// How long a connection that is being closed may take to send what is left.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// Why a connection has ended, when it was not the initiator's wish.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("the initiator has closed the connection without logging out")]
    EndOfStream,
    #[error("login refused: {0}")]
    Refused(#[from] iscsi::LoginRefusal),
    #[error("no login within {0:?}")]
    LoginTimeout(Duration),
    #[error("{0}")]
    Closed(String),
}

/// What a wait was ended by.
#[derive(Default)]
struct Woken {
    has_input: bool,
    has_letters: bool,
    has_room: bool,
    has_tick: bool,
    is_closed: bool,
}

struct Connection {
    stream: Stream,
    input: BytesMut,
    read_bytes: usize,
    timer: Pin<Box<Sleep>>,
    last_heard: Instant,
    /// A ping is out and nothing has come since.
    is_pinged: bool,
    /// The socket has taken bytes since the timer was set.
    has_sent: bool,
}

/// Serves one connection from its first byte to its end.
pub(crate) async fn serve(shared: Arc<Shared>, stream: Stream, peer: SocketAddr) {
    let timer = Box::pin(tokio::time::sleep(shared.config.login_timeout));
    let connection = Connection {
        stream,
        input: BytesMut::new(),
        read_bytes: FIRST_READ_BYTES,
        timer,
        last_heard: platform::clock::now(),
        is_pinged: false,
        has_sent: false,
    };
    if let Err(ended) = connection.run(&shared).await
        && let Some(withheld) = shared.complaints.admit(platform::clock::now())
    {
        tracing::info!(%peer, withheld, "iSCSI connection ended: {ended}");
    }
}

impl Connection {
    async fn run(mut self, shared: &Arc<Shared>) -> Result<(), Ended> {
        let local = self.stream.local_addr()?;
        let mut stopped = shared.stop.subscribe();
        let (established, output) = tokio::select! {
            login = self.login(shared) => login?,
            _ = stopped.wait_for(|is_stopped| *is_stopped) => return Ok(()),
        };
        let mut session = self.take_seat(shared, &established, output, local).await;
        let result = self.turns(shared, &mut session).await;
        // The socket goes first: the initiator need not wait until the engine has ended what is under way.
        drop(self);
        session.drain().await;
        result
    }

    /// The login phase, within its time.
    async fn login(&mut self, shared: &Arc<Shared>) -> Result<(Established, Output), Ended> {
        let config = LoginConfig {
            portal_group_tag: PORTAL_GROUP,
            target_alias: None,
            offer: Parameters::offer_of_target(),
            command_window: shared.config.queue_depth,
        };
        let mut login = TargetLogin::new(config);
        let mut authority = Authority::new(shared);
        let mut output = Output::default();
        loop {
            let progress = login.receive(&mut self.input, &mut authority, &mut output);
            if let LoginProgress::Established(established) = progress {
                // The last answer is sent with the session's first ones, after its predecessor of the same name has ended.
                return Ok((*established, output));
            }
            let is_refused = matches!(progress, LoginProgress::Refused(_));
            let woken = poll_fn(|context| self.poll_login(context, &mut output, is_refused)).await?;
            match progress {
                LoginProgress::Refused(refusal) if woken.is_closed => return Err(refusal.into()),
                _ if woken.has_tick => return Err(Ended::LoginTimeout(shared.config.login_timeout)),
                _ => {}
            }
        }
    }

    fn poll_login(
        &mut self,
        context: &mut Context<'_>,
        output: &mut Output,
        is_closing: bool,
    ) -> Poll<Result<Woken, Ended>> {
        self.poll_output(context, output)?;
        let mut woken = Woken { is_closed: is_closing && output.is_empty(), ..Woken::default() };
        woken.has_tick = self.timer.as_mut().poll(context).is_ready();
        woken.has_input = !is_closing && self.poll_input(context, LBA_BYTES as usize)?;
        match woken.is_closed || woken.has_tick || woken.has_input {
            true => Poll::Ready(Ok(woken)),
            false => Poll::Pending,
        }
    }

    /// Makes the login a session. One of the same initiator port ends before (RFC 7143 6.3.5).
    async fn take_seat(
        &self,
        shared: &Arc<Shared>,
        established: &Established,
        output: Output,
        local: SocketAddr,
    ) -> Session {
        let limits = ConnectionLimits {
            command_window: shared.config.queue_depth,
            max_write_bytes: MAX_TRANSFER_BLOCKS * LBA_BYTES as u32,
            write_budget: shared.config.max_write_bytes,
            ..ConnectionLimits::default()
        };
        let connection = TargetConnection::new(established, limits, output);
        let request = &established.request;
        let port = InitiatorPort { iqn: request.initiator.to_ascii_lowercase(), isid: request.isid };
        let inbox = Arc::default();
        let is_discovery = request.kind == SessionKind::Discovery;
        let seat = shared.registry.sit((!is_discovery).then_some(&port), &inbox).await;
        tracing::debug!(initiator = %port, kind = ?request.kind, "login");
        Session::new(shared, connection, Nexus::new(seat.id, port, RELATIVE_PORT, inbox), local, seat, is_discovery)
    }

    async fn turns(&mut self, shared: &Shared, session: &mut Session) -> Result<(), Ended> {
        let config = &shared.config;
        self.set_timer(config.ping_after);
        let mut is_flushing = false;
        loop {
            session.turn(&mut self.input);
            if session.closing().is_some() && !is_flushing {
                is_flushing = true;
                self.set_timer(FLUSH_WITHIN);
            }
            let woken = poll_fn(|context| self.poll_turn(context, session, config.max_unsent_bytes)).await?;
            let now = platform::clock::now();
            if let Some(reason) = session.closing()
                && (woken.is_closed || woken.has_tick)
            {
                let is_wish = session.is_logged_out();
                return if is_wish { Ok(()) } else { Err(Ended::Closed(reason.to_owned())) };
            }
            if woken.has_input {
                if std::mem::take(&mut self.is_pinged) {
                    self.set_timer(config.ping_after);
                }
            } else if woken.has_tick {
                self.keep_alive(session, now, config.ping_after, config.pong_within)?;
            }
            self.last_heard = if woken.has_input { now } else { self.last_heard };
            session.set_time(now);
        }
    }

    fn poll_turn(
        &mut self,
        context: &mut Context<'_>,
        session: &mut Session,
        max_unsent_bytes: usize,
    ) -> Poll<Result<Woken, Ended>> {
        self.poll_output(context, session.connection.output())?;
        let is_closing = session.closing().is_some();
        let unsent = session.connection.output().len();
        let mut woken = Woken { is_closed: is_closing && unsent == 0, ..Woken::default() };
        if !is_closing && unsent < max_unsent_bytes {
            let wanted = session.connection.wanted(&self.input);
            woken.has_input = self.poll_input(context, wanted)?;
        }
        woken.has_room = session.can_go_on();
        woken.has_letters = session.nexus.inbox.poll_filled(context).is_ready();
        woken.has_tick = self.timer.as_mut().poll(context).is_ready();
        match woken.has_input || woken.has_letters || woken.has_tick || woken.has_room || woken.is_closed {
            true => Poll::Ready(Ok(woken)),
            false => Poll::Pending,
        }
    }

    /// Sends what the socket takes.
    fn poll_output(&mut self, context: &mut Context<'_>, output: &mut Output) -> io::Result<()> {
        while output.has_remaining() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = output.chunks_vectored(&mut slices);
            match self.stream.poll_write(context, &slices[..count]) {
                Poll::Ready(sent) => {
                    output.advance(sent?);
                    self.has_sent = true;
                }
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// True when something has arrived. `wanted` is the length of the PDU at the front of the buffer.
    fn poll_input(&mut self, context: &mut Context<'_>, wanted: usize) -> Result<bool, Ended> {
        let missing = wanted.saturating_sub(self.input.len());
        self.input.reserve(missing.max(self.read_bytes));
        match self.stream.poll_read(context, &mut self.input) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(0)) => Err(Ended::EndOfStream),
            Poll::Ready(Ok(count)) => {
                if count >= self.read_bytes {
                    self.read_bytes = (2 * self.read_bytes).min(MAX_READ_BYTES);
                }
                Ok(true)
            }
            Poll::Ready(Err(error)) => Err(error.into()),
        }
    }

    /// Asks a silent initiator for a sign of life, and gives up one that has not answered.
    fn keep_alive(
        &mut self,
        session: &mut Session,
        now: Instant,
        ping_after: Duration,
        pong_within: Duration,
    ) -> Result<(), Ended> {
        let silent = now.saturating_duration_since(self.last_heard);
        if silent < ping_after {
            self.set_timer(ping_after - silent);
            return Ok(());
        }
        // One that is still taking answers is alive: the ping stands behind them.
        let is_taking = std::mem::take(&mut self.has_sent) && !session.connection.output().is_empty();
        if self.is_pinged && !is_taking {
            return Err(Ended::Closed(format!("no answer to a ping within {pong_within:?}")));
        }
        session.connection.ping();
        self.is_pinged = true;
        self.set_timer(pong_within);
        Ok(())
    }

    fn set_timer(&mut self, after: Duration) {
        let at = platform::clock::now() + after;
        self.timer.as_mut().reset(tokio::time::Instant::from_std(at));
    }
}
