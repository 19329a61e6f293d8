//! Fuzzes the text segment of login requests.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iscsi::fuzzing::fuzz_login_text(data));
