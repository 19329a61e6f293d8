//! In-memory target on the reference model, for conformance suites and protocol traces.
//!
//! ```text
//! cargo run --release -p ibid-iscsi-target --example memory-target [ADDRESS:PORT [SIZE [VOLUMES]]]
//! ```
//!
//! Any initiator sees the volumes as LUN 1 and up. All data is lost when the process ends.

use catalog::{ANY_INITIATOR, ArrayInit, Catalog, CatalogError, HostEdit};
use engine::Service;
use engine::model::ModelEngine;
use iscsi_target::{IscsiTarget, TargetConfig};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().as_deref().unwrap_or("127.0.0.1:3260").parse()?;
    let bytes = types::parse_capacity(arguments.next().as_deref().unwrap_or("1G"))?;
    let volumes: u16 = arguments.next().as_deref().unwrap_or("1").parse()?;

    let service: Arc<dyn Service> = Arc::new(ModelEngine::default());
    let init = ArrayInit { name: "memory".to_owned(), number: 1, identity: *b"memory-target-01", now_ms: 0 };
    let catalog = Arc::new(Catalog::open(service.clone(), &init)?);
    catalog.change(|draft| {
        let iqns = Some(vec![ANY_INITIATOR.to_owned()]);
        draft.create_host("any", &HostEdit { iqns, ..HostEdit::default() }, 0)?;
        for number in 1..=volumes {
            let name = format!("volume-{number}");
            draft.create_volume(&name, bytes, 0)?;
            draft.connect("any", &name, Some(number))?;
        }
        Ok::<_, CatalogError>(())
    })?;

    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let target = IscsiTarget::new(service, catalog.clone(), TargetConfig::default());
        let bound = target.listen(address).await?;
        println!("iscsi://{bound}/{}/1", catalog.target_iqn());
        tokio::signal::ctrl_c().await?;
        target.shutdown().await;
        Ok(())
    })
}
