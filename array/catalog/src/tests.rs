//! Tests of the catalog on the model engine.

mod contents;
mod delivery;
mod host_groups;
mod pods;
mod policies;
mod protection;
mod random;
mod rules;
mod snapshots;
mod storage;
mod stretched;
mod two_arrays;
mod volume_groups;

use crate::{ArrayInit, ArrayTime, Catalog, CatalogError, HostEdit, SecretKeys};
use engine::model::ModelEngine;
use engine::{
    BlockService, Health, KeyValue, Maintenance, Op, OpError, Owner, PoolSpace, Service, Sink, SpaceByFamily, Tag,
    VolumeSpace,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const ESX1: &str = "iqn.1998-01.com.vmware:esx1";
pub(crate) const ESX2: &str = "iqn.1998-01.com.vmware:esx2";

pub(crate) fn array_init() -> ArrayInit {
    ArrayInit { name: "array-1".into(), number: 1, identity: *b"sixteen bytes ok", now_ms: 1_000 }
}

pub(crate) fn open(service: &Arc<dyn Service>) -> Result<Catalog, CatalogError> {
    let catalog = Catalog::open(service.clone(), &array_init())?;
    catalog.unlock(keys())?;
    Ok(catalog)
}

pub(crate) fn keys() -> SecretKeys {
    SecretKeys::new(&[[7; SecretKeys::KEY_BYTES]])
}

pub(crate) fn new() -> (Arc<dyn Service>, Catalog) {
    let service: Arc<dyn Service> = Arc::new(ModelEngine::default());
    let catalog = open(&service).unwrap();
    (service, catalog)
}

/// A moment at which both clocks show the same, as if the array had always served.
pub(crate) fn both(ms: u64) -> ArrayTime {
    ArrayTime { wall_ms: ms, served_ms: ms }
}

pub(crate) fn iqns(iqns: &[&str]) -> HostEdit {
    HostEdit { iqns: Some(iqns.iter().map(ToString::to_string).collect()), ..HostEdit::default() }
}

/// Creates volumes `v1` and `v2`, hosts `h1` (ESX1) and `h2` (ESX2), and a connection of `v1` to
/// `h1`.
pub(crate) fn sample_catalog() -> (Arc<dyn Service>, Catalog) {
    let (service, catalog) = new();
    catalog
        .change(|draft| {
            draft.create_volume("v1", GIB, 2_000)?;
            draft.create_volume("v2", 2 * GIB, 3_000)?;
            draft.create_host("h1", &iqns(&[ESX1]), 4_000)?;
            draft.create_host("h2", &iqns(&[ESX2]), 5_000)?;
            draft.connect("h1", "v1", None)
        })
        .unwrap();
    (service, catalog)
}

/// An engine that refuses changes on request, as it would with a full or failed drive.
#[derive(Default)]
pub(crate) struct Failing {
    inner: ModelEngine,
    pub(crate) broken: AtomicBool,
}

impl BlockService for Failing {
    fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
        if self.broken.load(Ordering::Relaxed) {
            sink.complete(tag, Err(OpError::NoSpace));
        } else {
            self.inner.submit(op, tag, sink);
        }
    }

    fn write_cache(&self) -> bool {
        false
    }
}

impl KeyValue for Failing {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.get(key)
    }

    fn scan(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.inner.scan(prefix)
    }
}

impl Maintenance for Failing {
    fn space(&self) -> PoolSpace {
        self.inner.space()
    }

    fn volume_space(&self, volume: types::VolumeId) -> Option<VolumeSpace> {
        self.inner.volume_space(volume)
    }

    fn account_space(
        &self,
        owner: &dyn Fn(types::VolumeId) -> Owner,
        timeout: Option<std::time::Duration>,
    ) -> Option<SpaceByFamily> {
        self.inner.account_space(owner, timeout)
    }

    fn grow(&self, capacity: u64) -> Result<(), OpError> {
        self.inner.grow(capacity)
    }

    fn scrub(&self, bytes_per_second: u64) {
        self.inner.scrub(bytes_per_second);
    }

    fn health(&self) -> Health {
        self.inner.health()
    }
}
