//! `Hello`: the first frame of each direction of a connection.

use crate::frame::{Frame, Kind};
use thiserror::Error;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"IBIDLINK";
/// The protocols of this program.
pub const PROTOCOLS: ProtocolRange = ProtocolRange { lowest: 3, highest: 3 };
const MAX_NAME_BYTES: usize = 64;
const MAX_VERSION_BYTES: usize = 32;

/// The part that every protocol has at the start of its `Hello`.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HelloStart {
    magic: [u8; 8],
    lowest: U16,
    highest: U16,
}

/// The `Hello` of protocol 3: a record names the request that it carries out, and the state of a
/// pod says whether the process has restarted.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HelloLayout {
    start: HelloStart,
    purpose: u8,
    number: u8,
    reserved: [u8; 2],
    features: U64,
    array: [u8; 16],
    incarnation: U64,
    uptime_us: U64,
    wall_ms: U64,
    max_body_bytes: U32,
    window_frames: U32,
    session: [u8; 16],
    name_bytes: u8,
    version_bytes: u8,
    reserved_end: [u8; 6],
    name: [u8; MAX_NAME_BYTES],
    version: [u8; MAX_VERSION_BYTES],
}

const _: () = assert!(size_of::<HelloLayout>() == 192);

/// A range of protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolRange {
    /// The oldest one.
    pub lowest: u16,
    /// The newest one.
    pub highest: u16,
}

impl ProtocolRange {
    /// Returns the newest protocol that both sides speak.
    pub fn common(self, other: Self) -> Option<u16> {
        let (lowest, highest) = (self.lowest.max(other.lowest), self.highest.min(other.highest));
        (lowest <= highest).then_some(highest)
    }
}

impl std::fmt::Display for ProtocolRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.lowest == self.highest {
            true => write!(f, "{}", self.lowest),
            false => write!(f, "{} to {}", self.lowest, self.highest),
        }
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// Heartbeats and small messages.
    Control = 0,
    /// Data.
    Data = 1,
    /// The first meeting of two arrays, with a connection key.
    Introduction = 2,
}

impl Purpose {
    fn numbered(number: u8) -> Option<Self> {
        [Self::Control, Self::Data, Self::Introduction].into_iter().find(|purpose| *purpose as u8 == number)
    }
}

/// An array introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The protocols that it speaks.
    pub protocols: ProtocolRange,
    /// The purpose of the connection.
    pub purpose: Purpose,
    /// Number of the array.
    pub number: u8,
    /// Optional parts of the protocol. None is defined; unknown bits are ignored.
    pub features: u64,
    /// Id of the array.
    pub array: [u8; 16],
    /// Differs between two runs of the program: the start of the run, in milliseconds since 1970.
    pub incarnation: u64,
    /// Time since the start of the program in microseconds, by a clock that is never set.
    pub uptime_us: u64,
    /// Wall clock in milliseconds since 1970.
    pub wall_ms: u64,
    /// Longest body of a frame that it accepts, in bytes.
    pub max_body_bytes: u32,
    /// Number of `Bulk` frames that it accepts before it has confirmed one.
    pub window_frames: u32,
    /// Id of the session: 0 in the first `Hello` of a session, which has no id yet.
    pub session: [u8; 16],
    /// Name of the array.
    pub name: String,
    /// Version of the program.
    pub version: String,
}

/// A `Hello` that this program cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HelloError {
    /// The magic is missing.
    #[error("no link of an array is there: the first message has another form")]
    NotHello,
    /// No protocol is common to both arrays.
    #[error("no common protocol: one array speaks {theirs}, the other {ours}; update the older one", ours = PROTOCOLS)]
    Protocol {
        /// The protocols of the peer.
        theirs: ProtocolRange,
    },
    /// A field is invalid.
    #[error("invalid Hello: {0}")]
    Malformed(&'static str),
}

impl Hello {
    /// Returns the frame. Longer names are cut.
    pub fn encode(&self) -> Frame {
        let (name_bytes, name) = padded(&self.name);
        let (version_bytes, version) = padded(&self.version);
        let start =
            HelloStart { magic: MAGIC, lowest: self.protocols.lowest.into(), highest: self.protocols.highest.into() };
        let layout = HelloLayout {
            start,
            purpose: self.purpose as u8,
            number: self.number,
            reserved: [0; 2],
            features: self.features.into(),
            array: self.array,
            incarnation: self.incarnation.into(),
            uptime_us: self.uptime_us.into(),
            wall_ms: self.wall_ms.into(),
            max_body_bytes: self.max_body_bytes.into(),
            window_frames: self.window_frames.into(),
            session: self.session,
            name_bytes,
            version_bytes,
            reserved_end: [0; 6],
            name,
            version,
        };
        Frame::new(Kind::Hello, layout.as_bytes().to_vec())
    }

    /// Parses the body of a frame. The protocols are checked before the rest.
    pub fn decode(body: &[u8]) -> Result<Self, HelloError> {
        let (start, _) = HelloStart::read_from_prefix(body).map_err(|_| HelloError::NotHello)?;
        if start.magic != MAGIC {
            return Err(HelloError::NotHello);
        }
        let theirs = ProtocolRange { lowest: start.lowest.get(), highest: start.highest.get() };
        PROTOCOLS.common(theirs).ok_or(HelloError::Protocol { theirs })?;
        // A later protocol may append fields.
        let (layout, _) = HelloLayout::read_from_prefix(body).map_err(|_| HelloError::Malformed("it is too short"))?;
        let name = text(&layout.name, layout.name_bytes).ok_or(HelloError::Malformed("the name of the array"))?;
        let version = text(&layout.version, layout.version_bytes).ok_or(HelloError::Malformed("the version"))?;
        if name.is_empty() {
            return Err(HelloError::Malformed("the name of the array"));
        }
        let max_body_bytes = layout.max_body_bytes.get();
        let window_frames = layout.window_frames.get();
        if max_body_bytes == 0 || window_frames == 0 {
            return Err(HelloError::Malformed("a limit is 0"));
        }
        Ok(Self {
            protocols: theirs,
            purpose: Purpose::numbered(layout.purpose).ok_or(HelloError::Malformed("the purpose"))?,
            number: layout.number,
            features: layout.features.get(),
            array: layout.array,
            incarnation: layout.incarnation.get(),
            uptime_us: layout.uptime_us.get(),
            wall_ms: layout.wall_ms.get(),
            max_body_bytes,
            window_frames,
            session: layout.session,
            name,
            version,
        })
    }
}

/// Returns the length and the bytes of a text, cut at a character.
fn padded<const N: usize>(text: &str) -> (u8, [u8; N]) {
    let mut length = text.len().min(N);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    let mut bytes = [0; N];
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    (u8::try_from(length).unwrap_or(u8::MAX), bytes)
}

/// Returns a text that is safe to print.
fn text(bytes: &[u8], length: u8) -> Option<String> {
    let text = std::str::from_utf8(bytes.get(..usize::from(length))?).ok()?;
    text.chars().all(|c| c.is_ascii_graphic() || c == ' ').then(|| text.to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn hello() -> Hello {
        Hello {
            protocols: PROTOCOLS,
            purpose: Purpose::Data,
            number: 2,
            features: 3,
            array: *b"sixteen bytes id",
            incarnation: 4,
            uptime_us: 5,
            wall_ms: 6,
            max_body_bytes: 7,
            window_frames: 8,
            session: *b"a session of two",
            name: "beta".to_owned(),
            version: "0.1.0".to_owned(),
        }
    }

    #[test]
    fn hello_has_the_golden_bytes() {
        let golden = "494249444c494e4b03000300010200000300000000000000736978746565\
                      6e206279746573206964040000000000000005000000000000000600000000000000\
                      0700000008000000612073657373696f6e206f662074776f0405000000000000\
                      62657461";
        let frame = hello().encode();
        assert_eq!(types::hex::encode(&frame.body[..100]), golden);
        assert_eq!(frame.body[100..160], [0; 60]);
        assert_eq!(&frame.body[160..166], b"0.1.0\0");
        assert_eq!(Hello::decode(&frame.body), Ok(hello()));
    }

    #[test]
    fn unknown_protocols_are_refused_before_the_rest() {
        let mut body = hello().encode().body.to_vec();
        (body[8], body[10]) = (7, 9);
        let error = Hello::decode(&body[..12]).unwrap_err();
        assert_eq!(error, HelloError::Protocol { theirs: ProtocolRange { lowest: 7, highest: 9 } });
        assert!(error.to_string().contains("one array speaks 7 to 9, the other 3; update"), "{error}");
        (body[8], body[10]) = (1, 1);
        assert!(Hello::decode(&body).unwrap_err().to_string().contains("one array speaks 1, the other 3; update"));
        (body[8], body[10]) = (0, 9);
        assert_eq!(Hello::decode(&body).map(|hello| hello.protocols.highest), Ok(9));
    }

    #[test]
    fn malformed_hello_is_refused() {
        let refused = |at: usize, value: u8| {
            let mut body = hello().encode().body.to_vec();
            body[at] = value;
            Hello::decode(&body).unwrap_err()
        };
        assert_eq!(refused(0, b'X'), HelloError::NotHello);
        assert_eq!(refused(12, 3), HelloError::Malformed("the purpose"));
        assert_eq!(refused(88, 65), HelloError::Malformed("the name of the array"));
        assert_eq!(refused(88, 0), HelloError::Malformed("the name of the array"));
        assert_eq!(refused(97, 0x1b), HelloError::Malformed("the name of the array"));
        assert_eq!(refused(64, 0), HelloError::Malformed("a limit is 0"));
        assert_eq!(Hello::decode(&hello().encode().body[..191]), Err(HelloError::Malformed("it is too short")));
    }

    #[test]
    fn long_names_are_cut() {
        let long = Hello { name: "n".repeat(70), ..hello() };
        assert_eq!(Hello::decode(&long.encode().body).unwrap().name, "n".repeat(64));
    }
}
