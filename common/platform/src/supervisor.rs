//! Messages to the supervisor of this process, in the protocol of `sd_notify(3)`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// State of the process, as its supervisor sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// The start is complete.
    Ready,
    /// The process works; restarts the time of the watchdog.
    Alive,
    /// The process ends.
    Stopping,
}

/// The supervisor of this process: systemd, or any other with its protocol.
#[derive(Debug)]
pub struct Supervisor {
    socket: UnixDatagram,
    address: SocketAddr,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// Returns the supervisor that the environment names, or `None` if it names none.
    ///
    /// # Errors
    /// The variable `NOTIFY_SOCKET` has no valid address, or no socket could be made.
    pub fn from_environment() -> io::Result<Option<Self>> {
        let text = |name: &str| std::env::var(name).ok();
        let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(None) };
        let watchdog = watchdog(text("WATCHDOG_USEC"), text("WATCHDOG_PID"), std::process::id());
        Self::new(&address, watchdog).map(Some)
    }

    fn new(address: &OsString, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match address.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(OsStr::new(address))?,
        };
        let socket = UnixDatagram::unbound()?;
        // A supervisor that does not read must not stop the program.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address, watchdog })
    }

    /// Returns the time after which the supervisor ends a process that has not reported
    /// [`ProcessState::Alive`], if it watches.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Reports a state. Does not block.
    pub fn report(&self, state: ProcessState) -> io::Result<()> {
        let message: &[u8] = match state {
            ProcessState::Ready => b"READY=1",
            ProcessState::Alive => b"WATCHDOG=1",
            ProcessState::Stopping => b"STOPPING=1",
        };
        self.socket.send_to_addr(message, &self.address).map(drop)
    }
}

/// Returns the time of the watchdog, if it watches the process `own`.
fn watchdog(microseconds: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(own)) {
        return None;
    }
    let microseconds: u64 = microseconds?.parse().ok()?;
    (microseconds > 0).then(|| Duration::from_micros(microseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn states_reach_the_socket_of_the_supervisor() {
        let directory = crate::TemporaryDirectory::new(None, "notify").unwrap();
        let path = directory.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let supervisor = Supervisor::new(&path.clone().into(), None).unwrap();
        for (state, text) in [
            (ProcessState::Ready, "READY=1"),
            (ProcessState::Alive, "WATCHDOG=1"),
            (ProcessState::Stopping, "STOPPING=1"),
        ] {
            supervisor.report(state).unwrap();
            assert_eq!(received(&socket), text);
        }
        drop(socket);
        assert!(supervisor.report(ProcessState::Alive).is_err(), "no supervisor reads");
    }

    #[test]
    fn abstract_address_of_a_supervisor_is_used() {
        let name = format!("ibid-notify-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Supervisor::new(&format!("@{name}").into(), None).unwrap().report(ProcessState::Ready).unwrap();
        assert_eq!(received(&socket), "READY=1");
    }

    #[test]
    fn watchdog_of_another_process_is_ignored() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(watchdog(text("3000000"), None, 7), Some(Duration::from_secs(3)));
        assert_eq!(watchdog(text("3000000"), text("7"), 7), Some(Duration::from_secs(3)));
        assert_eq!(watchdog(text("3000000"), text("8"), 7), None);
        assert_eq!(
            (watchdog(text("0"), None, 7), watchdog(text("x"), None, 7), watchdog(None, None, 7)),
            (None, None, None)
        );
    }
}
