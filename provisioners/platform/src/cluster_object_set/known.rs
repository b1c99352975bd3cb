//! What was read of sets: enough to see that nothing is to be done, without the manifests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kube::ResourceExt;
use rukpak_crds::olm::ClusterObjectSet;
use rukpak_crds::olm::cluster_object_set::ObservedPhase;
use rukpak_runtime::lock::lock;

use super::content::Stamps;
use super::deployment::Wanted;

/// What came of reading a set and its Secrets.
pub(super) struct Known {
    /// The generation that was read.
    pub generation: Option<i64>,
    /// The Secrets that were read.
    pub stamps: Stamps,
    /// The BundleDeployments of the phases, in their order.
    pub wanted: Vec<Wanted>,
    /// What the phases hold.
    pub observed: Vec<ObservedPhase>,
}

/// What is known of each set, by its UID.
#[derive(Default)]
pub(crate) struct KnownSets(Mutex<HashMap<String, Arc<Known>>>);

impl KnownSets {
    /// What is known of a set, if neither it nor its Secrets have changed since.
    pub(super) fn of(&self, set: &ClusterObjectSet, stamps: &Stamps) -> Option<Arc<Known>> {
        let known = lock(&self.0).get(&set.uid()?).cloned()?;
        (known.generation == set.metadata.generation && known.stamps == *stamps).then_some(known)
    }

    /// Keeps what was read of a set.
    pub(super) fn learn(&self, set: &ClusterObjectSet, known: Known) {
        lock(&self.0).insert(set.uid().unwrap_or_default(), Arc::new(known));
    }

    /// Forgets a set that is gone, or archived.
    pub(super) fn forget(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_read_counts_until_the_set_or_a_secret_changes() {
        let set = |uid: &str, generation: i64| -> ClusterObjectSet {
            serde_json::from_value(json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
                "metadata": {"name": "s", "uid": uid, "generation": generation},
                "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"},
            }))
            .unwrap()
        };
        let stamps = |uid: &str, version: &str| {
            Stamps::from([(("n".to_owned(), "x".to_owned()), (Some(uid.to_owned()), Some(version.to_owned())))])
        };
        let sets = KnownSets::default();
        let read = Known { generation: Some(1), stamps: stamps("1", "5"), wanted: Vec::new(), observed: Vec::new() };
        sets.learn(&set("u", 1), read);
        let is_known = |uid: &str, generation, stamps: &Stamps| sets.of(&set(uid, generation), stamps).is_some();
        assert!(is_known("u", 1, &stamps("1", "5")));
        assert!(!is_known("u", 2, &stamps("1", "5")), "other probes");
        assert!(!is_known("u", 1, &stamps("2", "5")), "made anew");
        assert!(!is_known("u", 1, &stamps("1", "6")), "changed");
        assert!(!is_known("v", 1, &stamps("1", "5")), "another set of that name");
        sets.forget("u");
        assert!(!is_known("u", 1, &stamps("1", "5")));
    }
}
