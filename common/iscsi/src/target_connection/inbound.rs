//! Collecting the data of one write: immediate, unsolicited and solicited (RFC 7143 4.2.5).

use std::collections::VecDeque;

use bytes::Bytes;

use super::types::CommandCompletion;
use crate::{
    gather::Gather,
    length::len_u32,
    pdu::{DataOut, NO_TAG},
};

/// Why the data of a command cannot be used: the command ends with CHECK CONDITION, ABORTED COMMAND and this ASC/ASCQ
/// (the table of RFC 7143 11.4.7.2); or with TASK ABORTED (SAM-5 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoil {
    /// Unexpected unsolicited data.
    Unexpected,
    /// Incorrect amount of data.
    Amount,
    /// Protocol service CRC error: a data digest, or a hole in the sequence that at recovery level 0 nothing can fill.
    Transport,
    /// Another session has aborted the command.
    Aborted,
}

impl Spoil {
    /// What the command ends with: fixed-format sense data (SPC-4 4.5.3), or none.
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

/// A part of the data that is to be asked for with an R2T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Solicit {
    pub(super) r2t_sn: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// The data of one command on its way in.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// How many bytes are collected.
    expected: u32,
    /// Up to where data has come or was asked for.
    requested: u32,
    data: Gather,
    unsolicited: Option<Sequence>,
    solicited: VecDeque<Sequence>,
    r2t_sn: u32,
    spoil: Option<Spoil>,
}

impl Inbound {
    /// The data of a command of which `expected` bytes are collected. `immediate` came with the command; unsolicited
    /// PDUs follow up to the offset `unsolicited_end`, when there is one.
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

    /// How many bytes are collected.
    pub(super) fn expected(&self) -> u32 {
        self.expected
    }

    /// Nothing of the data is any use.
    pub(super) fn spoil(&mut self, why: Spoil) {
        self.spoil.get_or_insert(why);
        self.data = Gather::default();
    }

    /// Why the data is no use.
    pub(super) fn spoiled(&self) -> Option<Spoil> {
        self.spoil
    }

    /// Whether the initiator still has to send something that is on its way: the end of a sequence.
    pub(super) fn is_open(&self) -> bool {
        self.unsolicited.is_some() || !self.solicited.is_empty()
    }

    /// Whether unsolicited data is on its way: only after it is known what has to be asked for.
    pub(super) fn awaits_unsolicited(&self) -> bool {
        self.unsolicited.is_some()
    }

    /// Whether all data is there.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_open() && self.received() == self.expected
    }

    /// The data, once it is complete.
    pub(super) fn take(&mut self) -> Bytes {
        self.data.take()
    }

    fn received(&self) -> u32 {
        len_u32(self.data.len())
    }

    /// The next R2T to send: none when enough are outstanding, or all data was asked for.
    pub(super) fn solicit(&mut self, transfer_tag: u32, outstanding: u16, burst: u32) -> Option<Solicit> {
        let full = self.solicited.len() >= usize::from(outstanding);
        if full || self.unsolicited.is_some() || self.spoil.is_some() {
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
        Some(Solicit { r2t_sn, offset, length })
    }

    /// Number of R2Ts that were sent.
    pub(super) fn r2t_count(&self) -> u32 {
        self.r2t_sn
    }

    /// Takes a Data-Out PDU. False when it belongs to no sequence: it is to be ignored then, since it may be on its way
    /// for a sequence that ended early.
    pub(super) fn receive(&mut self, pdu: DataOut, digest_ok: bool) -> bool {
        let index = self.solicited.iter().position(|sequence| sequence.transfer_tag == pdu.target_transfer_tag);
        let sequence = match index {
            Some(index) => Some(&mut self.solicited[index]),
            None if pdu.target_transfer_tag == NO_TAG => self.unsolicited.as_mut(),
            None => None,
        };
        let Some(sequence) = sequence else { return false };
        let length = len_u32(pdu.data.len());
        let fault = sequence.fault(&pdu, length, digest_ok).or_else(|| {
            // RFC 7143 13.19: If DataSequenceInOrder is Yes, data sequences are transferred using continuously
            // non-decreasing sequence offsets.
            index.is_some_and(|index| index > 0).then_some(Spoil::Transport)
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
        match fault.or(short.then_some(Spoil::Amount)) {
            Some(why) => self.spoil(why),
            None if self.spoil.is_none() => self.store(pdu.data),
            None => {}
        }
        true
    }

    /// Appends data: in order, so that the buffer is never filled with zeros first.
    fn store(&mut self, data: Bytes) {
        // Unsolicited data may reach beyond what is collected.
        let room = (self.expected - self.received().min(self.expected)) as usize;
        let data = data.slice(..data.len().min(room));
        // Only as much memory is taken as was granted: `requested` is zero until the command's turn.
        self.data.push(data, self.requested as usize);
    }
}

impl Sequence {
    /// What is wrong with the next PDU of the sequence.
    fn fault(&self, pdu: &DataOut, length: u32, digest_ok: bool) -> Option<Spoil> {
        let end = pdu.buffer_offset.checked_add(length);
        if !digest_ok || pdu.data_sn != self.next_data_sn || pdu.buffer_offset != self.next_offset {
            Some(Spoil::Transport)
        } else if end.is_none_or(|end| end > self.end) {
            Some(Spoil::Amount)
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
    fn immediate_unsolicited_and_solicited_data_join() {
        let mut inbound = Inbound::new(10, Bytes::from_static(b"ab"), Some(5));
        assert!(inbound.is_open());
        assert_eq!(inbound.solicit(1, 2, 3), None, "not while unsolicited data is on its way");
        assert!(inbound.receive(data_out(NO_TAG, 0, 2, b"c", false), true));
        assert!(inbound.receive(data_out(NO_TAG, 1, 3, b"d", true), true));
        assert_eq!(inbound.solicit(1, 2, 3), Some(Solicit { r2t_sn: 0, offset: 4, length: 3 }));
        assert_eq!(inbound.solicit(2, 2, 3), Some(Solicit { r2t_sn: 1, offset: 7, length: 3 }));
        assert_eq!(inbound.solicit(3, 2, 3), None, "two are outstanding");
        assert!(inbound.receive(data_out(1, 0, 4, b"efg", true), true));
        assert!(inbound.receive(data_out(2, 0, 7, b"hi", false), true));
        assert!(!inbound.is_complete());
        assert!(inbound.receive(data_out(2, 1, 9, b"j", true), true));
        assert!(inbound.is_complete());
        assert_eq!(&inbound.take()[..], b"abcdefghij");
    }

    #[test]
    fn data_in_one_piece_is_not_copied() {
        let data = Bytes::from(vec![7; 4096]);
        let mut inbound = Inbound::new(4096, data.clone(), None);
        assert_eq!(inbound.take().as_ptr(), data.as_ptr());
    }

    #[test]
    fn each_fault_spoils_and_the_sequence_is_still_waited_for() {
        let cases = [
            (data_out(1, 27, 0, b"ab", false), true, Spoil::Transport),
            (data_out(1, 0, 1, b"ab", false), true, Spoil::Transport),
            (data_out(1, 0, 0, b"ab", false), false, Spoil::Transport),
            (data_out(1, 0, 0, b"ab", true), true, Spoil::Amount),
        ];
        for (pdu, digest_ok, why) in cases {
            let ends = pdu.final_;
            let mut inbound = Inbound::new(4, Bytes::new(), None);
            inbound.solicit(1, 1, 4);
            assert!(inbound.receive(pdu, digest_ok));
            assert_eq!(inbound.spoiled(), Some(why));
            assert_eq!(inbound.is_open(), !ends);
            if !ends {
                assert!(inbound.receive(data_out(1, 1, 2, b"cd", true), true));
            }
            assert!(!inbound.is_open());
            assert_eq!(inbound.spoiled(), Some(why));
            assert_eq!(inbound.solicit(2, 1, 4), None);
        }
    }

    #[test]
    fn data_beyond_its_sequence_spoils() {
        let mut inbound = Inbound::new(8, Bytes::new(), None);
        inbound.solicit(1, 1, 4);
        assert!(inbound.receive(data_out(1, 0, 0, b"abcde", true), true));
        assert_eq!(inbound.spoiled(), Some(Spoil::Amount));
    }

    #[test]
    fn sequences_out_of_order_spoil() {
        let mut inbound = Inbound::new(8, Bytes::new(), None);
        inbound.solicit(1, 2, 4);
        inbound.solicit(2, 2, 4);
        assert!(inbound.receive(data_out(2, 0, 4, b"efgh", true), true));
        assert_eq!(inbound.spoiled(), Some(Spoil::Transport));
    }

    #[test]
    fn data_for_no_sequence_is_not_taken() {
        let mut inbound = Inbound::new(8, Bytes::new(), None);
        assert!(!inbound.receive(data_out(9, 0, 0, b"ab", true), true));
        assert!(!inbound.receive(data_out(NO_TAG, 0, 0, b"ab", true), true));
        assert_eq!(inbound.spoiled(), None);
    }

    #[test]
    fn what_is_more_than_collected_is_dropped() {
        let mut inbound = Inbound::new(3, Bytes::from_static(b"ab"), Some(6));
        assert!(inbound.receive(data_out(NO_TAG, 0, 2, b"cdef", true), true));
        assert!(inbound.is_complete());
        assert_eq!(&inbound.take()[..], b"abc");
    }
}
