//! Fuzzes [`rukpak_fuzz::csv`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::csv(input));
