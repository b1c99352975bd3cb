//! Buckets of S3 and of servers that speak its protocol. `README.md` says what is asked of them.

mod location;
mod objects;

pub use location::{Location, LocationError};
pub use objects::ObjectBucket;
