#![doc = include_str!("../README.md")]

mod bucket;
mod canonical;
mod collect;
mod entries;
mod error;
mod hold;
mod instance;
mod load;
mod lock;
mod members;
mod publish;
mod refs;
pub mod s3;
mod shared;
mod store;

pub use bucket::{Bucket, BucketError, Condition, Entry, UPLOADS, Version};
pub use collect::Collected;
pub use error::Error;
pub use load::read_content;
pub use refs::{Ref, RefKind};
pub use shared::Sharing;
pub use store::{Sealed, Store};

#[cfg(test)]
mod tests;
