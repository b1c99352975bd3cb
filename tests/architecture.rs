//! The architecture, as rules that fail: who may depend on whom, what a crate may touch, what a file may hold.

#[path = "architecture/crates.rs"]
mod crates;
#[path = "architecture/files.rs"]
mod files;
#[path = "architecture/workspace.rs"]
mod workspace;
