//! Objects that are left as they are on request: neither applied nor repaired nor pruned, as long as their annotation says so.
//!
//! The annotation counts in the manifest and on the object in the cluster. Such an object is declared all the same: it does not leave.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::{Inventory, PausedObject, names};
use rukpak_plain::ObjectKey;

/// The status lists so many of them.
const LISTED: usize = 100;

/// Whether the object in the cluster says that it is left as it is.
pub fn is_paused(meta: &ObjectMeta) -> bool {
    meta.annotations.as_ref().and_then(|all| all.get(names::RECONCILE)).is_some_and(|value| value == names::DISABLED)
}

/// Says in an inventory which objects of the release are left as they are.
pub fn write(paused: &BTreeSet<ObjectKey>, inventory: &mut Inventory) {
    let objects = paused.iter().map(|key| PausedObject {
        group: key.group.clone(),
        kind: key.kind.clone(),
        namespace: key.namespace.clone().unwrap_or_default(),
        name: key.name.clone(),
    });
    inventory.paused = objects.take(LISTED).collect();
}

/// What an inventory says of them.
pub fn read(inventory: &Inventory) -> BTreeSet<ObjectKey> {
    let key = |object: &PausedObject| ObjectKey {
        group: object.group.clone(),
        kind: object.kind.clone(),
        namespace: Some(object.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        name: object.name.clone(),
    };
    inventory.paused.iter().map(key).collect()
}
