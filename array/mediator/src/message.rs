//! Requests and replies: one layout each, of fixed length. A reply follows each request.

use pinned_tls::Fingerprint;
use thiserror::Error;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"IBIDMEDI";
const VERSION: u16 = 1;
/// Id of a pod while it is on two arrays: 16 bytes that both know. A pod that comes to two arrays
/// again has another one, because a register is retired for good.
pub type PodKey = [u8; 16];

/// Length of a request in bytes.
pub(crate) const REQUEST_BYTES: usize = size_of::<RequestLayout>();
/// Length of a reply in bytes.
pub(crate) const REPLY_BYTES: usize = size_of::<ReplyLayout>();
const _: () = assert!(REQUEST_BYTES == 128 && REPLY_BYTES == 48);

/// Owner in a register, as one of its two arrays sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Owner {
    /// Neither array has asked to continue alone.
    Both = 0,
    /// The array that asks.
    Own = 1,
    /// The other array of the register.
    Peer = 2,
    /// The pod is on one array again. Permanent.
    Retired = 3,
}

impl Owner {
    fn numbered(number: u8) -> Option<Self> {
        [Self::Both, Self::Own, Self::Peer, Self::Retired].into_iter().find(|owner| *owner as u8 == number)
    }
}

/// Content of a register, as one of its two arrays sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Epoch of the last change.
    pub epoch: u64,
    /// Owner.
    pub owner: Owner,
}

/// An action of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Asks for the mediator's instance.
    Identify,
    /// Reads a register.
    Read,
    /// Makes a register for two arrays, when both ask with the same nonce and epoch.
    Create { peer: Fingerprint, nonce: [u8; 16], epoch: u64 },
    /// Replaces the expected content.
    Swap { expected: Register, new: Register },
    /// Retires a register with the expected content.
    Retire { expected: Register },
}

impl Action {
    fn number(&self) -> u8 {
        match self {
            Self::Identify => 0,
            Self::Read => 1,
            Self::Create { .. } => 2,
            Self::Swap { .. } => 3,
            Self::Retire { .. } => 4,
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Repeated in the reply.
    pub(crate) number: u32,
    /// The pod; zeros in a request without one.
    pub(crate) pod: PodKey,
    /// The instance that the sender knows; zeros if it knows none.
    pub(crate) instance: [u8; 16],
    pub(crate) action: Action,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// Done; the reply has the content.
    Done = 0,
    /// The content is another one; the reply has it.
    Differs = 1,
    /// The array has no register of this pod.
    Missing = 2,
    /// The mediator is another instance: its registers are not those of before.
    OtherInstance = 3,
    /// A limit of registers is reached.
    Full = 4,
    /// The other array has not asked yet.
    Waiting = 5,
    /// Another pair of arrays has this register.
    Taken = 6,
    /// The request breaks a rule of registers.
    Invalid = 7,
    /// No administrator has allowed this array to have registers.
    NotAllowed = 8,
}

impl Status {
    const ALL: [Self; 9] = [
        Self::Done,
        Self::Differs,
        Self::Missing,
        Self::OtherInstance,
        Self::Full,
        Self::Waiting,
        Self::Taken,
        Self::Invalid,
        Self::NotAllowed,
    ];
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) number: u32,
    pub(crate) status: Status,
    pub(crate) instance: [u8; 16],
    /// Content of the register, if the sender has one.
    pub(crate) register: Register,
}

/// The sender does not speak this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The magic is missing.
    #[error("no mediator is there: the message has another form")]
    NotMediator,
    /// The version is not known.
    #[error("protocol {0} of the mediator is not known; update the older program")]
    Version(u16),
    /// A field is invalid.
    #[error("invalid message: {0}")]
    Malformed(&'static str),
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RegisterLayout {
    epoch: U64,
    owner: u8,
    reserved: [u8; 7],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RequestLayout {
    magic: [u8; 8],
    version: U16,
    action: u8,
    reserved: u8,
    number: U32,
    pod: PodKey,
    instance: [u8; 16],
    expected: RegisterLayout,
    new: RegisterLayout,
    nonce: [u8; 16],
    peer: Fingerprint,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ReplyLayout {
    magic: [u8; 8],
    version: U16,
    status: u8,
    reserved: u8,
    number: U32,
    instance: [u8; 16],
    register: RegisterLayout,
}

impl RegisterLayout {
    const NONE: Self = Self { epoch: U64::new(0), owner: 0, reserved: [0; 7] };

    fn new(register: Register) -> Self {
        Self { epoch: register.epoch.into(), owner: register.owner as u8, reserved: [0; 7] }
    }

    fn decode(self) -> Result<Register, MessageError> {
        if self.reserved != [0; 7] {
            return Err(MessageError::Malformed("reserved bytes"));
        }
        let owner = Owner::numbered(self.owner).ok_or(MessageError::Malformed("owner"))?;
        Ok(Register { epoch: self.epoch.get(), owner })
    }
}

fn check(magic: [u8; 8], version: U16, reserved: u8) -> Result<(), MessageError> {
    match (magic == MAGIC, version.get(), reserved) {
        (false, _, _) => Err(MessageError::NotMediator),
        (true, VERSION, 0) => Ok(()),
        (true, VERSION, _) => Err(MessageError::Malformed("reserved bytes")),
        (true, other, _) => Err(MessageError::Version(other)),
    }
}

impl Request {
    pub(crate) fn encode(&self) -> [u8; REQUEST_BYTES] {
        let (mut expected, mut new, mut nonce, mut peer) =
            (RegisterLayout::NONE, RegisterLayout::NONE, [0; 16], [0; 32]);
        match self.action {
            Action::Identify | Action::Read => {}
            Action::Create { peer: named, nonce: common, epoch } => {
                (peer, nonce, new) = (named, common, RegisterLayout::new(Register { epoch, owner: Owner::Both }));
            }
            Action::Swap { expected: old, new: content } => {
                (expected, new) = (RegisterLayout::new(old), RegisterLayout::new(content));
            }
            Action::Retire { expected: old } => expected = RegisterLayout::new(old),
        }
        let layout = RequestLayout {
            magic: MAGIC,
            version: VERSION.into(),
            action: self.action.number(),
            reserved: 0,
            number: self.number.into(),
            pod: self.pod,
            instance: self.instance,
            expected,
            new,
            nonce,
            peer,
        };
        zerocopy::transmute!(layout)
    }

    pub(crate) fn decode(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, MessageError> {
        let layout: RequestLayout = zerocopy::transmute!(*bytes);
        check(layout.magic, layout.version, layout.reserved)?;
        let action = match layout.action {
            0 => Action::Identify,
            1 => Action::Read,
            2 => Action::Create { peer: layout.peer, nonce: layout.nonce, epoch: layout.new.epoch.get() },
            3 => Action::Swap { expected: layout.expected.decode()?, new: layout.new.decode()? },
            4 => Action::Retire { expected: layout.expected.decode()? },
            _ => return Err(MessageError::Malformed("action")),
        };
        Ok(Self { number: layout.number.get(), pod: layout.pod, instance: layout.instance, action })
    }
}

impl Reply {
    pub(crate) fn encode(&self) -> [u8; REPLY_BYTES] {
        let layout = ReplyLayout {
            magic: MAGIC,
            version: VERSION.into(),
            status: self.status as u8,
            reserved: 0,
            number: self.number.into(),
            instance: self.instance,
            register: RegisterLayout::new(self.register),
        };
        zerocopy::transmute!(layout)
    }

    pub(crate) fn decode(bytes: &[u8; REPLY_BYTES]) -> Result<Self, MessageError> {
        let layout: ReplyLayout = zerocopy::transmute!(*bytes);
        check(layout.magic, layout.version, layout.reserved)?;
        let status = Status::ALL.into_iter().find(|status| *status as u8 == layout.status);
        Ok(Self {
            number: layout.number.get(),
            status: status.ok_or(MessageError::Malformed("status"))?,
            instance: layout.instance,
            register: layout.register.decode()?,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn requests() -> Vec<Request> {
        let (old, new) = (Register { epoch: 1, owner: Owner::Both }, Register { epoch: 3, owner: Owner::Own });
        let actions = [
            Action::Identify,
            Action::Read,
            Action::Create { peer: [9; 32], nonce: [8; 16], epoch: 5 },
            Action::Swap { expected: old, new },
            Action::Retire { expected: new },
        ];
        actions.map(|action| Request { number: 7, pod: [1; 16], instance: [2; 16], action }).to_vec()
    }

    #[test]
    fn messages_have_the_golden_bytes() {
        let swap = requests()[3].encode();
        let golden = "494249444d4544490100030007000000".to_owned()
            + &"01".repeat(16)
            + &"02".repeat(16)
            + "01000000000000000000000000000000"
            + "03000000000000000100000000000000"
            + &"00".repeat(48);
        assert_eq!(types::hex::encode(&swap), golden);
        let register = Register { epoch: 3, owner: Owner::Peer };
        let reply = Reply { number: 7, status: Status::Differs, instance: [2; 16], register };
        let golden =
            "494249444d4544490100010007000000".to_owned() + &"02".repeat(16) + "03000000000000000200000000000000";
        assert_eq!(types::hex::encode(&reply.encode()), golden);
        assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        requests().iter().for_each(|request| assert_eq!(Request::decode(&request.encode()).as_ref(), Ok(request)));
    }

    #[test]
    fn other_messages_are_refused() {
        let refused = |at: usize, byte: u8| {
            let mut bytes = requests()[3].encode();
            bytes[at] = byte;
            Request::decode(&bytes).unwrap_err()
        };
        assert_eq!(refused(0, b'X'), MessageError::NotMediator);
        assert_eq!(refused(8, 2), MessageError::Version(2));
        assert_eq!(refused(10, 5), MessageError::Malformed("action"));
        assert_eq!(refused(11, 1), MessageError::Malformed("reserved bytes"));
        assert_eq!(refused(63, 1), MessageError::Malformed("reserved bytes"));
        assert_eq!(refused(56, 4), MessageError::Malformed("owner"));
    }
}
