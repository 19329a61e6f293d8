//! Streams of PDUs, either direction.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iscsi::fuzzing::fuzz_pdu(data));
