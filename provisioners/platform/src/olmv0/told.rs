//! What Operators were told belongs to them. Memory.

use std::collections::HashMap;
use std::sync::Mutex;

use rukpak_crds::olmv0::operator::{Component, OperatorStatus};
use rukpak_runtime::lock::lock;

/// What was found and said, by the names of Operators.
#[derive(Default)]
pub(super) struct Told(Mutex<HashMap<String, Known>>);

#[derive(Clone)]
pub(super) struct Known {
    pub installed: Installed,
    pub listed: Vec<Component>,
    /// Version of the BundleDeployment when its Deployments were looked at.
    pub version: Option<String>,
    pub deployments: Vec<Component>,
    pub status: OperatorStatus,
}

/// As long as it is the same, so are the objects: UID of the BundleDeployment, digest and number of what it has applied, and whether it
/// is ready: what leaves a bundle is deleted only after the rest is applied.
type Installed = (Option<String>, Option<String>, Option<i64>, bool);

impl Told {
    pub fn get(&self, name: &str) -> Option<Known> {
        lock(&self.0).get(name).cloned()
    }

    pub fn put(&self, name: String, known: Known) {
        lock(&self.0).insert(name, known);
    }

    /// The Operator of this name is gone.
    pub fn forget(&self, name: &str) {
        lock(&self.0).remove(name);
    }
}
