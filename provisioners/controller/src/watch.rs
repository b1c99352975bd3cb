//! Watches: one a kind, shared by all deployments, holding fingerprints instead of objects.

mod dependents;
mod own;

pub use dependents::{Dependents, Observed};
pub use own::{Change, Streams, definitions, unserved};
