//! Watches: one a kind, shared by all deployments, holding fingerprints instead of objects.

mod dependents;
mod index;
mod own;
mod seen;

pub use dependents::{Dependents, Observed};
pub use index::Index;
pub use own::{Change, Streams, definitions, unserved};
