//! Work of administrators on pods that the state machine does not know.

use super::{PATIENCE, PodError, Pods};
use crate::handle::{Input, LinkSession};
use crate::message::PodMessage;
use crate::persist;
use crate::verify::{VerifiedPod, Verifier, VerifyMessage, VerifyStatus};
use bytes::Bytes;
use engine::{Op, call};
use platform::threads::mpsc;
use pod::{Machine, Role};
use std::sync::Weak;
use types::StreamId;

/// A pod that is verified.
struct Verified {
    pods: Weak<Pods>,
    stream: StreamId,
}

impl VerifiedPod for Verified {
    fn send(&self, message: Bytes) {
        let Some(pods) = self.pods.upgrade() else { return };
        let Ok(handle) = pods.handle(self.stream) else { return };
        let link = pods.links.read().get(&handle.array).copied();
        if let Some(link) = link {
            pods.send(&handle.array, link, self.stream, 0, &PodMessage::Verify(message));
        }
    }

    fn epoch(&self) -> Result<Option<u32>, String> {
        let pods = self.pods.upgrade().ok_or("the array stops")?;
        let handle = pods.handle(self.stream).map_err(|error| error.to_string())?;
        handle.with_machine(|machine| {
            let stored = machine.stored();
            match stored.role {
                Role::Sync if stored.sequencer != machine.side() => {
                    Err("the other array orders its changes now".to_owned())
                }
                Role::Sync => Ok(Machine::is_in_step(machine).then_some(stored.epoch.0)),
                Role::Solo => Ok(None),
                _ => Err("this array does not serve it".to_owned()),
            }
        })
    }
}

impl Pods {
    /// Begins to compare the content of a pod on both arrays. This array orders its changes.
    ///
    /// # Errors
    ///
    /// The reason in words.
    pub fn verify(&self, stream: StreamId) -> Result<(), PodError> {
        self.handle(stream)?;
        let pod = Box::new(Verified { pods: self.this.clone(), stream });
        self.verifier.start(stream, pod).map_err(PodError::Failed)
    }

    /// Stops that. Does not wait for the other array.
    ///
    /// # Errors
    ///
    /// It does not run.
    pub fn stop_verify(&self, stream: StreamId) -> Result<(), PodError> {
        self.handle(stream)?;
        self.verifier.stop(stream).map_err(PodError::Failed)
    }

    /// Returns the last verification of a pod, by this array or the other one.
    pub fn verification(&self, stream: StreamId) -> Option<VerifyStatus> {
        self.handle(stream).ok().and_then(|_| self.verifier.status(stream))
    }

    /// Returns the bytes of a pod that are known to differ, and when the first difference was
    /// found, in milliseconds since 1970.
    pub fn difference(&self, stream: StreamId) -> Option<(u64, u64)> {
        self.verifier.difference(stream)
    }

    /// Removes what verifications have left: after a restart, or a hand-over. To be called from
    /// time to time. Blocks.
    pub fn tidy_verifications(&self) {
        self.streams().into_iter().for_each(|stream| self.verifier.tidy(stream));
    }

    /// Returns the space of the array's pool.
    pub fn space(&self) -> engine::PoolSpace {
        self.environment.engine.space()
    }

    /// Removes a pod from this array, with its volumes and snapshots, although the other array has
    /// not removed it: that one is gone, or has no such pod any more. Blocks.
    ///
    /// # Errors
    ///
    /// This array serves the pod, or the other array still has it, or something fails.
    pub fn forget_pod(&self, stream: StreamId) -> Result<(), PodError> {
        let (reply, answer) = mpsc::channel();
        self.handle(stream)?.give(Input::Forget(reply));
        match answer.recv_timeout(PATIENCE) {
            Ok(result) => result.map(|()| self.forget(stream)).map_err(PodError::Failed),
            Err(_) => Err(PodError::Failed("the pod does not answer".to_owned())),
        }
    }

    /// The array was put back to an image of an earlier time: its content of these pods does not
    /// count. Durable for all of them at once, before one of them starts, because the next start of
    /// the array may not say it again. Blocks.
    ///
    /// # Errors
    ///
    /// The state of a pod cannot be read or stored. No pod may be started then.
    pub fn declare_restored(&self, streams: &[StreamId]) -> Result<(), PodError> {
        let engine = &self.environment.engine;
        let mut changes = Vec::new();
        for stream in streams {
            let stored = persist::load(&**engine, *stream).map_err(PodError::Failed)?;
            changes.extend(stored.as_ref().and_then(persist::hurt).map(|hurt| persist::put(*stream, &hurt)));
        }
        if changes.is_empty() {
            return Ok(());
        }
        call(&**engine, Op::Change(changes)).map_err(|error| PodError::Failed(error.to_string()))?;
        tracing::warn!("the array was put back to an image: its content of pods does not count; later starts know it");
        Ok(())
    }

    /// Takes a message about a verification.
    pub(super) fn take_verify(
        &self,
        array: &str,
        link: LinkSession,
        stream: StreamId,
        body: &[u8],
    ) -> Result<(), String> {
        match Verifier::read(stream, body)? {
            VerifyMessage::Answer(answer) => self.verifier.answered(stream, answer),
            VerifyMessage::Question(question) if self.verifier.may_answer(stream) => {
                let (pods, array) = (self.this.clone(), array.to_owned());
                // It reads the drive.
                self.environment.runtime.spawn_blocking(move || {
                    let Some(pods) = pods.upgrade() else { return };
                    let answer = pods.verifier.answer(stream, &question);
                    pods.send(&array, link, stream, 0, &PodMessage::Verify(answer));
                });
            }
            VerifyMessage::Question(_) => {}
            VerifyMessage::Outcome(outcome) => {
                let pods = self.this.clone();
                // It is stored.
                self.environment.runtime.spawn_blocking(move || {
                    let pods = pods.upgrade().filter(|pods| pods.handle(stream).is_ok());
                    pods.into_iter().for_each(|pods| pods.verifier.learn(stream, outcome.clone()));
                });
            }
        }
        Ok(())
    }
}
