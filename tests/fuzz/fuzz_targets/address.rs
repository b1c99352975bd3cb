//! Fuzzes [`rukpak_fuzz::address`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::address(input));
