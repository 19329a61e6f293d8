//! The register of a pod: questions of the state machine to the mediator.

use mediator::{CallError, PodKey, Register as Held, RegisterClient};
use pinned_tls::Fingerprint;
use platform::tasks::Runtime;
use platform::threads::Mutex;
use pod::{Answer, Epoch, Owner, Question, Register, Side};
use std::sync::Arc;
use std::time::Duration;

/// Pause between two attempts to make the register.
const RETRY: Duration = Duration::from_secs(1);

/// The mediator of a pod.
#[derive(Clone)]
pub struct PodRegister {
    /// Its client.
    pub client: Arc<dyn RegisterClient>,
    /// First half of the mediator's instance.
    pub instance: u64,
    /// Key of the pod.
    pub key: PodKey,
    /// Certificate of the other array, with which the register is made; none if the arrays are not
    /// connected any more.
    pub peer: Option<Fingerprint>,
}

/// Asks the mediator.
pub(crate) struct Registrar {
    register: PodRegister,
    side: Side,
    runtime: Runtime,
    problem: Arc<Mutex<Option<String>>>,
}

impl Registrar {
    /// Begins to use a mediator. The register is made with the other array.
    pub(crate) fn start(register: PodRegister, side: Side, runtime: Runtime) -> Self {
        let registrar = Self { register, side, runtime, problem: Arc::default() };
        let (client, key, peer) = (registrar.register.client.clone(), registrar.register.key, registrar.register.peer);
        let problem = Arc::downgrade(&registrar.problem);
        let Some(peer) = peer else { return registrar };
        registrar.runtime.spawn(async move {
            loop {
                // Both arrays name the pod's key, which no other array knows.
                let made = client.create(key, peer, key, 0).await;
                let Some(problem) = problem.upgrade() else { return };
                match made {
                    Ok(Some(_)) => return *problem.lock() = None,
                    Ok(None) => *problem.lock() = Some("the other array has not asked for the register yet".to_owned()),
                    Err(error) => *problem.lock() = Some(error.to_string()),
                }
                drop(problem);
                platform::tasks::sleep(RETRY).await;
            }
        });
        registrar
    }

    /// Returns the number of the mediator's instance.
    pub(crate) fn instance(&self) -> u64 {
        self.register.instance
    }

    /// Returns why the mediator does not serve this pod, if it does not.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// Asks a question. `answer` is called later.
    pub(crate) fn ask(&self, question: Question, answer: impl FnOnce(Answer) + Send + 'static) {
        let (client, key, side) = (self.register.client.clone(), self.register.key, self.side);
        let problem = self.problem.clone();
        self.runtime.spawn(async move {
            let held = |register: Register| held(side, register);
            let result = match question {
                Question::Read => client.read(key).await,
                Question::Swap { expected, new } if new.owner == Owner::Retired => {
                    client.retire(key, held(expected)).await
                }
                Question::Swap { expected, new } => client.swap(key, held(expected), held(new)).await,
            };
            answer(match result.and_then(|held| known(side, held)) {
                Ok(register) => {
                    *problem.lock() = None;
                    Answer::Is(register)
                }
                Err(error) => {
                    *problem.lock() = Some(error.to_string());
                    Answer::Unreachable
                }
            });
        });
    }
}

fn held(side: Side, register: Register) -> Held {
    let owner = match register.owner {
        Owner::Both => mediator::Owner::Both,
        Owner::One(owner) if owner == side => mediator::Owner::Own,
        Owner::One(_) => mediator::Owner::Peer,
        Owner::Retired => mediator::Owner::Retired,
    };
    Held { epoch: register.epoch.0.into(), owner }
}

fn known(side: Side, held: Held) -> Result<Register, CallError> {
    let owner = match held.owner {
        mediator::Owner::Both => Owner::Both,
        mediator::Owner::Own => Owner::One(side),
        mediator::Owner::Peer => Owner::One(side.other()),
        mediator::Owner::Retired => Owner::Retired,
    };
    // An epoch that arrays do not use is an answer that does not help.
    let epoch = u32::try_from(held.epoch).map_err(|_| CallError::Invalid)?;
    Ok(Register { epoch: Epoch(epoch), owner })
}
