//! Fuzzes [`rukpak_fuzz::fbc`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::fbc(input));
