//! The provisioners. The only crate with watches and writes: everything it decides is decided by a pure crate below it.
//!
//! Two programs. `rukpak-controller`: [`run`] is the process; [`bundle`] and [`deployment`] are the two reconcilers, each a
//! table of contents over the files beside it. `rukpak-platform`: [`platform`]. [`process`] is what they share.

pub mod args;
pub mod bundle;
pub mod child;
pub mod cluster;
pub mod content_service;
pub mod context;
pub mod deployment;
pub mod format;
pub mod metrics;
pub mod platform;
pub mod render_memory;
pub mod run;
pub mod watch;
