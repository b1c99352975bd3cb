//! The architecture, as rules that fail: who may depend on whom, what a crate may touch, what a file may hold.

mod crates;
mod files;
pub(crate) mod workspace;
