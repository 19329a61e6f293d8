//! Fuzzes log records as read from the drive.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wal::fuzzing::fuzz_record(data));
