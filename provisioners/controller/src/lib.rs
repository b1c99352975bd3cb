//! The provisioners. The only crate that writes the objects of bundles: everything it decides is decided by a pure crate below it.
//!
//! The program `rukpak-controller`: [`run`] is the process; [`bundle`] and [`deployment`] are the two reconcilers, each a
//! table of contents over the files beside it. What it has in common with other programs is in `rukpak_runtime`.

pub mod args;
pub mod bundle;
pub mod child;
pub mod cluster;
pub mod content_service;
pub mod context;
pub mod deployment;
pub mod metrics;
pub mod render_memory;
pub mod run;
pub mod shard;
pub mod watch;
