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
