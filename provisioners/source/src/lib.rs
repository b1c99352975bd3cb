//! Sources of bundles: from a reference to a staged tree.
//!
//! Everything here reads what strangers wrote. Nothing of Kubernetes is known here; the caller brings references,
//! credentials and limits, and takes a [`Stage`] away.

pub mod archive;
pub mod decompress;
pub mod git;
pub mod image;
pub mod stage;

pub use stage::{Stage, Staged};
