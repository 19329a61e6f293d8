//! Task management functions on volumes of pods: commands of hosts at the other array are aborted,
//! too.

use super::{ExecuteHere, StretchedPods};
use iscsi_target::{FunctionEnd, SharedFunction};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;
use types::VolumeId;

/// Time for the commands of a function to end at the array that executes it for the other one.
const TO_END: Duration = Duration::from_secs(8);
/// Time for the answer of the other array. A host waits longer for a function.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The answer if all commands have ended.
const ENDED: &[u8] = b"ended";

/// A function, as arrays name it to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Function {
    ClearTaskSet,
    LogicalUnitReset,
    TargetReset,
}

impl Function {
    fn of(function: SharedFunction) -> Self {
        match function {
            SharedFunction::ClearTaskSet => Self::ClearTaskSet,
            SharedFunction::LogicalUnitReset => Self::LogicalUnitReset,
            SharedFunction::TargetReset => Self::TargetReset,
        }
    }

    fn shared(self) -> SharedFunction {
        match self {
            Self::ClearTaskSet => SharedFunction::ClearTaskSet,
            Self::LogicalUnitReset => SharedFunction::LogicalUnitReset,
            Self::TargetReset => SharedFunction::TargetReset,
        }
    }
}

/// Asks an array to execute a function on the volumes with these contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionQuestion {
    function: Function,
    contents: Vec<u64>,
}

impl StretchedPods {
    /// Returns the other array that has a content.
    pub(super) fn peer_of(&self, content: VolumeId) -> Option<String> {
        let pod = self.find(content.stream()?)?;
        pod.stretch.as_ref().map(|stretch| stretch.peer.id.clone())
    }

    /// Executes a function at the other arrays that have these contents.
    pub(super) fn execute_at_peers(&self, contents: Vec<VolumeId>, function: SharedFunction, end: FunctionEnd) {
        let mut arrays: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for content in contents {
            // A pod that has left its second array has no commands there.
            if let Some(array) = self.peer_of(content) {
                arrays.entry(array).or_default().push(content.0);
            }
        }
        let (pods, asking) = (self.pods(), self.asking.clone());
        let ask = move || {
            let is_ended = |(array, contents): (String, Vec<u64>)| {
                let question = FunctionQuestion { function: Function::of(function), contents };
                let body = serde_json::to_vec(&question).ok()?;
                pods.as_ref()?.ask(&array, &body, PATIENCE).filter(|answer| answer == ENDED)
            };
            arrays.into_iter().all(|asked| is_ended(asked).is_some())
        };
        tokio::spawn(async move {
            let _permit = asking.acquire().await;
            end(tokio::task::spawn_blocking(ask).await.unwrap_or(false));
        });
    }

    /// Executes a function of another array on the contents that it shares.
    fn execute_for(&self, array: &str, question: &FunctionQuestion) -> Option<()> {
        let execute: ExecuteHere = self.target.lock().as_ref()?.execute.clone();
        let is_shared = |content: &VolumeId| self.peer_of(*content).is_some_and(|peer| peer == array);
        let contents: Vec<VolumeId> = question.contents.iter().copied().map(VolumeId).filter(is_shared).collect();
        until_ended(|end| execute(&contents, question.function.shared(), end))
    }
}

/// Begins a work that another array has asked for, and waits until the commands that it aborts have
/// ended. `None` if that is not certain in time.
pub(super) fn until_ended(begin: impl FnOnce(FunctionEnd)) -> Option<()> {
    let (sender, ended) = mpsc::channel();
    begin(Box::new(move |is_certain: bool| {
        // The answer may have been given up.
        let _ = sender.send(is_certain);
    }));
    ended.recv_timeout(TO_END).ok().filter(|is_certain| *is_certain).map(|_| ())
}

/// Answers a question about a function of another array; `None` for another question.
pub(super) fn answer(pods: &StretchedPods, array: &str, question: &[u8]) -> Option<Vec<u8>> {
    let question: FunctionQuestion = serde_json::from_slice(question).ok()?;
    let is_ended = pods.execute_for(array, &question).is_some();
    tracing::info!(
        array,
        function = ?question.function,
        volumes = question.contents.len(),
        is_ended,
        "a task management function of the other array was executed"
    );
    Some(if is_ended { ENDED.to_vec() } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_has_a_name_on_the_link() {
        let named = [
            (SharedFunction::ClearTaskSet, "clear_task_set"),
            (SharedFunction::LogicalUnitReset, "logical_unit_reset"),
            (SharedFunction::TargetReset, "target_reset"),
        ];
        for (function, name) in named {
            let question = FunctionQuestion { function: Function::of(function), contents: vec![7, u64::MAX] };
            let body = serde_json::to_string(&question).unwrap();
            let max = u64::MAX;
            assert_eq!(body, format!(r#"{{"function":"{name}","contents":[7,{max}]}}"#));
            let read: FunctionQuestion = serde_json::from_str(&body).unwrap();
            assert_eq!((read.function.shared(), &read), (function, &question));
        }
        let check = r#"{"pod":"dc1","stream":7,"mediator":null}"#;
        assert!(serde_json::from_str::<FunctionQuestion>(check).is_err(), "another question");
    }
}
