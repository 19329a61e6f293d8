//! Settings of the process itself.

use std::io::{self, Write};
use std::os::fd::FromRawFd;

/// A descriptor that the process inherited for its output. It is closed when dropped.
#[derive(Debug)]
#[allow(clippy::disallowed_types, reason = "only this crate may access the outside")]
pub struct InheritedOutput(std::fs::File);

impl InheritedOutput {
    /// Takes descriptor `number`. Must be called before the process opens anything, because the
    /// number could then name another file.
    ///
    /// # Errors
    /// The number is below 3 (the standard streams), or the process inherited no such descriptor.
    pub fn take(number: i32) -> io::Result<Self> {
        const FIRST: i32 = 3;
        if number < FIRST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a standard stream"));
        }
        take_open(number).map(Self)
    }

    /// Writes all of `text`.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(text.as_bytes())
    }
}

#[allow(unsafe_code, reason = "the standard library takes no descriptor by its number")]
#[allow(clippy::disallowed_types, reason = "only this crate may access the outside")]
fn take_open(number: i32) -> io::Result<std::fs::File> {
    // SAFETY: the call changes a flag of a descriptor; a number that names none is an error.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and no other part of the program owns it: the caller has
    // opened nothing before.
    Ok(unsafe { std::fs::File::from_raw_fd(number) })
}

/// Makes a panic in any thread abort the process after reporting it. The state that the thread was
/// changing may be inconsistent and must not be used or stored. The drive is consistent; the next
/// start recovers from it.
pub fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

/// Raises the limit of open files to the highest that the system allows, because each connection
/// needs one. Returns the limit, or `None` if there is none.
pub fn raise_file_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// Returns true if another process of this machine has the id `pid`, whatever program it runs.
pub fn is_running_elsewhere(pid: u32) -> bool {
    let id = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let is_running = |id| rustix::process::test_kill_process(id) != Err(rustix::io::Errno::SRCH);
    pid != std::process::id() && id.is_some_and(is_running)
}

/// Returns the id of this start of the machine's kernel (a UUID), or zeros if the system has none.
pub fn boot_id() -> [u8; 16] {
    let text = kernel_text("/proc/sys/kernel/random/boot_id");
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| char::from(byte).to_digit(16)).map(|digit| digit as u8).collect();
    let mut id = [0; 16];
    if digits.len() == 2 * id.len() {
        for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
    }
    id
}

/// Returns the name of the machine, or an empty text if the system has none.
pub fn host_name() -> String {
    kernel_text("/proc/sys/kernel/hostname").trim().to_owned()
}

fn kernel_text(path: &str) -> String {
    const MAX_BYTES: u64 = 4096;
    crate::files::read_text(std::path::Path::new(path), MAX_BYTES).ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_or_standard_descriptor_is_refused() {
        for number in [-1, 0, 2, 1_000_000] {
            assert!(InheritedOutput::take(number).is_err(), "{number}");
        }
    }

    #[test]
    fn running_processes_are_found() {
        assert!(is_running_elsewhere(1));
        assert!(!is_running_elsewhere(std::process::id()), "this one is not another");
        assert!([0, 1 << 30, u32::MAX].into_iter().all(|pid| !is_running_elsewhere(pid)));
    }

    #[test]
    fn boot_id_is_stable_and_not_zero() {
        assert_ne!(boot_id(), [0; 16]);
        assert_eq!(boot_id(), boot_id());
        assert!(!host_name().is_empty() && !host_name().ends_with('\n'));
    }
}
