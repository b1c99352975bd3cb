//! The Bundle reconciler: fetches what a Bundle names, verifies and checks it, and keeps it in the content store.
//!
//! [`bundle`] reconciles, [`content_service`] gives content to clients and takes their uploads, [`watch`] follows what decides whether a
//! Bundle can be unpacked, and [`child`] is this program as a child of itself. It writes Bundles and nothing else of the cluster.

pub mod bundle;
pub mod child;
pub mod content_service;
mod context;
pub mod metrics;
pub mod watch;

pub use context::{Context, Permits, SourcePolicy, Sources};
