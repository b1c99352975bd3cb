//! The format plain+v0: a `manifests` folder of static manifests, nothing else.

use rukpak_content::{BundleTree, Limits};

use crate::Budget;
use crate::manifests::{self, Loaded};

/// Why a tree is not a plain+v0 bundle. Print the whole chain: the cause says where and what.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The manifests cannot be read.
    #[error("get objects from bundle manifests")]
    Objects(#[source] manifests::Error),
    /// There are none.
    #[error("invalid bundle: found zero objects: plain+v0 bundles are required to contain at least one object")]
    Empty,
}

/// Reads a plain+v0 bundle: at least one object, none of them twice.
///
/// Files outside `manifests/` are not looked at. Limits: [`Limits::manifest_bytes`], [`Limits::text_bytes`],
/// [`Limits::yaml_nodes`], [`Limits::objects`] and [`yaml::MAX_DEPTH`](crate::yaml::MAX_DEPTH).
pub fn load(tree: &BundleTree, limits: &Limits) -> Result<Loaded, Error> {
    let mut budget = Budget::new(limits);
    let objects = manifests::read(tree, &mut budget);
    let objects =
        objects.and_then(|objects| manifests::merge_repeated(objects, &mut budget)).map_err(Error::Objects)?;
    if objects.is_empty() { Err(Error::Empty) } else { Ok(Loaded { objects, warnings: budget.take_warnings() }) }
}

#[cfg(test)]
#[path = "bundle/tests.rs"]
mod tests;
