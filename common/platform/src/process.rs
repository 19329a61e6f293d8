//! The process itself.

/// From now on, a panic in any thread ends the process once it has been reported. What a thread was changing when it panicked is half
/// changed: nobody may go on with it, least of all store it. What is on the drive is sound, and the next start finds it.
pub fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}
