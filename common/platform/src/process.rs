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
