//! Fuzzes the login phase at the target, from the first byte.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iscsi::fuzzing::fuzz_login(data));
