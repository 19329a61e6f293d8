//! Fuzzes the replay of a log that was damaged after it was written.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wal::fuzzing::fuzz_replay(data));
