//! Settings of the process itself.

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
    fn boot_id_is_stable_and_not_zero() {
        assert_ne!(boot_id(), [0; 16]);
        assert_eq!(boot_id(), boot_id());
        assert!(!host_name().is_empty() && !host_name().ends_with('\n'));
    }
}
