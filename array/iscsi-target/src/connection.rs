//! A connection: its socket and timers, the login phase, and the turns of its session.
//!
//! A turn parses all received PDUs, submits their operations, and kicks the engine at the end of
//! the batch. It then collects the completions and sends all answers with one vectored write.

use crate::login::{Authority, nexus_of};
use crate::nexus::Nexus;
use crate::portals::PortalTag;
use crate::session::Session;
use crate::session::budget::MAX_TURN_TIME;
use crate::shared::Shared;
use crate::slots::ConnectionSlot;
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
use telemetry::SessionInfo;
use tokio::time::Sleep;
use types::LBA_BYTES;

/// Initial size of the read buffer. It doubles, up to the maximum, each time a read fills it.
const FIRST_READ_BYTES: usize = 16 << 10;
const MAX_READ_BYTES: usize = 256 << 10;
/// Maximum number of slices in one vectored write. A batch of 32 reads has 64.
const SLICES: usize = 128;
/// Maximum bytes of output for the socket before other connections are served.
const MAX_SEND_BYTES: usize = 512 << 10;
/// Time limit for sending the remaining output of a connection that is being closed.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);

/// Why a connection ended without a logout.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("initiator closed the connection without logout")]
    EndOfStream,
    #[error("login refused: {0}")]
    Refused(#[from] iscsi::LoginRefusal),
    #[error("no login within {0:?}")]
    LoginTimeout(Duration),
    #[error("{0}")]
    Closed(String),
}

/// The reasons for which a wait ended.
#[derive(Default)]
struct Woken {
    has_input: bool,
    has_events: bool,
    can_run: bool,
    has_timed_out: bool,
    is_closed: bool,
}

struct Connection {
    stream: Stream,
    portal: PortalTag,
    input: BytesMut,
    read_bytes: usize,
    /// Small before login and in a discovery session.
    max_read_bytes: usize,
    timer: Pin<Box<Sleep>>,
    last_heard: Instant,
    /// A ping was sent, and nothing has been received since.
    is_pinged: bool,
    /// The socket has accepted bytes since the timer was set.
    has_sent: bool,
}

/// Serves one connection until it ends.
pub(crate) async fn serve_connection(
    shared: Arc<Shared>,
    stream: Stream,
    peer: SocketAddr,
    slot: Arc<ConnectionSlot>,
    portal: PortalTag,
) {
    let timer = Box::pin(tokio::time::sleep(shared.config.login_timeout));
    let connection = Connection {
        stream,
        portal,
        input: BytesMut::new(),
        read_bytes: FIRST_READ_BYTES,
        max_read_bytes: FIRST_READ_BYTES,
        timer,
        last_heard: platform::clock::now(),
        is_pinged: false,
        has_sent: false,
    };
    if let Err(ended) = connection.run(&shared, peer, &slot).await
        && let Some(withheld) = shared.log_limit.admit(platform::clock::now())
    {
        tracing::info!(%peer, withheld, "iSCSI connection closed: {ended}");
    }
}

impl Connection {
    async fn run(mut self, shared: &Arc<Shared>, peer: SocketAddr, slot: &Arc<ConnectionSlot>) -> Result<(), Ended> {
        let local = self.stream.local_addr()?;
        let mut stopped = shared.stop.subscribe();
        let (established, output) = tokio::select! {
            login = self.login(shared, slot) => login.inspect_err(|ended| note_refusal(shared, peer, ended))?,
            _ = stopped.wait_for(|is_stopped| *is_stopped) => return Ok(()),
        };
        let mut session = self.register_session(shared, &established, output, local).await;
        let entry = (!session.is_discovery()).then(|| {
            let info = session_info(&established, peer, local);
            tracing::info!(initiator = info.initiator, %peer, portal = %local, "initiator logged in");
            shared.session_table.add(info)
        });
        let result = self.run_turns(shared, &mut session).await;
        if let Some(entry) = entry {
            let reason = result.as_ref().map_or_else(ToString::to_string, |()| "logged out".to_owned());
            if result.is_ok() {
                tracing::info!(initiator = session.nexus.port.iqn, %peer, portal = %local, "initiator logged out");
            }
            entry.end(&reason, platform::clock::unix_millis());
        }
        // The socket is closed first, so that the initiator need not wait for operations in
        // progress.
        drop(self);
        session.drain().await;
        result
    }

    /// Runs the login phase, within its time limit.
    async fn login(
        &mut self,
        shared: &Arc<Shared>,
        slot: &Arc<ConnectionSlot>,
    ) -> Result<(Established, Output), Ended> {
        let config = LoginConfig {
            portal_group_tag: self.portal.0,
            target_alias: None,
            offer: Parameters::offer_of_target(),
            command_window: shared.config.queue_depth,
        };
        let mut login = TargetLogin::new(config);
        let mut authority = Authority::new(shared, slot, shared.portals.relative(self.portal));
        let mut output = Output::default();
        loop {
            let progress = login.receive(&mut self.input, &mut authority, &mut output);
            if let LoginProgress::Established(established) = progress {
                // The final response is sent with the first output of the session, after an earlier
                // session of the same nexus has ended.
                return Ok((*established, output));
            }
            let is_refused = matches!(progress, LoginProgress::Refused(_));
            let woken = poll_fn(|context| self.poll_login(context, &mut output, is_refused)).await?;
            match progress {
                LoginProgress::Refused(refusal) if woken.is_closed => return Err(refusal.into()),
                _ if woken.has_timed_out => return Err(Ended::LoginTimeout(shared.config.login_timeout)),
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
        woken.has_timed_out = self.timer.as_mut().poll(context).is_ready();
        woken.has_input = !is_closing && self.poll_input(context, LBA_BYTES as usize)?;
        match woken.is_closed || woken.has_timed_out || woken.has_input {
            true => Poll::Ready(Ok(woken)),
            false => Poll::Pending,
        }
    }

    /// Creates the session of a successful login, after an earlier session of the same nexus has
    /// ended (RFC 7143 6.3.5).
    async fn register_session(
        &mut self,
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
        let name = nexus_of(request, shared.portals.relative(self.portal));
        let inbox = Arc::default();
        let is_discovery = request.kind == SessionKind::Discovery;
        if !is_discovery {
            self.max_read_bytes = MAX_READ_BYTES;
        }
        let slot = shared.registry.register((!is_discovery).then_some(&name), established.tsih, &inbox).await;
        let port = shared.port(self.portal);
        Session::new(shared, connection, Nexus::new(slot.id, name, inbox), port, local, slot, is_discovery)
    }

    async fn run_turns(&mut self, shared: &Shared, session: &mut Session) -> Result<(), Ended> {
        let config = &shared.config;
        self.set_timer(config.ping_after);
        let mut is_flushing = false;
        // When this task last gave its thread to others.
        let mut slice_start = platform::clock::now();
        loop {
            session.turn(&mut self.input);
            if session.closing().is_some() && !is_flushing {
                is_flushing = true;
                self.set_timer(FLUSH_WITHIN);
            }
            let mut has_waited = false;
            let woken = poll_fn(|context| {
                let polled = self.poll_turn(context, session);
                has_waited |= polled.is_pending();
                polled
            });
            let woken = woken.await?;
            let mut now = platform::clock::now();
            if !has_waited && (woken.can_run || now.saturating_duration_since(slice_start) >= MAX_TURN_TIME) {
                // The answers were sent; the other connections of this thread are served now.
                tokio::task::yield_now().await;
                now = platform::clock::now();
                slice_start = now;
            } else if has_waited {
                slice_start = now;
            }
            if let Some(reason) = session.closing()
                && (woken.is_closed || woken.has_timed_out)
            {
                return if session.is_logged_out() { Ok(()) } else { Err(Ended::Closed(reason.to_owned())) };
            }
            if woken.has_input {
                if std::mem::take(&mut self.is_pinged) {
                    self.set_timer(config.ping_after);
                }
            } else if woken.has_timed_out {
                self.keep_alive(session, now, config.ping_after, config.pong_within)?;
            }
            self.last_heard = if woken.has_input { now } else { self.last_heard };
            session.set_time(now);
        }
    }

    fn poll_turn(&mut self, context: &mut Context<'_>, session: &mut Session) -> Poll<Result<Woken, Ended>> {
        let is_cut = self.poll_output(context, session.connection.output())?;
        let is_closing = session.closing().is_some();
        let unsent = session.connection.output().len();
        let mut woken = Woken { is_closed: is_closing && unsent == 0, ..Woken::default() };
        if !is_closing && self.may_read(context, session) {
            let wanted = session.connection.wanted(&self.input);
            woken.has_input = self.poll_input(context, wanted)?;
        }
        woken.can_run = is_cut || session.has_work();
        if !woken.can_run {
            session.wait_for_memory(context);
            woken.can_run = session.has_work();
        }
        woken.has_events = session.nexus.inbox.poll_filled(context).is_ready();
        woken.has_timed_out = self.timer.as_mut().poll(context).is_ready();
        match woken.has_input || woken.has_events || woken.has_timed_out || woken.can_run || woken.is_closed {
            true => Poll::Ready(Ok(woken)),
            false => Poll::Pending,
        }
    }

    /// Returns true if the session may hold the input of a read. If it may not, an empty large
    /// buffer is replaced by a small one, for which there is always memory.
    fn may_read(&mut self, context: &Context<'_>, session: &mut Session) -> bool {
        if self.may_read_with_buffer(context, session) {
            return true;
        }
        let is_large = self.input.capacity().max(self.read_bytes) > FIRST_READ_BYTES;
        self.input.is_empty() && is_large && {
            self.shrink_buffer();
            self.may_read_with_buffer(context, session)
        }
    }

    fn may_read_with_buffer(&self, context: &Context<'_>, session: &mut Session) -> bool {
        let wanted = session.connection.wanted(&self.input);
        let missing = wanted.saturating_sub(self.input.len()).max(self.read_bytes);
        let more = (self.input.len() + missing).saturating_sub(self.input.capacity());
        let buffer_bytes = self.input.capacity().max(self.read_bytes);
        session.may_read(context, buffer_bytes as u64, more as u64)
    }

    fn shrink_buffer(&mut self) {
        self.read_bytes = FIRST_READ_BYTES;
        self.input = BytesMut::new();
    }

    /// Sends output until the socket accepts no more. Returns true if [`MAX_SEND_BYTES`] were sent
    /// before that.
    fn poll_output(&mut self, context: &mut Context<'_>, output: &mut Output) -> io::Result<bool> {
        let mut left = MAX_SEND_BYTES;
        while output.has_remaining() {
            if left == 0 {
                return Ok(true);
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = output.chunks_vectored(&mut slices);
            match self.stream.poll_write(context, first_slices(&slices[..count], left)) {
                Poll::Ready(sent) => {
                    let sent = sent?;
                    output.advance(sent);
                    left = left.saturating_sub(sent);
                    self.has_sent = true;
                }
                Poll::Pending => break,
            }
        }
        Ok(false)
    }

    /// Returns true if data was received. `wanted` is the length of the first PDU in the buffer.
    fn poll_input(&mut self, context: &mut Context<'_>, wanted: usize) -> Result<bool, Ended> {
        let missing = wanted.saturating_sub(self.input.len());
        self.input.reserve(missing.max(self.read_bytes));
        match self.stream.poll_read(context, &mut self.input) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(0)) => Err(Ended::EndOfStream),
            Poll::Ready(Ok(count)) => {
                if count >= self.read_bytes {
                    self.read_bytes = (2 * self.read_bytes).min(self.max_read_bytes);
                }
                Ok(true)
            }
            Poll::Ready(Err(error)) => Err(error.into()),
        }
    }

    /// Pings a silent initiator. Fails if it has not answered the last ping.
    fn keep_alive(
        &mut self,
        session: &mut Session,
        now: Instant,
        ping_after: Duration,
        pong_within: Duration,
    ) -> Result<(), Ended> {
        let silent = now.saturating_duration_since(self.last_heard);
        if self.input.is_empty() {
            // An idle session holds a small buffer only.
            self.shrink_buffer();
        }
        if silent < ping_after {
            self.set_timer(ping_after - silent);
            return Ok(());
        }
        if session.is_discovery() {
            return Err(Ended::Closed("discovery session idle".to_owned()));
        }
        // An initiator that still accepts answers is alive. It receives the ping after them.
        let is_accepting = std::mem::take(&mut self.has_sent) && !session.connection.output().is_empty();
        if self.is_pinged && !is_accepting {
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

/// Notes a refused login of a named initiator.
fn note_refusal(shared: &Shared, peer: SocketAddr, ended: &Ended) {
    if let Ended::Refused(refusal) = ended
        && let Some(initiator) = &refusal.initiator
    {
        shared.session_table.refuse(initiator, peer, &refusal.status.to_string(), platform::clock::unix_millis());
    }
}

/// Describes a normal session for administrators.
fn session_info(established: &Established, peer: SocketAddr, local: SocketAddr) -> SessionInfo {
    let (request, parameters) = (&established.request, &established.parameters);
    let digest = |is_used: bool| if is_used { "CRC32C" } else { "None" }.to_owned();
    let flag = |is_set: bool| if is_set { "Yes" } else { "No" }.to_owned();
    SessionInfo {
        initiator: request.initiator.to_ascii_lowercase(),
        isid: request.isid.iter().map(|byte| format!("{byte:02x}")).collect(),
        tsih: established.tsih,
        peer,
        portal: local,
        since_ms: platform::clock::unix_millis(),
        is_authenticated: request.user.is_some(),
        parameters: vec![
            ("HeaderDigest", digest(parameters.digests.header)),
            ("DataDigest", digest(parameters.digests.data)),
            ("InitialR2T", flag(parameters.initial_r2t)),
            ("ImmediateData", flag(parameters.immediate_data)),
            ("FirstBurstLength", parameters.first_burst_length.to_string()),
            ("MaxBurstLength", parameters.max_burst_length.to_string()),
            ("MaxRecvDataSegmentLength", parameters.max_send_segment.to_string()),
            ("MaxOutstandingR2T", parameters.max_outstanding_r2t.to_string()),
        ],
    }
}

/// Returns the first slices, until they have `bytes` bytes in all.
fn first_slices<'a, 'b>(slices: &'b [IoSlice<'a>], bytes: usize) -> &'b [IoSlice<'a>] {
    let mut sum = 0;
    let is_wanted = |slice: &&IoSlice<'_>| {
        let is_wanted = sum < bytes;
        sum += slice.len();
        is_wanted
    };
    let count = slices.iter().take_while(is_wanted).count();
    &slices[..count]
}
