//! The stream is removed at both arrays, and made again.

use super::{Open, World, failed};
use crate::history::SimViolation;
use crate::pair::contents::{Entry, STREAM, bytes_of};
use engine::{Change, LogOp, Op};
use types::{Lba, Period, Position, VolumeId};

/// Attempts of a removal that may be interrupted.
const MAX_INTERRUPTED: u32 = 3;
/// Logical blocks of the write to a volume that is in no stream.
const WRITTEN_BLOCKS: u64 = 8;

impl World<'_> {
    /// Removes the stream of two arrays that are in step. Its volumes change as plain volumes; then
    /// both arrays have a stream with the same number again.
    pub(super) fn renew(&mut self) -> Result<(), SimViolation> {
        if !self.run_until(|world| Ok(world.is_quiet(0) && world.is_quiet(1) && !world.has_messages()))? {
            return Ok(());
        }
        for node in [self.sequencer, 1 - self.sequencer] {
            self.close(node)?;
            self.await_durable(node)?;
        }
        self.disconnect();
        for node in 0..2 {
            self.remove(node)?;
        }
        self.sent.clear();
        self.answered = Position(0);
        self.change_plainly()?;
        for node in 0..2 {
            if self.rng.percent(30) {
                self.stop(node, true);
                self.nodes[node].open()?;
                self.check_contents(node)?;
            }
            self.nodes[node].core()?.create_stream(STREAM).map_err(failed("create the stream again"))?;
            self.run_until(|world| Ok(world.status(node)?.is_ready))?;
            if self.status(node)?.position != Position(0) || !self.status(node)?.is_delta_empty {
                return Err(SimViolation::new("a new stream has a position, or a delta"));
            }
        }
        self.totals.renewed += 1;
        self.begin_sync()
    }

    /// Removes the stream of an array, which may end in between: the stream is whole then, or gone.
    fn remove(&mut self, node: usize) -> Result<(), SimViolation> {
        for attempt in 0.. {
            let crash_at = (attempt < MAX_INTERRUPTED && self.rng.percent(40)).then(|| self.rng.between(1, 40));
            self.nodes[node].core()?.remove_stream(STREAM).map_err(failed("remove the stream"))?;
            self.nodes[node].arm(crash_at);
            let is_gone = self.run_until(|world| Ok(world.nodes[node].core()?.stream_status(STREAM).is_none()))?;
            self.nodes[node].arm(None);
            if is_gone {
                break;
            }
            self.stop(node, false);
            self.nodes[node].fsck()?;
            self.nodes[node].open()?;
            let Some(status) = self.nodes[node].core()?.stream_status(STREAM) else { break };
            self.nodes[node].cut_to(status.period, status.position)?;
        }
        self.nodes[node].audit()
    }

    /// Changes volumes and a value in the same way at both arrays.
    fn change_plainly(&mut self) -> Result<(), SimViolation> {
        let (source, destination) = (STREAM.volume(0), STREAM.volume(1));
        let aside = VolumeId(2);
        let first = self.rng.next_u64();
        let numbers: Vec<u64> = (0..WRITTEN_BLOCKS).map(|block| first.wrapping_add(block)).collect();
        let (lba, data) = (Lba(0), bytes_of(&numbers));
        let value = Change::Put { key: b"renewed".to_vec(), value: first.to_le_bytes().to_vec() };
        let changes = vec![
            Change::CopyVolume { source, destination: aside },
            Change::CopyVolume { source: aside, destination },
            Change::DeleteVolume { volume: aside },
            value.clone(),
        ];
        for node in 0..2 {
            let write = Op::Write { volume: source, lba, data: data.clone(), fua: false };
            for op in [write, Op::Change(changes.clone())] {
                let tag = self.submit(node, op, Open::Own)?;
                self.run_until(|world| Ok(!world.open.contains_key(&(node, tag))))?;
            }
            let ops = vec![
                LogOp::Write { volume: source, lba, data: data.clone() },
                LogOp::CopyVolume { source, destination },
            ];
            let values = vec![value.clone()];
            let place = (Period(0), Position(0));
            let node = &mut self.nodes[node];
            node.given(Entry { values, ..Entry::new(place.0, place.1, ops) });
            node.promised = node.entries.len();
        }
        Ok(())
    }
}
