//! Fuzzes [`rukpak_fuzz::schema`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::schema(input));
