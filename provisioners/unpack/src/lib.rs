//! The Bundle reconciler: fetches what a Bundle names, verifies and checks it, and keeps it in the content store.
//!
//! [`bundle`] reconciles, [`content_service`] gives content to clients and takes their uploads, [`watch`] follows what decides whether a
//! Bundle can be unpacked, and [`child`] is this program as a child of itself. It writes Bundles and nothing else of the cluster.
//!
//! What they share:
//!
//! ```text
//! attempts   which attempts the process did not survive     disk
//! fetches    who may fetch now                              memory
//! images     what the images held that were fetched         memory
//! depot      the uploaded files                             disk
//! ```

mod attempts;
pub mod bundle;
pub mod child;
pub mod content_service;
mod context;
mod depot;
mod fetches;
mod images;
pub mod metrics;
pub mod watch;

pub use attempts::Attempts;
pub use context::{Children, Context, Permits, SourcePolicy, Sources};
pub use depot::Depot;
pub use fetches::Fetches;
pub use images::Images;
