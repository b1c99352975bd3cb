//! The provisioners. The only crate with watches and writes: everything it decides is decided by a pure crate below it.
//!
//! [`run`] is the process; [`bundle`] and [`deployment`] are the two reconcilers, each a table of contents over the
//! files beside it.

pub mod args;
pub mod bundle;
pub mod cluster;
pub mod content_service;
pub mod context;
pub mod deployment;
pub mod error;
pub mod format;
pub mod probes;
pub mod run;
pub mod status;
pub mod watch;
