//! What strangers write, given to the functions that read it.
//!
//! One function for each reader. It takes any bytes, and panics where a promise of the reader does not hold; memory and time
//! are watched from outside (the fuzzer's own limits, and those of `tests/replay.rs`). `seeds/<target>/` holds inputs that
//! `make test` replays; an input that once broke something stays there under a name that says what it did.

#![expect(clippy::missing_panics_doc, reason = "to panic is how a target tells what it found")]

mod admission;
mod content;
mod formats;
mod image;
mod trust;

pub use admission::{admission, schema};
pub use content::{archive, store, tree};
pub use formats::{csv, fbc, yaml};
pub use image::{challenge, image};
pub use trust::{address, pattern, policy};

/// A reader and its name, which is also that of its folder of seeds.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 13] = [
    ("address", address),
    ("admission", admission),
    ("archive", archive),
    ("challenge", challenge),
    ("csv", csv),
    ("fbc", fbc),
    ("image", image),
    ("pattern", pattern),
    ("policy", policy),
    ("schema", schema),
    ("store", store),
    ("tree", tree),
    ("yaml", yaml),
];

/// The first byte, which chooses a variant, and the rest.
fn choice(input: &[u8]) -> (u8, &[u8]) {
    input.split_first().map_or((0, &[]), |(first, rest)| (*first, rest))
}

/// The parts between NUL bytes, of which text has none.
fn parts(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    input.split(|byte| *byte == 0)
}
