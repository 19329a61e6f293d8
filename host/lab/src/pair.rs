//! Starts two arrays with a mediator and a simulated distance, and pods that both arrays serve.
//! As in the ActiveCluster article, a host has paths to both.

use crate::array::{ANY_PORT, OwnArray, OwnProgram};
use crate::error::LabError;
use crate::target::LabTarget;
use platform::clock;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Simulated round trip between the arrays: the article's.
pub(crate) const DISTANCE: &str = "4ms";
/// Names of the arrays.
pub(crate) const NAMES: [&str; 2] = ["alpha", "beta"];
/// Volumes of the first array alone, one of the second alone, and volumes of two pods, with their
/// LUNs.
const PLAIN: [(&str, u16); 2] = [("plain1", 1), ("plain2", 2)];
const BESIDE: (&str, u16) = ("beside", 6);
const POD: [(&str, u16); 2] = [("lab::vm1", 3), ("lab::vm2", 4)];
const OTHER_POD: [(&str, u16); 1] = [("other::vm3", 5)];
/// Size of each volume. They are thin. Clearing them takes a round trip for each GiB.
const SIZE: &str = "1TiB";
/// Time for the arrays to serve a pod together, and between two looks.
const IN_STEP: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// Two arrays that the lab has started. On drop, all programs are killed and their data is removed.
pub struct LabPair {
    arrays: [OwnArray; 2],
    mediator: OwnProgram,
    /// Two disks that the first array alone serves.
    pub(crate) plain: LabTarget,
    /// One disk that the second array alone serves.
    pub(crate) beside: LabTarget,
    /// Two disks of one pod, with paths to both arrays.
    pub(crate) pod: LabTarget,
    /// A disk of another pod, with paths to both arrays.
    pub(crate) other_pod: LabTarget,
}

impl LabPair {
    /// Starts two arrays of `program`, connects them, and creates volumes and pods.
    pub(crate) async fn start(program: &Path, scratch: Option<&Path>, capacity: &str) -> Result<Self, LabError> {
        let [alpha, beta] = NAMES;
        let array = |name, number| {
            let options = ["--name", name, "--number", number, "--link", ANY_PORT];
            async move { OwnArray::start_with(program, scratch, capacity, &options).await }
        };
        let arrays = [array(alpha, "1").await?, array(beta, "2").await?];
        let mediator = OwnProgram::start(program, scratch, &["mediator", "serve", "--listen", ANY_PORT]).await?;
        connect(&arrays, &mediator).await?;
        for array in &arrays {
            array.admit().await?;
        }
        let [first, second] = &arrays;
        for (name, lun) in PLAIN {
            first.volume(name, SIZE, lun).await?;
        }
        second.volume(BESIDE.0, SIZE, BESIDE.1).await?;
        let address = address(&mediator.said);
        stretch(&arrays, &POD, &address).await?;
        stretch(&arrays, &OTHER_POD, &address).await?;
        first.admin(&["array", "distance", beta, "--rtt", DISTANCE]).await?;
        let plain = LabTarget::survey(&urls(first, &PLAIN), None).await?;
        let beside = LabTarget::survey(&urls(second, &[BESIDE]), None).await?;
        let [pod, other_pod] = [both(&arrays, &POD).await?, both(&arrays, &OTHER_POD).await?];
        let pair = Self { arrays, mediator, plain, beside, pod, other_pod };
        pair.wait_in_step().await?;
        Ok(pair)
    }

    /// Returns the process ids of the arrays and the mediator.
    pub(crate) fn programs(&self) -> Vec<u32> {
        let arrays = self.arrays.iter().map(OwnArray::process_id);
        arrays.chain([self.mediator.process_id()]).flatten().collect()
    }

    /// Returns the bytes that both arrays have sent over the link.
    pub(crate) async fn link_bytes(&self) -> Result<u64, LabError> {
        let mut sent = 0;
        for array in &self.arrays {
            let found = array.admin(&["array", "connections"]).await?;
            sent += found[0]["sent_bytes"].as_u64().unwrap_or(0);
        }
        Ok(sent)
    }

    /// Returns the bytes that copies into pods have brought over the link, by way of either array.
    pub(crate) async fn crossed_bytes(&self) -> Result<u64, LabError> {
        let mut crossed = 0;
        for array in &self.arrays {
            let found = array.admin(&["pod", "list", "--replication"]).await?;
            let pods = found.as_array().map(Vec::as_slice).unwrap_or_default();
            crossed += pods.iter().filter_map(|pod| pod["crossed_bytes"].as_u64()).sum::<u64>();
        }
        Ok(crossed)
    }

    /// Returns the physical bytes of the first disk of the pod, on each array, counted now.
    pub(crate) async fn used(&self) -> Result<[u64; 2], LabError> {
        let mut used = [0; 2];
        for (array, used) in self.arrays.iter().zip(&mut used) {
            array.admin(&["array", "space", "--refresh"]).await?;
            let found = array.admin(&["volume", "list", POD[0].0]).await?;
            *used = found[0]["space"]["total_physical"].as_u64().unwrap_or(0);
        }
        Ok(used)
    }

    /// Waits until both arrays serve all pods.
    pub(crate) async fn wait_in_step(&self) -> Result<(), LabError> {
        let until = clock::now() + IN_STEP;
        loop {
            let mut states = Vec::new();
            for array in &self.arrays {
                states.extend(states_of(&array.admin(&["pod", "list", "--replication"]).await?));
            }
            if states.len() == 4 && states.iter().all(|state| state == "sync") {
                return Ok(());
            }
            if clock::now() > until {
                return Err(LabError::Wrong(format!("the arrays do not serve the pods together: {states:?}")));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Connects the arrays with each other, and allows both at the mediator.
async fn connect([first, second]: &[OwnArray; 2], mediator: &OwnProgram) -> Result<(), LabError> {
    let key = second.admin(&["array", "connection-key"]).await?;
    let key = key["connection_key"].as_str().unwrap_or_default();
    first.admin(&["array", "connect", NAMES[1], "--address", &second.link, "--key", key]).await?;
    for array in [first, second] {
        let found = array.admin(&["array", "connections"]).await?;
        // Each array knows the certificate of the other one.
        mediator.admin(&["mediator", "allow", found[0]["certificate"].as_str().unwrap_or_default()]).await?;
    }
    Ok(())
}

/// Creates a pod with `volumes` on the first array, and brings it to the second one.
async fn stretch([first, second]: &[OwnArray; 2], volumes: &[(&str, u16)], mediator: &str) -> Result<(), LabError> {
    let pod = volumes.first().and_then(|(name, _)| name.split_once("::")).map_or("", |(pod, _)| pod);
    first.admin(&["pod", "create", pod]).await?;
    for (name, lun) in volumes {
        first.volume(name, SIZE, *lun).await?;
    }
    first.admin(&["pod", "stretch", pod, NAMES[1], "--mediator", mediator]).await?;
    for (name, lun) in volumes {
        second.connect(name, &lun.to_string()).await?;
    }
    Ok(())
}

fn urls(array: &OwnArray, volumes: &[(&str, u16)]) -> Vec<String> {
    volumes.iter().flat_map(|(_, lun)| array.urls(*lun)).collect()
}

/// Returns disks with paths to both arrays.
async fn both([first, second]: &[OwnArray; 2], volumes: &[(&str, u16)]) -> Result<LabTarget, LabError> {
    let mut target = LabTarget::survey(&urls(first, volumes), None).await?;
    target.join_array(&second.urls(volumes[0].1))?;
    Ok(target)
}

/// Returns the address that a mediator has printed.
fn address(said: &[String]) -> String {
    let line = said.iter().find_map(|line| line.strip_prefix("address "));
    line.unwrap_or_default().trim().to_owned()
}

fn states_of(pods: &Value) -> Vec<String> {
    let pods = pods.as_array().map(Vec::as_slice).unwrap_or_default();
    pods.iter().filter_map(|pod| pod["state"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_a_mediator_is_read_from_its_output() {
        let said = ["certificate  ab12", "address      127.0.0.1:8118"].map(str::to_owned);
        assert_eq!(address(&said), "127.0.0.1:8118");
        assert_eq!(address(&said[..1]), "");
    }

    #[test]
    fn states_are_read_from_the_list_of_pods() {
        let pods = serde_json::json!([{"state": "sync"}, {"state": "solo"}, {}]);
        assert_eq!(states_of(&pods), ["sync", "solo"]);
        assert!(states_of(&Value::Null).is_empty());
    }
}
