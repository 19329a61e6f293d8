//! Collects the data of one write: immediate, unsolicited and solicited (RFC 7143 4.2.5).

use std::collections::VecDeque;

use bytes::Bytes;

use super::types::CommandCompletion;
use crate::{
    gather::Gather,
    length::len_u32,
    pdu::{DataOut, NO_TAG},
};

/// Why the data of a command cannot be used. The command ends with CHECK CONDITION, ABORTED COMMAND
/// and the ASC/ASCQ of RFC 7143 11.4.7.2, or with TASK ABORTED (SAM-5 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataFault {
    /// Unexpected unsolicited data.
    Unexpected,
    /// Incorrect amount of data.
    Amount,
    /// Protocol service CRC error: a wrong data digest, or a gap in the sequence that recovery
    /// level 0 cannot fill.
    Transport,
    /// Another session has aborted the command.
    Aborted,
}

impl DataFault {
    /// Returns the completion of the command: fixed-format sense data (SPC-4 4.5.3), or none.
    pub(super) fn completion(self) -> CommandCompletion {
        let (asc, ascq) = match self {
            Self::Unexpected => (0x0c, 0x0c),
            Self::Amount => (0x0c, 0x0d),
            Self::Transport => (0x47, 0x05),
            Self::Aborted => return CommandCompletion::status(TASK_ABORTED).wanting(0),
        };
        let mut sense = [0u8; 18];
        (sense[0], sense[2], sense[7], sense[12], sense[13]) = (0x70, ABORTED_COMMAND, 10, asc, ascq);
        CommandCompletion::check_condition(Bytes::copy_from_slice(&sense)).wanting(0)
    }
}

/// SCSI status TASK ABORTED (SAM-5 5.3).
const TASK_ABORTED: u8 = 0x40;

/// Sense key ABORTED COMMAND (SPC-4 4.5.6).
const ABORTED_COMMAND: u8 = 0x0b;

/// A run of Data-Out PDUs that ends with the F bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sequence {
    transfer_tag: u32,
    next_data_sn: u32,
    next_offset: u32,
    end: u32,
}

/// A part of the data to request with an R2T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataRequest {
    pub(super) r2t_sn: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// The write data of one command while it arrives.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// Number of bytes to collect.
    expected: u32,
    /// End offset of the data received or requested.
    requested: u32,
    data: Gather,
    unsolicited: Option<Sequence>,
    solicited: VecDeque<Sequence>,
    r2t_sn: u32,
    data_fault: Option<DataFault>,
}

impl Inbound {
    /// Starts to collect `expected` bytes. `immediate` arrived with the command. If
    /// `unsolicited_end` is set, unsolicited PDUs follow up to that offset.
    pub(super) fn new(expected: u32, immediate: Bytes, unsolicited_end: Option<u32>) -> Self {
        let mut inbound = Self { expected, ..Self::default() };
        let have = len_u32(immediate.len());
        inbound.store(immediate);
        inbound.unsolicited = unsolicited_end.map(|end| Sequence {
            transfer_tag: NO_TAG,
            next_data_sn: 0,
            next_offset: have,
            end: end.max(have),
        });
        inbound
    }

    /// Number of bytes to collect.
    pub(super) fn expected(&self) -> u32 {
        self.expected
    }

    /// Marks the data as unusable and drops it.
    pub(super) fn set_fault(&mut self, why: DataFault) {
        self.data_fault.get_or_insert(why);
        self.data = Gather::default();
    }

    /// Returns why the data is unusable.
    pub(super) fn fault(&self) -> Option<DataFault> {
        self.data_fault
    }

    /// Returns true if a sequence is incomplete, so that more PDUs will arrive.
    pub(super) fn is_open(&self) -> bool {
        self.unsolicited.is_some() || !self.solicited.is_empty()
    }

    /// Returns true if unsolicited data is still arriving. Its length decides what to request.
    pub(super) fn awaits_unsolicited(&self) -> bool {
        self.unsolicited.is_some()
    }

    /// Returns true if all data has arrived.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_open() && self.received() == self.expected
    }

    /// Returns the complete data.
    pub(super) fn take(&mut self) -> Bytes {
        self.data.take()
    }

    /// Number of bytes received.
    pub(super) fn received(&self) -> u32 {
        len_u32(self.data.len())
    }

    /// Returns the next R2T to send; `None` if enough are outstanding or all data was requested.
    pub(super) fn next_request(&mut self, transfer_tag: u32, outstanding: u16, burst: u32) -> Option<DataRequest> {
        let full = self.solicited.len() >= usize::from(outstanding);
        if full || self.unsolicited.is_some() || self.data_fault.is_some() {
            return None;
        }
        let offset = self.requested.max(self.received());
        let length = (self.expected - offset.min(self.expected)).min(burst);
        if length == 0 {
            return None;
        }
        self.requested = offset + length;
        let sequence = Sequence { transfer_tag, next_data_sn: 0, next_offset: offset, end: offset + length };
        self.solicited.push_back(sequence);
        let r2t_sn = self.r2t_sn;
        self.r2t_sn += 1;
        Some(DataRequest { r2t_sn, offset, length })
    }

    /// Number of R2Ts sent.
    pub(super) fn r2t_count(&self) -> u32 {
        self.r2t_sn
    }

    /// Adds a Data-Out PDU. Returns false if it belongs to no sequence. The PDU is then ignored: it
    /// may be in flight for a sequence that ended early.
    pub(super) fn receive(&mut self, pdu: DataOut, digest_ok: bool) -> bool {
        let index = self.solicited.iter().position(|sequence| sequence.transfer_tag == pdu.target_transfer_tag);
        let sequence = match index {
            Some(index) => Some(&mut self.solicited[index]),
            None if pdu.target_transfer_tag == NO_TAG => self.unsolicited.as_mut(),
            None => None,
        };
        let Some(sequence) = sequence else { return false };
        let length = len_u32(pdu.data.len());
        let fault = sequence.check(&pdu, length, digest_ok).or_else(|| {
            // RFC 7143 13.19: If DataSequenceInOrder is Yes, data sequences are transferred using
            // continuously non-decreasing sequence offsets.
            index.is_some_and(|index| index > 0).then_some(DataFault::Transport)
        });
        sequence.next_data_sn = sequence.next_data_sn.wrapping_add(1);
        sequence.next_offset = sequence.next_offset.saturating_add(length);
        let short = index.is_some() && pdu.final_ && sequence.next_offset < sequence.end;
        let ended = pdu.final_ || (index.is_some() && sequence.next_offset >= sequence.end);
        if ended {
            match index {
                Some(index) => drop(self.solicited.remove(index)),
                None => self.unsolicited = None,
            }
        }
        match fault.or(short.then_some(DataFault::Amount)) {
            Some(why) => self.set_fault(why),
            None if self.data_fault.is_none() => self.store(pdu.data),
            None => {}
        }
        true
    }

    /// Appends data in order, so that the buffer is never zero-filled first.
    fn store(&mut self, data: Bytes) {
        // Unsolicited data may exceed the number of bytes to collect.
        let room = (self.expected - self.received().min(self.expected)) as usize;
        let data = data.slice(..data.len().min(room));
        // Memory is allocated only as granted: `requested` is zero until the command starts.
        self.data.push(data, self.requested as usize);
    }
}

impl Sequence {
    /// Returns the fault of the next PDU of the sequence, if any.
    fn check(&self, pdu: &DataOut, length: u32, digest_ok: bool) -> Option<DataFault> {
        let end = pdu.buffer_offset.checked_add(length);
        if !digest_ok || pdu.data_sn != self.next_data_sn || pdu.buffer_offset != self.next_offset {
            Some(DataFault::Transport)
        } else if end.is_none_or(|end| end > self.end) {
            Some(DataFault::Amount)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_out(tag: u32, data_sn: u32, offset: u32, data: &'static [u8], final_: bool) -> DataOut {
        DataOut {
            final_,
            target_transfer_tag: tag,
            data_sn,
            buffer_offset: offset,
            data: Bytes::from_static(data),
            ..DataOut::default()
        }
    }

    #[test]
    fn immediate_unsolicited_solicited_data_are_joined() {
        let mut inbound = Inbound::new(10, Bytes::from_static(b"ab"), Some(5));
        assert!(inbound.is_open());
        assert_eq!(inbound.next_request(1, 2, 3), None, "not before the unsolicited data has arrived");
        assert!(inbound.receive(data_out(NO_TAG, 0, 2, b"c", false), true));
        assert!(inbound.receive(data_out(NO_TAG, 1, 3, b"d", true), true));
        assert_eq!(inbound.next_request(1, 2, 3), Some(DataRequest { r2t_sn: 0, offset: 4, length: 3 }));
        assert_eq!(inbound.next_request(2, 2, 3), Some(DataRequest { r2t_sn: 1, offset: 7, length: 3 }));
        assert_eq!(inbound.next_request(3, 2, 3), None, "two are outstanding");
        assert!(inbound.receive(data_out(1, 0, 4, b"efg", true), true));
        assert!(inbound.receive(data_out(2, 0, 7, b"hi", false), true));
        assert!(!inbound.is_complete());
        assert!(inbound.receive(data_out(2, 1, 9, b"j", true), true));
        assert!(inbound.is_complete());
        assert_eq!(&inbound.take()[..], b"abcdefghij");
    }

    #[test]
    fn single_part_write_data_is_not_copied() {
        let data = Bytes::from(vec![7; 4096]);
        let mut inbound = Inbound::new(4096, data.clone(), None);
        assert_eq!(inbound.take().as_ptr(), data.as_ptr());
    }

    #[test]
    fn data_fault_still_awaits_the_end_of_its_sequence() {
        let cases = [
            (data_out(1, 27, 0, b"ab", false), true, DataFault::Transport),
            (data_out(1, 0, 1, b"ab", false), true, DataFault::Transport),
            (data_out(1, 0, 0, b"ab", false), false, DataFault::Transport),
            (data_out(1, 0, 0, b"ab", true), true, DataFault::Amount),
        ];
        for (pdu, digest_ok, why) in cases {
            let ends = pdu.final_;
            let mut inbound = Inbound::new(4, Bytes::new(), None);
            inbound.next_request(1, 1, 4);
            assert!(inbound.receive(pdu, digest_ok));
            assert_eq!(inbound.fault(), Some(why));
            assert_eq!(inbound.is_open(), !ends);
            if !ends {
                assert!(inbound.receive(data_out(1, 1, 2, b"cd", true), true));
            }
            assert!(!inbound.is_open());
            assert_eq!(inbound.fault(), Some(why));
            assert_eq!(inbound.next_request(2, 1, 4), None);
        }
    }

    #[test]
    fn data_beyond_its_sequence_is_a_fault() {
        let mut inbound = Inbound::new(8, Bytes::new(), None);
        inbound.next_request(1, 1, 4);
        assert!(inbound.receive(data_out(1, 0, 0, b"abcde", true), true));
        assert_eq!(inbound.fault(), Some(DataFault::Amount));
    }

    #[test]
    fn out_of_order_sequence_is_a_fault() {
        let mut inbound = Inbound::new(8, Bytes::new(), None);
        inbound.next_request(1, 2, 4);
        inbound.next_request(2, 2, 4);
        assert!(inbound.receive(data_out(2, 0, 4, b"efgh", true), true));
        assert_eq!(inbound.fault(), Some(DataFault::Transport));
    }

    #[test]
    fn data_for_unknown_sequence_is_ignored() {
        let mut inbound = Inbound::new(8, Bytes::new(), None);
        assert!(!inbound.receive(data_out(9, 0, 0, b"ab", true), true));
        assert!(!inbound.receive(data_out(NO_TAG, 0, 0, b"ab", true), true));
        assert_eq!(inbound.fault(), None);
    }

    #[test]
    fn data_beyond_the_expected_length_is_dropped() {
        let mut inbound = Inbound::new(3, Bytes::from_static(b"ab"), Some(6));
        assert!(inbound.receive(data_out(NO_TAG, 0, 2, b"cdef", true), true));
        assert!(inbound.is_complete());
        assert_eq!(&inbound.take()[..], b"abc");
    }
}
