//! Fuzzes [`rukpak_fuzz::tree`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::tree(input));
