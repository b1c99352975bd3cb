//! What was left in the cluster without an owner, as the status lists it.

use rukpak_crds::ReleasedObject;
use rukpak_crds::names::ADOPT_BY;
use rukpak_plan::{Identity, Kind};

use crate::deployment::observe::Run;

/// Adds objects to the list, each once.
pub(crate) fn add(list: &mut Vec<ReleasedObject>, new: impl IntoIterator<Item = ReleasedObject>) {
    for object in new {
        list.retain(|known| !is_same(known, &object));
        list.push(object);
    }
}

fn is_same(a: &ReleasedObject, b: &ReleasedObject) -> bool {
    (&a.group, &a.kind, &a.namespace, &a.name) == (&b.group, &b.kind, &b.namespace, &b.name)
}

/// Takes off the list what was deleted, or has become somebody's, meanwhile. What cannot be seen stays on it.
pub(crate) async fn look(run: &mut Run) {
    let listed = run.observed.inventory().released;
    for object in listed {
        if !is_left(run, &object).await {
            run.memory.released.retain(|known| !is_same(known, &object));
            if let Some(inventory) = &mut run.observed.status.inventory {
                inventory.released.retain(|known| !is_same(known, &object));
            }
        }
    }
}

/// Whether the object is there as we left it: with the annotation by which we may have it again.
async fn is_left(run: &Run, object: &ReleasedObject) -> bool {
    let found = async {
        let Some(kind) = kind(run, object).await? else { return Ok(None) };
        let namespace = Some(object.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let identity = Identity { kind, namespace, name: object.name.clone() };
        run.context.cluster.reader.metadata(&identity).await
    };
    match found.await {
        Ok(Some(metadata)) => metadata.annotations.is_some_and(|all| all.get(ADOPT_BY) == Some(&run.owner.name)),
        Ok(None) => false,
        Err(_) => true,
    }
}

async fn kind(run: &Run, object: &ReleasedObject) -> Result<Option<Kind>, crate::cluster::Error> {
    let ReleasedObject { group, version, kind, .. } = object;
    let kind = rukpak_crds::InventoryKind { group: group.clone(), version: version.clone(), kind: kind.clone() };
    run.context.cluster.kinds.any_version(&kind, &std::collections::BTreeSet::new()).await
}
