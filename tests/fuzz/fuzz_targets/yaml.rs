//! Fuzzes [`rukpak_fuzz::yaml`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::yaml(input));
