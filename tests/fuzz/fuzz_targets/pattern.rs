//! Fuzzes [`rukpak_fuzz::pattern`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::pattern(input));
