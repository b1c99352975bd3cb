//! Watches: one a kind, shared by all deployments, holding marks instead of objects.

mod dependents;
mod own;

pub use dependents::{Dependents, Observed};
pub use own::{Change, Streams, definitions};
