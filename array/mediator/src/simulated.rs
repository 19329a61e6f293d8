//! The registers of a mediator in a simulated world: without a store, and without connections.

use crate::client::CallError;
use crate::message::{PodKey, Register, Status};
use crate::register::{Outcome, Registers};
use pinned_tls::Fingerprint;
use platform::clock;

/// The registers of a mediator in a simulated world.
#[derive(Default)]
pub struct SimulatedRegisters(Registers);

impl SimulatedRegisters {
    /// Answers as [`crate::MediatorClient::read`].
    ///
    /// # Errors
    ///
    /// The reason why nothing was done.
    pub fn read(&mut self, of: (PodKey, Fingerprint)) -> Result<Register, CallError> {
        let outcome = self.0.read(&of.0, &of.1);
        self.carry_out(of, outcome).and_then(|held| held.ok_or(CallError::Missing))
    }

    /// Answers as [`crate::MediatorClient::create`].
    ///
    /// # Errors
    ///
    /// The reason why nothing was done.
    pub fn create(
        &mut self,
        of: (PodKey, Fingerprint),
        peer: Fingerprint,
        nonce: [u8; 16],
        epoch: u64,
    ) -> Result<Option<Register>, CallError> {
        let outcome = self.0.create(of, peer, (nonce, epoch), clock::now(), clock::unix_millis());
        self.carry_out(of, outcome)
    }

    /// Answers as [`crate::MediatorClient::swap`].
    ///
    /// # Errors
    ///
    /// The reason why nothing was done.
    pub fn swap(
        &mut self,
        of: (PodKey, Fingerprint),
        expected: Register,
        new: Register,
    ) -> Result<Register, CallError> {
        let outcome = self.0.swap(of, expected, new, clock::unix_millis());
        self.carry_out(of, outcome).and_then(|held| held.ok_or(CallError::Missing))
    }

    /// Answers as [`crate::MediatorClient::retire`].
    ///
    /// # Errors
    ///
    /// The reason why nothing was done.
    pub fn retire(&mut self, of: (PodKey, Fingerprint), expected: Register) -> Result<Register, CallError> {
        let outcome = self.0.retire(of, expected, clock::unix_millis());
        self.carry_out(of, outcome).and_then(|held| held.ok_or(CallError::Missing))
    }

    /// Stores what a request has changed. `None` while a register waits for the other array.
    fn carry_out(&mut self, of: (PodKey, Fingerprint), outcome: Outcome) -> Result<Option<Register>, CallError> {
        match outcome {
            Outcome::Store(entry) => {
                self.0.put(entry);
                Ok(self.0.content(&of.0, &of.1))
            }
            Outcome::Reply(Status::Done | Status::Differs, held) => Ok(held),
            Outcome::Reply(Status::Waiting, _) => Ok(None),
            Outcome::Reply(Status::Full, _) => Err(CallError::Full),
            Outcome::Reply(Status::Taken, _) => Err(CallError::Taken),
            Outcome::Reply(Status::Invalid, _) => Err(CallError::Invalid),
            Outcome::Reply(..) => Err(CallError::Missing),
        }
    }
}
