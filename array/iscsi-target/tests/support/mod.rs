//! In-memory array with a target, an engine that tests can block, and hosts that use iSCSI over
//! real sockets.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses only a part")]

mod gate;
mod host;

pub use gate::Gate;
pub use host::{Ended, Host};

use catalog::{ArrayInit, Catalog, CatalogError, HostEdit, SecretKeys};
use engine::Service;
use engine::model::ModelEngine;
use iscsi_target::{IscsiTarget, PodPorts, TargetConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use types::ObjectId;

/// The initiators of the two hosts.
pub const ALPHA: &str = "iqn.2026-11.org.ibid:alpha";
pub const BETA: &str = "iqn.2026-11.org.ibid:beta";
/// Blocks of each volume.
pub const BLOCKS: u64 = 2048;

/// An array with the hosts `alpha` and `beta` and three volumes. `shared` is LUN 1 of both, `a` is
/// LUN 2 of alpha, `b` is LUN 2 of beta.
pub struct Array {
    pub service: Arc<dyn Service>,
    pub gate: Arc<Gate>,
    pub catalog: Arc<Catalog>,
    pub target: IscsiTarget,
    pub address: SocketAddr,
}

impl Array {
    pub async fn start() -> Self {
        Self::start_on(Arc::new(ModelEngine::default()), TargetConfig::default()).await
    }

    /// Starts an array on an engine that may already hold volumes.
    pub async fn start_on(engine: Arc<dyn Service>, config: TargetConfig) -> Self {
        Self::start_as(1, engine, config, None).await
    }

    /// Starts an array that may serve volumes together with another array.
    pub async fn start_with_pods(number: u8, pods: Arc<dyn PodPorts>) -> Self {
        Self::start_as(number, Arc::new(ModelEngine::default()), TargetConfig::default(), Some(pods)).await
    }

    /// Starts the array of this number on an engine that another one may have, too.
    pub async fn start_as(
        number: u8,
        engine: Arc<dyn Service>,
        config: TargetConfig,
        pods: Option<Arc<dyn PodPorts>>,
    ) -> Self {
        let gate = Arc::new(Gate::new(engine));
        let service: Arc<dyn Service> = gate.clone();
        let init = ArrayInit { name: "array".to_owned(), number, identity: [7; 16], now_ms: 0 };
        let opened = service.clone();
        let catalog = tokio::task::spawn_blocking(move || {
            let catalog = Catalog::open(opened, &init).expect("the catalog opens");
            catalog.unlock(SecretKeys::new(&[[3; 32]])).expect("there are no secrets yet");
            if catalog.state().volumes().next().is_none() {
                catalog.change(populate).expect("the catalog changes");
            }
            Arc::new(catalog)
        });
        let catalog = catalog.await.expect("the catalog is open");
        let target = IscsiTarget::new(service.clone(), catalog.clone(), config);
        let target = match pods {
            Some(pods) => target.with_pod_ports(pods),
            None => target,
        };
        let address = target.listen(([127, 0, 0, 1], 0).into()).await.expect("a portal on loopback");
        Self { service, gate, catalog, target, address }
    }

    /// Changes the catalog on a blocking thread, outside the runtime.
    pub async fn change(&self, edit: impl FnOnce(&mut catalog::Draft) -> Result<(), CatalogError> + Send + 'static) {
        self.try_change(edit).await.expect("the change is good");
    }

    pub async fn try_change(
        &self,
        edit: impl FnOnce(&mut catalog::Draft) -> Result<(), CatalogError> + Send + 'static,
    ) -> Result<(), CatalogError> {
        let catalog = self.catalog.clone();
        tokio::task::spawn_blocking(move || catalog.change(edit)).await.expect("the change runs")
    }

    pub fn volume(&self, name: &str) -> ObjectId {
        self.catalog.state().volume(name).expect("a volume of that name").id
    }

    /// Logs in as the first session of `initiator`, and takes the unit attentions of a new nexus.
    pub async fn host(&self, initiator: &str) -> Host {
        let mut host = Host::login(self.address, &self.catalog.target_iqn(), initiator, 1).await.expect("a login");
        host.drain_attentions().await;
        host
    }
}

fn populate(draft: &mut catalog::Draft) -> Result<(), CatalogError> {
    for (host, iqn) in [("alpha", ALPHA), ("beta", BETA)] {
        let edit = HostEdit { iqns: Some(vec![iqn.to_owned()]), ..HostEdit::default() };
        draft.create_host(host, &edit, 0)?;
    }
    for volume in ["shared", "a", "b"] {
        draft.create_volume(volume, BLOCKS * 512, 0)?;
    }
    draft.connect("alpha", "shared", Some(1))?;
    draft.connect("beta", "shared", Some(1))?;
    draft.connect("alpha", "a", Some(2))?;
    draft.connect("beta", "b", Some(2))?;
    Ok(())
}
