#![doc = include_str!("../README.md")]

mod location;
mod objects;

pub use location::{Location, LocationError};
pub use objects::ObjectBucket;
