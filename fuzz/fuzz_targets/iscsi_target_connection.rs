//! Fuzzes the full feature phase of a target connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iscsi::fuzzing::fuzz_target_connection(data));
