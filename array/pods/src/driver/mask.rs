//! The mask: what the array that yields cannot vouch for. The source adds it to its deltas.

use super::Driver;
use crate::environment::Environment;
use crate::forward::Session;
use crate::handle::{Input, LinkSession};
use crate::mask::{MaskReader, MaskTaking, divide, is_whole, whole_volume};
use crate::message::{MASK_PART, MaskPart, PodMessage};
use engine::{DeltaOp, Op, OpError, Reply};
use platform::planted::is_planted;
use pod::Event;
use types::{StreamId, VolumeId};

/// Returns the mask of this array: its tail, its deltas, and its volumes.
fn own_mask(environment: &Environment, stream: StreamId) -> Vec<MaskPart> {
    let engine = &environment.engine;
    let volumes = engine.stream_volumes(stream);
    let tail = engine.stream_status(stream).and_then(|status| status.tail);
    tracing::debug!(%stream, ?tail, "the tail goes into the mask");
    let tail = tail.map(|tail| if is_planted("mask-without-tail") { Vec::new() } else { tail });
    let (mut is_all, mut ranges) = (tail.is_none() || is_planted("resend-all"), tail.unwrap_or_default());
    for (volume, blocks) in &volumes {
        match crate::mask::delta_of(&**engine, *volume, *blocks) {
            Ok(found) => ranges.extend(found.into_iter().map(|range| (*volume, range))),
            Err(OpError::NoSuchVolume(_)) => {}
            Err(error) => {
                tracing::warn!(%stream, %volume, "a delta cannot be read, so the array gets all content: {error}");
                is_all = true;
            }
        }
    }
    divide(is_all, volumes.into_iter().map(|(volume, _)| volume).collect(), ranges, MASK_PART)
}

impl Driver {
    /// The mask of the other array is wanted. Until `Start`, no volume is made or removed: the
    /// other array has to know of each.
    pub(super) fn take_mask(&mut self, session: u64, is_all: bool) {
        if self.session == Some(session) {
            self.handle.gate.hold_objects(true);
            self.wanted_mask = Some((session, is_all));
            self.begin_mask();
        }
    }

    /// Begins to take the mask, once no volume is being made or removed.
    pub(super) fn begin_mask(&mut self) {
        if self.wanted_mask.is_none() || !self.handle.gate.has_still_objects() {
            return;
        }
        let Some((session, is_all)) = self.wanted_mask.take() else { return };
        self.masks += 1;
        self.taking = Some(MaskTaking::new(self.masks, session));
        if is_all {
            self.add_all(|_| true);
            self.finish_mask();
        } else {
            self.reading = Some(MaskReader::default());
            self.send(&PodMessage::MaskRequest);
        }
    }

    /// A part of the mask has arrived.
    pub(super) fn take_part(&mut self, part: MaskPart) {
        let (Some(taking), Some(reader)) = (&mut self.taking, &mut self.reading) else { return };
        if part.ranges.iter().any(|(volume, _)| volume.stream() != Some(self.handle.stream) || volume.is_delta()) {
            tracing::warn!(stream = %self.handle.stream, "a mask of the other array names a volume of another pod");
            return self.leave_session();
        }
        reader.volumes.extend(&part.volumes);
        let (adds, number) = (MaskReader::requests(&part), taking.number);
        taking.pending += adds.len();
        adds.into_iter().for_each(|add| self.submit(Op::Delta(add), move |result| Input::Added(number, result)));
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
        let Some(number) = self.taking.as_ref().map(|taking| taking.number) else { return };
        let volumes = self.environment.engine.stream_volumes(self.handle.stream);
        for (volume, _) in volumes.into_iter().filter(|(volume, _)| is_wanted(*volume)) {
            self.taking.iter_mut().for_each(|taking| taking.pending += 1);
            let add = DeltaOp::Add { volume, ranges: whole_volume() };
            self.submit(Op::Delta(add), move |result| Input::Added(number, result));
        }
    }

    fn finish_mask(&mut self) {
        self.taking.iter_mut().for_each(|taking| taking.is_complete = true);
        self.judge_mask();
    }

    /// Blocks of a mask are in a delta.
    pub(super) fn mask_added(&mut self, number: u64, result: &Result<Reply, OpError>) {
        let Some(taking) = self.taking.as_mut().filter(|taking| taking.number == number) else { return };
        taking.pending -= 1;
        match result {
            // The other array has a volume that is gone here.
            Ok(_) | Err(OpError::NoSuchVolume(_)) => self.judge_mask(),
            Err(error) => {
                tracing::warn!(stream = %self.handle.stream, "the mask of the other array is not taken: {error}");
                self.leave_session();
            }
        }
    }

    fn judge_mask(&mut self) {
        if let Some(taking) = self.taking.take_if(|taking| taking.is_complete && taking.pending == 0) {
            self.handle.step(Event::MaskTaken { session: taking.session });
        }
    }

    /// Sends the mask of this array. It may take a while to read, so it has a thread of its own.
    pub(super) fn send_mask(&self, link: LinkSession, session: Session) {
        let (environment, stream, array) = (self.environment.clone(), self.handle.stream, self.handle.array.clone());
        let sending = platform::threads::spawn("pod-mask", move || {
            for part in own_mask(&environment, stream) {
                let message = PodMessage::Mask(part).encode(session);
                if !environment.carrier.send(&array, link, stream, message) {
                    return;
                }
            }
        });
        if let Err(error) = sending {
            tracing::error!(%stream, "no thread for the mask: {error}");
        }
    }

    /// Returns the volumes whose existence this array cannot vouch for: they are made again.
    pub(super) fn stale_volumes(&self) -> Vec<VolumeId> {
        let status = self.environment.engine.stream_status(self.handle.stream);
        let tail = status.and_then(|status| status.tail).unwrap_or_default();
        tail.iter().filter(|(_, range)| is_whole(range)).map(|(volume, _)| *volume).collect()
    }
}
