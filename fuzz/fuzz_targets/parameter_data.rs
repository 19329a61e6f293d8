//! Fuzzes parameter data and sense data returned by a target.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| scsi::fuzzing::fuzz_parameter_data(data));
