//! Values that go in and out of the state machine.

use crate::message::{Message, Note};
use crate::register::{Answer, Question};
use crate::state::{Side, Stored};
use std::time::Duration;
use types::{Period, Position};

/// The stream of the pod, as the engine's `StreamStatus` has it. Facts that follow an action show
/// its effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Period of the last record, or the one that has begun since.
    pub period: Period,
    /// Position of the last record.
    pub position: Position,
    /// Position up to which the log is durable.
    pub durable: Position,
    /// The period when the peer last reported a position as durable, and the position.
    pub base: (Period, Position),
    /// No delta of the pod's volumes has a block.
    pub is_delta_empty: bool,
    /// The tail is not in the deltas yet.
    pub awaits_tail: bool,
    /// No change of a host is under way, and none is ordered before hosts are let go.
    pub is_still: bool,
    /// The log was damaged when it was opened.
    pub is_hurt: bool,
    /// Most bytes of data that this array can log in one record.
    pub max_payload: u64,
    /// The peer has too little free space, and must not come into step before it has more.
    pub is_peer_full: bool,
}

/// An input of the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time has passed. At least every 50 ms.
    Tick,
    /// A session with the peer exists. Its number is the same on both arrays, and has not been used
    /// before.
    SessionUp(u64),
    /// A session has ended.
    SessionDown(u64),
    /// A message has arrived.
    Received {
        /// The session that brought it.
        session: u64,
        /// The message.
        message: Message,
    },
    /// The state of this generation, and all before, are durable.
    Stored(u64),
    /// The stream has changed.
    Stream(Facts),
    /// The period of [`Action::Begin`] has begun, at this last position.
    Began {
        /// The period.
        period: Period,
        /// Last position before it.
        last: Position,
    },
    /// The mask of the peer is in the deltas, durably ([`Action::TakeMask`]).
    MaskTaken {
        /// The session.
        session: u64,
    },
    /// At the follower: the turn of a record with a note has come.
    Note {
        /// Its period.
        period: Period,
        /// Its position.
        position: Position,
        /// The note.
        note: Note,
    },
    /// The mediator has answered, or has not in time. Late answers are welcome.
    Mediator {
        /// The number of the question.
        question: u64,
        /// The answer.
        answer: Answer,
    },
    /// A request of an administrator, or of the array itself.
    Request(Request),
}

/// A request of an administrator, or of the array itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Prefer an array. On both arrays.
    Prefer(Side),
    /// Use this instance of the mediator, or none. On both arrays.
    UseMediator(Option<u64>),
    /// Bring a second array into a pod that is on this one.
    Stretch,
    /// Stop in an orderly way: the peer takes over.
    Resign,
    /// Remove the follower from the pod.
    Unstretch,
    /// Continue although the protocol does not allow it.
    Force,
    /// Discard the content of a diverged array.
    Discard,
}

/// Part in a period of the stream: `engine::Role`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRole {
    /// Orders changes.
    Sequencer,
    /// Applies records.
    Follower,
}

/// When a change is committed: `engine::Gate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamGate {
    /// When both logs hold it.
    Both,
    /// When the own log holds it.
    Local,
}

/// The effect of records on deltas: `engine::DeltaMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamDelta {
    /// Nothing.
    Off,
    /// Changed blocks enter the delta.
    Alone,
    /// Blocks that the peer receives leave the delta, too.
    Source,
}

/// A period that begins: `engine::NewPeriod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginPeriod {
    /// Its number.
    pub period: Period,
    /// The part of this array.
    pub role: StreamRole,
    /// When changes are committed.
    pub gate: StreamGate,
    /// Position of the last record before the period; none if the caller takes that of the stream.
    pub last: Option<Position>,
    /// Most bytes of data in one record.
    pub max_payload: u64,
    /// The effect on deltas.
    pub delta: StreamDelta,
}

/// An output of the state machine, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Store this state. [`Event::Stored`] follows when it is durable.
    Store {
        /// Ascending number.
        generation: u64,
        /// The state.
        state: Stored,
    },
    /// Log this note at this position of the stream, in one record with the state. The sequencer
    /// sends the record to its peer. [`Event::Stored`] follows.
    Log {
        /// The note.
        note: Note,
        /// The position: the next one.
        position: Position,
        /// Ascending number.
        generation: u64,
        /// The state.
        state: Stored,
    },
    /// As source, order this note, unless a delta has a block: [`Note::Whole`].
    Order(Note),
    /// Send a message. Records are sent only after a `Start`, a `GoSync` or an
    /// [`Action::Resume`] of the same session.
    Send {
        /// The session.
        session: u64,
        /// The message.
        message: Message,
    },
    /// End the session; a new one may begin at once.
    EndSession(u64),
    /// Close the stream. Changes of hosts that wait have failed, or wait for the next period.
    Close,
    /// Begin a period of the stream. [`Event::Began`] follows.
    Begin(BeginPeriod),
    /// Both arrays hold the same: settle the stream.
    Settle,
    /// Empty the deltas of all volumes.
    ClearDeltas,
    /// Add the tail to the deltas.
    AddTail(Period),
    /// Add the mask of the peer, its tail and its deltas, to the own deltas, or all blocks.
    /// [`Event::MaskTaken`] follows when that is durable.
    TakeMask {
        /// The session.
        session: u64,
        /// All blocks of all volumes.
        is_all: bool,
    },
    /// The peer has reported this position as durable.
    Heard {
        /// Period.
        period: Period,
        /// Position.
        position: Position,
    },
    /// The session continues the one before: send the records after this position again, and name
    /// the forwards that are still wanted.
    Resume {
        /// The session.
        session: u64,
        /// The last record that the peer has.
        after: Position,
    },
    /// Ask the mediator. [`Event::Mediator`] follows.
    Ask {
        /// Number of the question.
        number: u64,
        /// The question.
        question: Question,
    },
    /// The service of hosts changes.
    Hosts(Hosts),
    /// Something that an administrator should know.
    Alert(Alert),
    /// A request is refused.
    Refused(Request, &'static str),
}

/// Service of reads. An answer is sent only if this still allows it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Held, or failed as changes are.
    Never,
    /// While the lease clock is before this time.
    Until(Duration),
    /// Always.
    Always,
}

/// Service of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Ordered here, or forwarded to the sequencer.
    Serve,
    /// Held, for 5 s from the arrival of each command; then it is in transition (02/04/0A).
    Hold,
    /// Failed: unavailable (02/04/0C).
    Fail,
}

/// State of a port group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// Active, by the host's preference.
    Active,
    /// In transition.
    Transitioning,
    /// Unavailable.
    Unavailable,
}

/// The service that hosts get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Changes.
    pub changes: Changes,
    /// Reads.
    pub reads: Reads,
    /// The port group of this array.
    pub own_ports: Ports,
    /// The port group of the peer, if this array knows it; otherwise active. Rule 20.
    pub peer_ports: Ports,
}

/// Something that an administrator should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alert {
    /// The peer is silent.
    PeerSilent,
    /// This array serves alone.
    Alone,
    /// This array has yielded.
    Yielded,
    /// Both arrays are in step.
    InStep,
    /// The peer has lost a part of its log, or is not the one that the delta was kept against: all
    /// blocks are sent.
    PeerLostLog,
    /// The mediator is lost.
    MediatorLost,
    /// The mediator is back.
    MediatorBack,
    /// The peer's log is damaged and it may have been alone: a person decides.
    PersonDecides,
    /// Two arrays have served; this one has stopped.
    Diverged,
    /// The register is retired, or names the peer in a later epoch.
    RegisterDisagrees,
}

impl Hosts {
    /// Whether changes are held.
    pub fn is_held(&self) -> bool {
        self.changes == Changes::Hold
    }
}
