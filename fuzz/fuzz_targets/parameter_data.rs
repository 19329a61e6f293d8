//! Parameter data and sense data from a target.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| scsi::fuzzing::fuzz_parameter_data(data));
