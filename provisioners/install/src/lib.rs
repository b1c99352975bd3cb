//! The BundleDeployment reconciler: applies what a Bundle holds, keeps it applied, upgrades, rolls back and removes it.
//!
//! The only crate that writes the objects of bundles. [`deployment`] reconciles: what it decides is decided by the pure crates below.
//! [`cluster`] is the one way to the objects of bundles, and [`watch`] tells which of them changed. Who unpacks Bundles is handed in as
//! an [`Unpacker`].

pub mod cluster;
mod context;
mod dependents;
pub mod deployment;
mod index;
pub mod metrics;
mod proxy;
mod render_memory;
mod shard;
mod tracker;
pub mod watch;

pub use context::{Context, Reads, Settings, Unpacker};
pub use dependents::Dependents;
pub use index::Index;
pub use proxy::ClusterProxy;
pub use render_memory::RenderMemory;
pub use shard::{Malformed, Shard};
pub use tracker::Trackers;
