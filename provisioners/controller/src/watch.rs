//! Watches: one a kind, shared by all deployments, holding fingerprints instead of objects.

mod definitions;
mod dependents;
mod index;
mod seen;

pub use definitions::{definitions, unserved};
pub use dependents::{Dependents, Observed};
pub use index::Index;
