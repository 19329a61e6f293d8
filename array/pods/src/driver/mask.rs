//! The mask: what the array that yields cannot vouch for. The source adds it to its deltas.

use super::{Driver, Input};
use crate::forward::Session;
use crate::mask::{MaskReader, MaskTaking};
use crate::message::{MASK_PART, MaskPart, PodMessage};
use engine::{DeltaOp, Op, OpError, Reply, WHOLE_VOLUME_BLOCKS};
use pod::Event;
use types::{BlockRange, Lba, VolumeId};

/// Returns the range of a volume of the largest size: all of any volume.
pub(super) fn whole_volume() -> Vec<BlockRange> {
    BlockRange::new(Lba(0), WHOLE_VOLUME_BLOCKS).into_iter().collect()
}

fn is_whole(range: &BlockRange) -> bool {
    range.start() == Lba(0) && range.blocks() >= WHOLE_VOLUME_BLOCKS
}

impl Driver {
    /// Begins to take the mask of the other array. Until `Start`, no volume is made or removed: the
    /// other array has to know of each.
    pub(super) fn take_mask(&mut self, session: u64, is_all: bool) {
        let Some(own) = self.session.filter(|own| super::peer::number_of(*own) == session) else { return };
        self.handle.gate.hold_objects(true);
        self.taking = Some(MaskTaking::new(session));
        if is_all {
            self.add_all(|_| true);
            self.finish_mask();
        } else {
            self.reading = Some(MaskReader::default());
            self.send(own, &PodMessage::MaskRequest);
        }
    }

    /// A part of the mask has arrived.
    pub(super) fn take_part(&mut self, part: MaskPart) {
        let (Some(taking), Some(reader)) = (&mut self.taking, &mut self.reading) else { return };
        reader.volumes.extend(&part.volumes);
        let adds = MaskReader::requests(&part);
        taking.pending += adds.len();
        adds.into_iter().for_each(|add| self.submit(Op::Delta(add), Input::Added));
        if part.is_all {
            self.add_all(|_| true);
        }
        if part.is_last {
            let held = self.reading.take().unwrap_or_default().volumes;
            self.add_all(|volume| !held.contains(&volume));
            self.finish_mask();
        }
    }

    /// Adds all of some volumes.
    fn add_all(&mut self, is_wanted: impl Fn(VolumeId) -> bool) {
        let contents = self.environment.objects.contents(self.handle.stream);
        for volume in contents.into_iter().filter(|volume| is_wanted(*volume)) {
            self.taking.iter_mut().for_each(|taking| taking.pending += 1);
            self.submit(Op::Delta(DeltaOp::Add { volume, ranges: whole_volume() }), Input::Added);
        }
    }

    fn finish_mask(&mut self) {
        self.taking.iter_mut().for_each(|taking| taking.is_complete = true);
        self.judge_mask();
    }

    /// Blocks of the mask are in a delta.
    pub(super) fn mask_added(&mut self, result: &Result<Reply, OpError>) {
        let Some(taking) = &mut self.taking else { return };
        taking.pending -= 1;
        match result {
            // The other array has a volume that is gone here.
            Ok(_) | Err(OpError::NoSuchVolume(_)) => self.judge_mask(),
            Err(error) => {
                tracing::warn!(stream = %self.handle.stream, "the mask of the other array is not taken: {error}");
                let reason = error.to_string();
                self.taking = None;
                if let Some(session) = self.session {
                    self.environment.carrier.end_session(&self.handle.array, session, &reason);
                }
            }
        }
    }

    fn judge_mask(&mut self) {
        if let Some(taking) = self.taking.take_if(|taking| taking.is_complete && taking.pending == 0) {
            self.handle.step(Event::MaskTaken { session: taking.session });
        }
    }

    /// Sends the mask of this array: its tail, its deltas, and its volumes.
    pub(super) fn send_mask(&self, session: Session) {
        let (engine, stream) = (&self.environment.engine, self.handle.stream);
        let contents = self.environment.objects.contents(stream);
        let volumes = contents.iter().copied().filter(|volume| engine.volume_space(*volume).is_some()).collect();
        let tail = engine.stream_status(stream).and_then(|status| status.tail);
        let mut ranges = tail.clone().unwrap_or_default();
        let mut is_all = tail.is_none();
        for volume in contents {
            match crate::mask::delta_of(&**engine, volume) {
                Ok(found) => ranges.extend(found.into_iter().map(|range| (volume, range))),
                Err(OpError::NoSuchVolume(_)) => {}
                // A delta that cannot be read is all of its volume.
                Err(_) => is_all = true,
            }
        }
        for part in MaskPart::parts(is_all, volumes, ranges, MASK_PART) {
            self.send(session, &PodMessage::Mask(part));
        }
    }

    /// Returns the volumes whose existence this array cannot vouch for: they are made again.
    pub(super) fn stale_volumes(&self) -> Vec<VolumeId> {
        let status = self.environment.engine.stream_status(self.handle.stream);
        let tail = status.and_then(|status| status.tail).unwrap_or_default();
        tail.iter().filter(|(_, range)| is_whole(range)).map(|(volume, _)| *volume).collect()
    }
}
