//! Fuzzes [`rukpak_fuzz::policy`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::policy(input));
