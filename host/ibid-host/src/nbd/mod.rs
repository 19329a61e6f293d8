//! A server of the Network Block Device protocol (NetworkBlockDevice/nbd, doc/proto.md): fixed
//! newstyle negotiation without TLS, simple replies.

mod export;
mod negotiate;
mod transmit;

pub(crate) use export::{Export, ExportFuture, Exports};
use platform::net::{Listener, Stream};
use std::io;
use std::sync::Arc;

/// Connections served at the same time. Each may hold [`transmit::MAX_REQUESTS`] requests.
const MAX_CONNECTIONS: usize = 16;

/// Serves exports until the future is dropped.
pub(crate) async fn serve(listener: Listener, exports: Exports) -> io::Result<()> {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        while connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
        }
        let (stream, _) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        let exports = Arc::clone(&exports);
        connections.spawn(async move {
            // The client sees the end of its connection; there is no one else to report it to.
            let _ = serve_connection(stream, &exports).await;
        });
    }
}

async fn serve_connection(mut stream: Stream, exports: &Exports) -> io::Result<()> {
    match negotiate::negotiate(&mut stream, exports).await? {
        Some(export) => transmit::transmit(stream, export).await,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
