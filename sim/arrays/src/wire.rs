//! The link between the arrays: sessions, one after the other, with delays and cuts.
//!
//! A cut holds all that is under way in its direction, as TCP does; a side that hears nothing for a
//! second ends the session, and everything under way is lost.

use link::{Frame, GIVE_UP_AFTER, HEADER_BYTES, PodReceiver, PodSession, SessionEnded, SimulatedSession};
use platform::simulation::{World, below, time};
use platform::threads::{JoinHandle, Mutex, mpsc, spawn};
use platform::{clock, random};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// Time between two heartbeats.
const BEAT: Duration = Duration::from_millis(200);
/// Most time that a side waits before it looks again.
const LOOK: Duration = Duration::from_millis(20);
/// All that is this far from the other side is lost with the power of the sender.
const IN_FLIGHT: Duration = Duration::from_millis(2);
/// Longest delay of a frame, in microseconds.
const DELAY: u64 = 3000;

/// The process of an array at its end of the link.
pub(crate) struct Port {
    /// Site of the array.
    pub(crate) site: usize,
    /// Id of the other array.
    pub(crate) peer: String,
    pub(crate) receiver: Arc<dyn PodReceiver>,
    /// The process has ended.
    pub(crate) is_closed: AtomicBool,
}

/// Something under way.
enum Item {
    Frame(Frame),
    Beat,
    /// The other side has ended the session.
    End,
}

type Inbox = mpsc::Receiver<(Duration, Item)>;

struct State {
    cut_until: [Duration; 2],
    ports: [Option<Arc<Port>>; 2],
    ends: [Option<Arc<End>>; 2],
    threads: Vec<JoinHandle<()>>,
}

/// The link.
pub(crate) struct Wire {
    state: Mutex<State>,
    /// Bytes of frames that each array has sent.
    bytes: [AtomicU64; 2],
    /// Sessions so far.
    sessions: AtomicU64,
    processes: AtomicU64,
    is_over: AtomicBool,
}

/// One end of a session.
struct End {
    wire: Arc<Wire>,
    site: usize,
    id: [u8; 16],
    out: Mutex<(mpsc::Sender<(Duration, Item)>, Duration)>,
    has_ended: watch::Sender<bool>,
    /// This side answers the other one.
    answers: AtomicBool,
    /// Both sides have answered: the session begins.
    is_open: AtomicBool,
    /// The power of this array has failed at this time of the world, in nanoseconds; 0 if not.
    dead_since: AtomicU64,
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "session {:?} of site {}", self.id, self.site)
    }
}

impl End {
    fn is_over(&self) -> bool {
        *self.has_ended.borrow()
    }

    /// Ends the session here. False if it has ended before.
    fn finish(&self) -> bool {
        self.has_ended.send_if_modified(|has_ended| !std::mem::replace(has_ended, true))
    }

    fn push(&self, item: Item) {
        let mut out = self.out.lock();
        out.1 = out.1.max(time() + Duration::from_micros(50 + below(DELAY)));
        let _ = out.0.send((out.1, item));
    }
}

impl SimulatedSession for End {
    fn id(&self) -> [u8; 16] {
        self.id
    }

    fn send(&self, frame: Frame) -> Result<(), SessionEnded> {
        if self.is_over() {
            return Err(SessionEnded);
        }
        let bytes = (frame.body.len() + HEADER_BYTES) as u64;
        self.wire.bytes[self.site].fetch_add(bytes, Ordering::Relaxed);
        self.push(Item::Frame(frame));
        Ok(())
    }

    fn end(&self, _: &str) {
        self.finish();
    }

    fn watch(&self) -> watch::Receiver<bool> {
        self.has_ended.subscribe()
    }
}

impl Wire {
    pub(crate) fn new() -> Arc<Self> {
        let (cut_until, ports, ends) = ([Duration::ZERO; 2], [None, None], [None, None]);
        let state = Mutex::new(State { cut_until, ports, ends, threads: Vec::new() });
        let bytes = [AtomicU64::new(0), AtomicU64::new(0)];
        let (sessions, processes, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { state, bytes, sessions, processes, is_over })
    }

    /// Bytes that both arrays have sent.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Sessions so far.
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Returns the number of a new process.
    pub(crate) fn next_process(&self) -> u64 {
        self.processes.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A process begins.
    pub(crate) fn open(&self, port: Port) -> Arc<Port> {
        let port = Arc::new(port);
        self.state.lock().ports[port.site] = Some(port.clone());
        port
    }

    /// A process ends. Without power, the other array does not hear of it.
    pub(crate) fn close(&self, port: &Port, has_power: bool) {
        port.is_closed.store(true, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.ports[port.site] = None;
        if let Some(end) = state.ends[port.site].take() {
            if !has_power {
                end.dead_since.store(time().as_nanos() as u64, Ordering::Relaxed);
            }
            end.finish();
        }
    }

    /// Holds everything that an array sends, until a time of the world.
    pub(crate) fn cut(&self, from: usize, until: Duration) {
        let mut state = self.state.lock();
        state.cut_until[from] = state.cut_until[from].max(until);
    }

    /// Ends all cuts.
    pub(crate) fn heal(&self) {
        self.state.lock().cut_until = [Duration::ZERO; 2];
    }

    /// Ends the present session.
    pub(crate) fn break_session(&self) {
        let end = self.state.lock().ends[0].clone();
        if let Some(end) = end {
            end.finish();
        }
    }

    fn is_cut(&self, from: usize) -> bool {
        self.state.lock().cut_until[from] > time()
    }

    /// Makes sessions until the end of the history.
    pub(crate) fn dial(self: &Arc<Self>) {
        while !self.is_over.load(Ordering::Relaxed) {
            clock::sleep(Duration::from_millis(10 + below(60)));
            if !self.is_cut(0) && !self.is_cut(1) {
                self.connect();
            }
        }
        let threads = std::mem::take(&mut self.state.lock().threads);
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// The history is over.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Makes a session if there is none. The second array dials.
    fn connect(self: &Arc<Self>) {
        let Some(ends) = self.begin() else { return };
        let until = time() + GIVE_UP_AFTER;
        while !ends.iter().all(|end| end.answers.load(Ordering::Relaxed)) {
            if time() > until {
                ends.iter().for_each(|end| {
                    end.finish();
                });
                return;
            }
            clock::sleep(Duration::from_micros(200 + below(500)));
        }
        ends.iter().for_each(|end| end.is_open.store(true, Ordering::Relaxed));
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes both ends of a session if there is none. It begins when both arrays answer.
    fn begin(self: &Arc<Self>) -> Option<[Arc<End>; 2]> {
        let mut state = self.state.lock();
        let [Some(first), Some(second)] = state.ports.clone() else { return None };
        let is_alive = |end: &Option<Arc<End>>| end.as_ref().is_some_and(|end| !end.is_over());
        match [is_alive(&state.ends[0]), is_alive(&state.ends[1])] {
            [true, true] => return None,
            // The listener knows nothing of the session: the dialer hears that.
            [false, true] => {
                if let Some(end) = &state.ends[1] {
                    end.finish();
                }
                return None;
            }
            [_, false] => {}
        }
        let Ok(id) = random::bytes() else { return None };
        let ((to_first, at_first), (to_second, at_second)) = (mpsc::channel(), mpsc::channel());
        let end = |site, out| {
            let (out, has_ended) = (Mutex::new((out, Duration::ZERO)), watch::Sender::new(false));
            let (answers, is_open, dead_since) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
            Arc::new(End { wire: self.clone(), site, id, out, has_ended, answers, is_open, dead_since })
        };
        let ends = [end(0, to_second), end(1, to_first)];
        state.ends = ends.clone().map(Some);
        for (port, inbox) in [(first, at_first), (second, at_second)] {
            let side = Side { end: ends[port.site].clone(), peer: ends[1 - port.site].clone(), port, inbox };
            if let Ok(thread) = spawn("link", move || side.serve()) {
                state.threads.retain(|thread| !thread.is_finished());
                state.threads.push(thread);
            }
        }
        Some(ends)
    }
}

/// The work of one side of a session.
struct Side {
    end: Arc<End>,
    peer: Arc<End>,
    port: Arc<Port>,
    inbox: Inbox,
}

impl Side {
    fn serve(self) {
        World::enter_site(self.port.site);
        // A machine that is stopped answers later.
        clock::sleep(Duration::from_micros(50 + below(DELAY)));
        self.end.answers.store(true, Ordering::Relaxed);
        while !self.end.is_open.load(Ordering::Relaxed) {
            if self.end.is_over() || self.port.is_closed.load(Ordering::Relaxed) {
                self.end.finish();
                return;
            }
            clock::sleep(Duration::from_micros(200));
        }
        let session = PodSession::simulated(&self.port.peer, self.end.clone());
        self.port.receiver.began(&session);
        self.receive(&session);
        self.end.finish();
        if self.end.dead_since.load(Ordering::Relaxed) == 0 {
            self.end.push(Item::End);
        }
        self.port.receiver.ended(&session);
    }

    fn receive(&self, session: &PodSession) {
        let (mut heard, mut beat, mut next) = (time(), Duration::ZERO, None);
        let mut has_batch = false;
        while !self.end.is_over() && !self.port.is_closed.load(Ordering::Relaxed) {
            if time() >= beat {
                beat = time() + BEAT;
                self.end.push(Item::Beat);
            }
            next = next.or_else(|| self.inbox.try_recv().ok());
            let is_held = self.end.wire.is_cut(1 - self.port.site);
            let due = next.as_ref().map(|(at, _)| *at);
            if due.is_some_and(|due| due <= time()) && !is_held {
                let Some((at, item)) = next.take() else { continue };
                if self.is_lost(at) {
                    continue;
                }
                heard = time();
                match item {
                    Item::Beat => {}
                    Item::End => return,
                    Item::Frame(frame) => match self.port.receiver.receive(session, frame) {
                        Ok(()) => has_batch = true,
                        Err(_) => return,
                    },
                }
                continue;
            }
            if std::mem::take(&mut has_batch) {
                self.port.receiver.batch_ended(session);
            }
            if time() >= heard + GIVE_UP_AFTER {
                return;
            }
            self.wait(&mut next, due.filter(|_| !is_held));
        }
    }

    /// Whether the power of the sender has failed before this left it.
    fn is_lost(&self, at: Duration) -> bool {
        let dead = self.peer.dead_since.load(Ordering::Relaxed);
        dead > 0 && at > Duration::from_nanos(dead) + IN_FLIGHT
    }

    fn wait(&self, next: &mut Option<(Duration, Item)>, due: Option<Duration>) {
        let most = due.map_or(LOOK, |due| due.saturating_sub(time()).min(LOOK));
        if next.is_some() {
            return clock::sleep(most.max(Duration::from_micros(10)));
        }
        *next = self.inbox.recv_timeout(most).ok();
    }
}
