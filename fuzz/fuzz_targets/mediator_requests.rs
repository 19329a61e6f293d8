//! Fuzzes the requests of a mediator, and the rules of its registers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mediator::fuzzing::fuzz_requests(data, std::time::Instant::now());
});
