//! Rows of PERSISTENT RESERVE OUT commands, and images of reservations.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| scsi::fuzzing::fuzz_reservations(data));
