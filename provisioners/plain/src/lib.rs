//! plain+v0 bundles: a [`BundleTree`](rukpak_content::BundleTree) to Kubernetes [`Object`]s.
//!
//! ```text
//! bundle     the format: the folder, at least one object         manifests  files to objects, Lists, repetitions
//! object     one object: checks, identity, what is applied       yaml       bytes to values, as kubectl reads them
//! budget     what one bundle may cost, over all its files         warning    what is odd, not wrong
//! containers of the Pods that an object makes
//! ```
//!
//! Pure: no I/O, no clock, no client. The same bytes always give the same objects, warnings and errors.

mod budget;
pub mod bundle;
mod containers;
pub mod manifests;
pub mod object;
mod position;
mod warning;
pub mod yaml;

pub use budget::{Budget, Spent};
pub use bundle::load;
pub use containers::containers;
pub use manifests::Loaded;
pub use object::{Gvk, Object, ObjectKey, Origin, type_name};
pub use warning::{Few, MAX_WARNINGS, Warning, shortened};
