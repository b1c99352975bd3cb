//! Fuzzes [`rukpak_fuzz::challenge`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::challenge(input));
