//! What to do with the objects of a bundle: whose an object in the cluster is, in which order to apply, what counts as
//! drift, what may be pruned, what is healthy, when to try again.
//!
//! Pure: no client, no file system, no clock, no environment. The controller asks, and does.

pub mod crd_upgrade;
pub mod drift;
pub mod fields;
pub mod health;
pub mod owner;
pub mod phase;
pub mod prune;
pub mod retry;
pub mod stamp;

pub use drift::{Mark, MarksDigest};
pub use owner::{Owner, Standing};
pub use phase::Phase;
