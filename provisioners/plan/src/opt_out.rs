//! What is left alone on request: whole objects, by their annotation, and single fields, by a rule of the BundleDeployment.
//!
//! An object whose annotation `core.rukpak.io/reconcile` says `disabled`, in the manifest or in the cluster, is neither applied nor
//! repaired nor pruned for as long as it says so. Such an object is declared all the same: it does not leave.
//!
//! A field of `spec.ignoreDifferences` is sent when its object is created, and never after. An apply that leaves out a field which is
//! ours removes it. So what is still ours is sent as it is in the cluster, and so is what lies in a list or map that managers have as a
//! whole. What else is another's, or nobody's, is left out.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::names::{
    self, FIELD_MANAGER, OWNER_KIND, OWNER_NAME, OWNER_UID, PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE,
};
use rukpak_crds::{BundleDeploymentSpec, Inventory, PausedObject};
use rukpak_plain::ObjectKey;
use serde_json::{Map, Value, json};

use crate::fields;
use crate::kind::is_selected;

/// A field of a manifest: the keys from the root, and the indices of items.
type Pointer = Vec<String>;

/// The fields of one object that are left to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored(Vec<Pointer>);

impl Ignored {
    /// What the rules of a BundleDeployment say of an object.
    pub fn of(spec: &BundleDeploymentSpec, key: &ObjectKey) -> Self {
        let rules = spec.ignore_differences.iter().filter(|rule| is_selected(&rule.objects, key));
        Self(rules.flat_map(|rule| &rule.json_pointers).map(|pointer| tokens(pointer)).collect())
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out of a body what is left to others, given the metadata and the rest of the object in the cluster. What tells whose an object is stays.
    pub fn leave(&self, body: &mut Value, metadata: &ObjectMeta, live: &Value) {
        if self.is_empty() {
            return;
        }
        let declared = body.clone();
        let live_object = whole(metadata, live);
        let mut left_out = Vec::new();
        for pointer in &self.0 {
            let stays = fields::unchanged_at(metadata, FIELD_MANAGER, (&declared, &live_object), pointer);
            match (at(body, pointer), stays) {
                (Some(field), Some(value)) => *field = value,
                (Some(_), None) => left_out.push(pointer),
                (None, _) => {}
            }
        }
        // The last item of a list first: the others would be counted anew.
        left_out.sort_by_key(|pointer| Reverse(pointer.last().and_then(|index| index.parse::<usize>().ok())));
        for pointer in left_out {
            remove(body, pointer);
        }
        restore_identity(body, &declared);
    }

    /// Whether a field, as managedFields writes it, is left to others. Without the body of the object every item of a list counts.
    pub fn covers(&self, path: &[String], body: Option<&Value>) -> bool {
        self.0.iter().any(|pointer| is_covered(pointer, path, body))
    }
}

fn tokens(pointer: &str) -> Pointer {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect()
}

fn is_covered(pointer: &[String], path: &[String], body: Option<&Value>) -> bool {
    let Some((token, rest)) = pointer.split_first() else { return true };
    let Some((key, below)) = path.split_first() else { return false };
    match (key.split_once(':'), body) {
        (Some(("f", name)), _) => name == token && is_covered(rest, below, body.and_then(|body| body.get(name))),
        (Some(("k" | "v" | "i", _)), None) => token.parse::<usize>().is_ok() && is_covered(rest, below, None),
        (Some(("k" | "v", _)), Some(body)) => {
            let item = token.parse::<usize>().ok().and_then(|index| body.get(index));
            item.is_some_and(|item| fields::is_item(key, item) && is_covered(rest, below, Some(item)))
        }
        _ => false,
    }
}

/// The object with its metadata.
fn whole(metadata: &ObjectMeta, body: &Value) -> Value {
    let mut object = body.clone();
    if let (Some(object), Ok(metadata)) = (object.as_object_mut(), serde_json::to_value(metadata)) {
        object.insert("metadata".to_owned(), metadata);
    }
    object
}

fn at<'a>(value: &'a mut Value, pointer: &[String]) -> Option<&'a mut Value> {
    pointer.iter().try_fold(value, |value, token| match value {
        Value::Object(map) => map.get_mut(token),
        Value::Array(items) => items.get_mut(token.parse::<usize>().ok()?),
        _ => None,
    })
}

fn remove(value: &mut Value, pointer: &[String]) {
    let Some((last, parents)) = pointer.split_last() else { return };
    match (at(value, parents), last.parse::<usize>()) {
        (Some(Value::Object(map)), _) => drop(map.remove(last)),
        (Some(Value::Array(items)), Ok(index)) if index < items.len() => drop(items.remove(index)),
        _ => {}
    }
}

/// Puts back what names the object, and what tells whose it is: no rule is about that.
fn restore_identity(body: &mut Value, declared: &Value) {
    let fields = [
        &["apiVersion"][..],
        &["kind"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "ownerReferences"],
        &["metadata", "labels", OWNER_KIND],
        &["metadata", "labels", OWNER_NAME],
        &["metadata", "annotations", OWNER_UID],
        &["metadata", "annotations", PRIMARY_RESOURCE],
        &["metadata", "annotations", PRIMARY_RESOURCE_TYPE],
    ];
    for field in fields {
        let value = field.iter().try_fold(declared, |value, key| value.get(key));
        let (Some(value), Some((last, parents))) = (value, field.split_last()) else { continue };
        let parent =
            parents.iter().fold(&mut *body, |value, key| map_of(value).entry(*key).or_insert_with(|| json!({})));
        map_of(parent).insert((*last).to_owned(), value.clone());
    }
}

fn map_of(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object above"),
    }
}

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
