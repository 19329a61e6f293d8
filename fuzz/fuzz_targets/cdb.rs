//! Fuzzes command descriptor blocks sent by a host.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| scsi::fuzzing::fuzz_cdb(data));
