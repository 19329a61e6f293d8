//! Fuzzes sequences of PERSISTENT RESERVE OUT commands and stored reservation images.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| scsi::fuzzing::fuzz_reservations(data));
