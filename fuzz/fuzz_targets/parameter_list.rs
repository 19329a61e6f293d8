//! Fuzzes parameter lists sent by a host.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| scsi::fuzzing::fuzz_parameter_list(data));
