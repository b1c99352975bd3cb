//! Fuzzes [`rukpak_fuzz::store`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::store(input));
