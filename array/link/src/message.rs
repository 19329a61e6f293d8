//! The bodies of the other frames.

use crate::frame::{Frame, Kind};
use bytes::Bytes;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Longest text of a refusal, in bytes.
const MAX_TEXT_BYTES: usize = 512;

/// The cause of a refusal, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Cause {
    /// Any other cause, also one of a later protocol.
    Other = 0,
    /// No common protocol.
    Protocol = 1,
    /// The certificate is not that of a connected array.
    NotConnected = 2,
    /// The connection key is wrong, used or expired.
    Key = 3,
    /// The two arrays are already connected, or a name is taken.
    Conflict = 4,
}

/// The reason for the end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(cause: Cause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into() }
    }

    /// Returns the frame. The text is cut at the limit.
    pub(crate) fn encode(&self) -> Frame {
        let mut length = self.text.len().min(MAX_TEXT_BYTES);
        while !self.text.is_char_boundary(length) {
            length -= 1;
        }
        let cause = U16::new(self.cause as u16);
        Frame::new(Kind::Refuse, [cause.as_bytes(), &self.text.as_bytes()[..length]].concat())
    }

    /// Parses a body. Characters that are not safe to print are replaced.
    pub(crate) fn decode(body: &[u8]) -> Self {
        let (cause, text) = U16::read_from_prefix(body).unwrap_or_default();
        let causes = [Cause::Protocol, Cause::NotConnected, Cause::Key, Cause::Conflict];
        let cause = causes.into_iter().find(|known| *known as u16 == cause.get()).unwrap_or(Cause::Other);
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        Self { cause, text: String::from_utf8_lossy(text).chars().map(printable).collect() }
    }
}

/// Returns a heartbeat with the sender's time in microseconds and its wall clock in milliseconds.
pub(crate) fn ping(sent_us: u64, wall_ms: u64) -> Frame {
    Frame::new(Kind::Ping, two(sent_us, wall_ms))
}

/// Returns the answer to a heartbeat: the sender's time from it, and the own wall clock.
pub(crate) fn pong(sent_us: u64, wall_ms: u64) -> Frame {
    Frame::new(Kind::Pong, two(sent_us, wall_ms))
}

/// Returns the result of a link test.
pub(crate) fn test_result(bytes: u64, micros: u64) -> Frame {
    Frame::new(Kind::TestResult, two(bytes, micros))
}

/// Returns a request for a link test.
pub(crate) fn test_request(millis: u32) -> Frame {
    Frame::new(Kind::TestRequest, U32::new(millis).as_bytes().to_vec())
}

/// Returns the confirmation of a `Bulk` frame.
pub(crate) fn bulk_received(bytes: u32) -> Frame {
    Frame::new(Kind::BulkReceived, U32::new(bytes).as_bytes().to_vec())
}

fn two(first: u64, second: u64) -> Bytes {
    let values = [U64::new(first), U64::new(second)];
    Bytes::copy_from_slice(values.as_bytes())
}

/// Reads the two numbers of a heartbeat, its answer, or a result.
pub(crate) fn two_numbers(body: &[u8]) -> Option<(u64, u64)> {
    let [first, second] = <[U64; 2]>::read_from_bytes(body).ok()?;
    Some((first.get(), second.get()))
}

/// Reads the number of a request or a confirmation.
pub(crate) fn one_number(body: &[u8]) -> Option<u32> {
    U32::read_from_bytes(body).ok().map(U32::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_golden_bytes() {
        let refusal = Refusal::new(Cause::Key, "used");
        let hex = |frame: Frame| types::hex::encode(&frame.body);
        assert_eq!(hex(refusal.encode()), "030075736564");
        assert_eq!(hex(ping(1, 2)), "01000000000000000200000000000000");
        assert_eq!(hex(pong(1, 2)), hex(ping(1, 2)));
        assert_eq!(hex(test_result(1, 2)), hex(ping(1, 2)));
        assert_eq!(hex(test_request(1000)), "e8030000");
        assert_eq!(hex(bulk_received(65536)), "00000100");
        assert_eq!(two_numbers(&ping(1, 2).body), Some((1, 2)));
        assert_eq!(one_number(&test_request(1000).body), Some(1000));
        assert_eq!((two_numbers(&[0; 15]), one_number(&[0; 5])), (None, None));
    }

    #[test]
    fn refusal_is_safe_to_print() {
        let refusal = Refusal::new(Cause::Conflict, "a\x1b[31m\nb");
        assert_eq!(Refusal::decode(&refusal.encode().body), Refusal::new(Cause::Conflict, "a [31m b"));
        assert_eq!(Refusal::decode(&[99, 0, b'x']), Refusal::new(Cause::Other, "x"));
        assert_eq!(Refusal::decode(&[9]).cause, Cause::Other);
        let long = Refusal::new(Cause::Other, "é".repeat(400)).encode();
        assert_eq!(long.body.len(), 514);
    }
}
