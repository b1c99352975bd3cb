//! Buckets of S3 and of servers that speak its protocol. [What is asked of them](../S3.md).

mod location;
mod objects;

pub use location::{Location, LocationError};
pub use objects::ObjectBucket;
