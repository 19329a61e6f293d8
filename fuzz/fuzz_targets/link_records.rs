//! Fuzzes the records and positions of streams that cross a link between two arrays.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| replication::fuzzing::fuzz_records(data));
