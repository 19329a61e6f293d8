//! The mediator, and its clients at the arrays.

use mediator::{Answer, CallError, PodKey, Register, RegisterClient, SimulatedRegisters};
use platform::simulation::{below, time};
use platform::tasks;
use platform::threads::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Certificate of an array.
pub(crate) type Fingerprint = [u8; 32];

/// A client gives up after this long.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The mediator.
#[derive(Default)]
pub(crate) struct MediatorSite {
    registers: Mutex<SimulatedRegisters>,
    /// Times of the world until which it is out of reach of the arrays.
    away_until: Mutex<[Duration; 2]>,
    /// Time of the world until which its answers are late.
    late_until: Mutex<Duration>,
}

impl MediatorSite {
    /// The mediator is out of reach of an array.
    pub(crate) fn be_away(&self, site: usize, until: Duration) {
        self.away_until.lock()[site] = until;
    }

    /// The answers of the mediator are late.
    pub(crate) fn be_late(&self, until: Duration) {
        *self.late_until.lock() = until;
    }

    fn is_away(&self, site: usize) -> bool {
        self.away_until.lock()[site] > time()
    }

    fn delay(&self) -> Duration {
        let most = if *self.late_until.lock() > time() { 700_000 } else { 4000 };
        Duration::from_micros(100 + below(most))
    }
}

/// The client of one array.
pub(crate) struct Client {
    pub(crate) mediator: Arc<MediatorSite>,
    pub(crate) site: usize,
    pub(crate) own: Fingerprint,
}

impl Client {
    /// Makes a request. One that is not answered may have been carried out.
    async fn call<T>(
        &self,
        request: impl FnOnce(&mut SimulatedRegisters, Fingerprint) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let until = time() + TIMEOUT;
        let lost = || CallError::TimedOut("the simulated mediator".to_owned());
        tasks::sleep(self.mediator.delay()).await;
        if self.mediator.is_away(self.site) {
            tasks::sleep(until.saturating_sub(time())).await;
            return Err(lost());
        }
        let answer = request(&mut self.mediator.registers.lock(), self.own);
        let delay = self.mediator.delay();
        if self.mediator.is_away(self.site) || time() + delay > until {
            tasks::sleep(until.saturating_sub(time())).await;
            return Err(lost());
        }
        tasks::sleep(delay).await;
        answer
    }
}

impl RegisterClient for Client {
    fn read(&self, pod: PodKey) -> Answer<'_, Register> {
        Box::pin(self.call(move |registers, own| registers.read((pod, own))))
    }

    fn create(&self, pod: PodKey, peer: Fingerprint, nonce: [u8; 16], epoch: u64) -> Answer<'_, Option<Register>> {
        Box::pin(self.call(move |registers, own| registers.create((pod, own), peer, nonce, epoch)))
    }

    fn swap(&self, pod: PodKey, expected: Register, new: Register) -> Answer<'_, Register> {
        Box::pin(self.call(move |registers, own| registers.swap((pod, own), expected, new)))
    }

    fn retire(&self, pod: PodKey, expected: Register) -> Answer<'_, Register> {
        Box::pin(self.call(move |registers, own| registers.retire((pod, own), expected)))
    }
}
