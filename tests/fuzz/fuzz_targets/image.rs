//! Fuzzes [`rukpak_fuzz::image`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rukpak_fuzz::image(input));
