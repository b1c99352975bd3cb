//! An upgrade that drops a version in which objects are stored: the definitions, the objects, and what is wrong with them at any time.

use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use serde_json::{Value, json};

use crate::sweep::subject::Subject;

/// Objects that are migrated, each by a write of its own.
const OBJECTS: usize = 4;
/// What every object has beside its size.
const NOTE: &str = "not to be lost";

/// The definition of both versions, of which the first is stored; or that of the second alone.
pub fn definition(namespace: &str, is_dropped: bool) -> Value {
    let group = group(namespace);
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "note": {"type": "string"}}}}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    let versions = if is_dropped { vec![version("v2", true)] } else { vec![version("v1", true), version("v2", false)] };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": versions}})
}

fn group(namespace: &str) -> String {
    format!("{namespace}.sweep.test")
}

fn api(subject: &Subject<'_>, version: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(&group(&subject.name), version, "Gadget");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "gadgets");
    Api::namespaced_with(subject.stage.client.clone(), &subject.name, &resource)
}

/// Creates the objects in the version that is going to be dropped.
pub async fn create(subject: &mut Subject<'_>) {
    let group = group(&subject.name);
    for version in ["v1", "v2"] {
        let served = verbs::await_served(&subject.stage.client, &format!("{group}/{version}"), "Gadget", SOON).await;
        served.expect("it is served");
    }
    for index in 0..OBJECTS {
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget",
            "metadata": {"name": format!("g-{index}"), "namespace": subject.name},
            "spec": {"size": index, "note": NOTE}});
        let object = serde_json::from_value(object).expect("an object");
        let made = api(subject, "v1").create(&PostParams::default(), &object).await.expect("the API server agrees");
        subject.stored.push(made);
    }
}

/// What must not be at any time: that an object is gone, or another, or that the version which stays is not served.
///
/// An API server that is away, or that makes a storage ready, says nothing.
pub async fn lost(subject: &Subject<'_>) -> Option<String> {
    let found = match api(subject, "v2").list(&ListParams::default()).await {
        Ok(found) => found.items,
        Err(kube::Error::Api(status)) if status.code < 429 => {
            return Some(format!("stored objects cannot be read: {status}"));
        }
        Err(_) => return None,
    };
    subject.stored.iter().find_map(|made| {
        let is_it = |object: &&DynamicObject| object.metadata.name == made.metadata.name;
        let name = made.metadata.name.as_deref().unwrap_or_default();
        let Some(now) = found.iter().find(is_it) else { return Some(format!("Gadget {name} is gone")) };
        let is_same = now.metadata.uid == made.metadata.uid
            && now.metadata.generation == made.metadata.generation
            && now.data["spec"] == made.data["spec"];
        (!is_same).then(|| format!("Gadget {name} is another: {}", json!(now)))
    })
}

/// What is not as it is to be in the end.
pub async fn problems(subject: &Subject<'_>, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let name = format!("gadgets.{}", group(&subject.name));
    let target = Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name);
    let found = verbs::get(&subject.stage.client, &target).await?;
    let stored = found.map(|crd| crd.data["status"]["storedVersions"].clone());
    if stored != Some(json!(["v2"])) {
        wrong.push(format!("objects may be stored as {stored:?}"));
    }
    Ok(())
}
