//! How scenarios are written, and read into the types of the crate.

pub mod deployment;
pub mod event;
pub mod golden;
pub mod objects;
pub mod told;
pub mod world;
pub mod yaml;

/// What is wrong with a file, in words.
pub type Error = Box<dyn std::error::Error>;
