//! The devices that the server offers.

use bytes::Bytes;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

/// An operation of an export.
pub(crate) type ExportFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A block device with sectors of 512 bytes. Ranges are within the device and whole sectors.
pub(crate) trait Export: Send + Sync {
    /// Returns the name that clients select it by.
    fn name(&self) -> &str;

    /// Returns the size in bytes.
    fn bytes(&self) -> u64;

    /// Reads a range.
    fn read(&self, offset: u64, bytes: u64) -> ExportFuture<'_, Bytes>;

    /// Writes a range.
    fn write(&self, offset: u64, data: Bytes) -> ExportFuture<'_, ()>;

    /// Frees a range; its content is undefined afterwards.
    fn trim(&self, offset: u64, bytes: u64) -> ExportFuture<'_, ()>;

    /// Makes completed writes durable.
    fn flush(&self) -> ExportFuture<'_, ()>;
}

/// The exports of a server. A client that names none gets the first.
pub(crate) type Exports = Arc<Vec<Arc<dyn Export>>>;

/// Returns the error for a client that breaks the protocol.
pub(super) fn protocol(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
