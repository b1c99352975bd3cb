//! What to do with the objects of a bundle: whose an object in the cluster is, in which order to apply, what counts as
//! drift, what may be pruned, what is healthy, when to try again.
//!
//! Pure: no client, no file system, no clock, no environment. The controller asks, and does.

pub mod applied;
pub mod approval;
pub mod builtin;
pub mod conflict;
pub mod decide;
pub mod fields;
pub mod fingerprint;
pub mod health;
pub mod history;
pub mod hold;
pub mod hook;
pub mod inbox;
pub mod kind;
pub mod manifests;
pub mod memory;
mod missing;
pub mod observed;
pub mod opt_out;
pub mod owner;
pub mod owner_metadata;
pub mod plan;
mod problem;
pub mod prune;
pub mod put;
pub mod record;
pub mod records;
pub mod release;
pub mod resolve;
pub mod retry;
pub mod rewrite;
pub mod rights;
pub mod status;
mod step;

pub use fingerprint::Fingerprint;
pub use kind::{Identity, Kind, MissingKind, Phase};
pub use owner::{Owner, Ownership};
pub use plan::Plan;
pub use release::{Format, Release};
pub use step::Step;
