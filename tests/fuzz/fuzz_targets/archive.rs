//! Fuzzes [`rukpak_fuzz::archive`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::archive(input));
