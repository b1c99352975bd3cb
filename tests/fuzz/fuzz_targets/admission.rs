//! Fuzzes [`rukpak_fuzz::admission`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::admission(input));
