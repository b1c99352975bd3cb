//! What the garbage collector does.

use serde_json::{Value, json};

use crate::cluster::State;
use crate::server::{Key, Object, Request};

/// The owners of an object that are gone, and those that are there.
fn owners(state: &State, object: &Object) -> (Vec<Value>, Vec<Value>) {
    let owners = object.value["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let is_there = |owner: &Value| {
        let key = Key::new(owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default());
        state.server.objects.get(&key).is_some_and(|object| owner["uid"] == object.uid.as_str())
    };
    owners.into_iter().partition(|owner| !is_there(owner))
}

/// Whether some object has an owner that is gone.
pub fn is_garbage(state: &State) -> bool {
    let mut all = state.server.objects.values().filter(|object| !object.is_terminating);
    all.any(|object| !owners(state, object).0.is_empty())
}

/// What has no owner left goes; of what has some left, those that are gone are taken off.
pub fn collect(state: &mut State) {
    let all: Vec<_> = state.server.objects.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
    for (key, object) in all.into_iter().filter(|(_, object)| !object.is_terminating) {
        let (gone, left) = owners(state, &object);
        if gone.is_empty() {
            continue;
        }
        if left.is_empty() {
            state.server.delete(&key);
        } else {
            let version =
                state.server.kind(&key.kind).and_then(|kind| kind.versions.first().cloned()).unwrap_or_default();
            let (body, manager) =
                (json!({"metadata": {"ownerReferences": left}}), "kube-controller-manager".to_owned());
            // A version that is not served answers nothing.
            let _ = state.server.answer(&Request::Patch { key, version, body, manager, is_status: false });
        }
    }
    state.note();
}
