//! The links to other arrays.

use super::Settings;
use crate::problem::Problem;
use catalog::Catalog;
use link::{Links, LocalArray, OpenError};
use std::sync::Arc;

/// Opens the links of the array.
pub(super) fn open(settings: &Settings, catalog: &Arc<Catalog>) -> Result<Arc<Links>, Problem> {
    let named = catalog.clone();
    let local = move || {
        let array = named.array();
        LocalArray { id: array.id.clone(), name: array.name.clone(), number: array.number }
    };
    let links = Links::open(&settings.data, env!("CARGO_PKG_VERSION"), Box::new(local));
    links.map_err(|error| {
        let hint = match &error {
            OpenError::Store(_) => "restore links.json; or remove it, and connect the other arrays again",
            _ => "restore link.pem and link.key; or remove both, and connect the other arrays again",
        };
        Problem::from(error).hint(hint)
    })
}

/// Keeps the links to connected arrays.
pub(super) async fn start(links: &Links, settings: &Settings) -> Result<(), Problem> {
    links.start(settings.link).await.map_err(|error| {
        Problem::from(error).hint("choose another address with --link ADDR:PORT; port 0 chooses a free port")
    })
}
