//! Unix sockets for the HTTP library.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};
use ureq::{Error, Timeout};

/// Connects to one Unix socket, whatever the URL.
#[derive(Debug)]
pub(crate) struct LocalConnector(pub(crate) PathBuf);

impl<In: Transport> Connector<In> for LocalConnector {
    type Out = LocalTransport;

    fn connect(&self, details: &ConnectionDetails<'_>, _chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        let stream = platform::net::connect_local(&self.0)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(LocalTransport { stream, buffers }))
    }
}

/// A connection over a Unix socket.
#[derive(Debug)]
pub(crate) struct LocalTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

/// Reports an expired time limit as such.
fn timed_out(error: std::io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}

/// Returns the time that is left, which the socket refuses if it is zero.
fn time_left(timeout: NextTimeout) -> Result<Option<std::time::Duration>, Error> {
    if timeout.after.is_zero() {
        return Err(Error::Timeout(Timeout::Global));
    }
    Ok(timeout.not_zero().map(|time| *time))
}

impl Transport for LocalTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(time_left(timeout)?)?;
        self.stream.write_all(&self.buffers.output()[..amount]).map_err(|error| timed_out(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(time_left(timeout)?)?;
        let amount = self.stream.read(self.buffers.input_append_buf()).map_err(|error| timed_out(error, timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        let mut byte = [0; 1];
        let is_silent = self.stream.set_nonblocking(true).is_ok()
            && matches!(self.stream.read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        is_silent && self.stream.set_nonblocking(false).is_ok()
    }
}
