//! Sources of bundles: from a reference to a staged tree.
//!
//! Everything here reads what others wrote. Nothing of Kubernetes is known here; the caller brings references,
//! credentials and limits, and takes a [`Stage`] away.

pub mod archive;
mod body;
mod chain;
mod chunks;
mod class;
mod client;
pub mod decompress;
pub mod egress;
pub mod files;
pub mod git;
pub mod hosts;
pub mod http;
pub mod image;
mod location;
pub mod mirrors;
mod pace;
pub mod registries;
pub mod stage;
pub mod tarball;
pub mod upload;

pub use class::Class;
pub use client::SetupError;
pub use egress::Egress;
pub use registries::Registries;
pub use stage::{Stage, Staged};
