//! Fuzzes the frames of a link between two arrays, and their bodies.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| link::fuzzing::fuzz_frames(data));
