//! Random requests of the kinds that the controller and others send, for two servers at once: each is a choice that both make a
//! request of, by what they have.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub use super::numbers::Numbers;
use super::server::{Key, Refusal, Request};

/// Who writes: we, a user, an operator, and Helm.
const MANAGERS: [&str; 4] = ["rukpak-core", "hand", "operator", "helm"];
/// Objects that own others and never go.
pub const OWNERS: [&str; 2] = ["owner-0", "owner-1"];

/// What two servers cannot have in common.
const UNSAID: [&str; 4] = ["resourceVersion", "creationTimestamp", "deletionGracePeriodSeconds", "namespace"];

/// What one server has, in its own names.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The group of the kind `Db`.
    pub group: String,
    /// UIDs in the order in which they were met.
    pub uids: Vec<String>,
    /// Each object as it was before it was changed last, and as it is now.
    pub known: BTreeMap<Key, (Value, Value)>,
}

impl View {
    /// Where requests for objects of `kind` go.
    pub fn api_version(&self, kind: &str, version: &str) -> String {
        if kind == "ConfigMap" { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// Takes up what `key` is now. Returns it in words that are the same for both servers.
    pub fn take(&mut self, key: &Key, now: &Value) -> String {
        let known = self.known.remove(key).unwrap_or_default();
        let is_changed = known.1["metadata"]["resourceVersion"] != now["metadata"]["resourceVersion"];
        let text = format!("{}{}", if is_changed { "changed: " } else { "" }, self.words(now));
        let before = if is_changed { known.1 } else { known.0 };
        self.known.insert(key.clone(), (before, now.clone()));
        text
    }

    /// An object without what two servers cannot have in common.
    pub fn words(&mut self, object: &Value) -> String {
        if let Some(uid) = object["metadata"]["uid"].as_str()
            && !self.uids.iter().any(|known| known == uid)
        {
            self.uids.push(uid.to_owned());
        }
        let uids = self.uids.iter().zip(0..);
        let text = uids.fold(object.to_string(), |text, (uid, number)| text.replace(uid, &format!("uid-{number}")));
        let mut object: Value =
            serde_json::from_str(&text.replace(&self.group, "GROUP")).expect("because it was written so");
        if let Some(map) = object.as_object_mut() {
            map.retain(|key, _| !matches!(key.as_str(), "apiVersion" | "kind"));
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            let is_terminating = metadata.remove("deletionTimestamp").is_some();
            metadata.retain(|key, _| !UNSAID.contains(&key.as_str()));
            metadata.insert("isTerminating".to_owned(), json!(is_terminating));
            let entries = metadata.remove("managedFields").unwrap_or_default();
            metadata.insert("managedFields".to_owned(), entries.as_array().into_iter().flatten().map(entry).collect());
            // In which order the items of a list are that is merged says nothing.
            for list in ["managedFields", "ownerReferences", "finalizers"] {
                if let Some(items) = metadata.get_mut(list).and_then(Value::as_array_mut) {
                    items.sort_by_key(Value::to_string);
                }
            }
        }
        serde_json::to_string_pretty(&object).unwrap_or_default()
    }

    fn field(&self, key: &Key, field: &str, is_stale: bool) -> Option<String> {
        let (before, now) = self.known.get(key)?;
        let object = if is_stale && before.is_object() { before } else { now };
        object["metadata"][field].as_str().map(str::to_owned)
    }

    fn owner(&self, number: usize, is_controller: bool) -> Value {
        let uid = self.field(&Key::new("ConfigMap", OWNERS[number]), "uid", false);
        let mut owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": OWNERS[number], "uid": uid});
        if is_controller {
            owner["controller"] = json!(true);
        }
        owner
    }

    /// The request that `numbers` choose.
    pub fn request(&self, numbers: &mut Numbers) -> Request {
        let kind = *numbers.one(&["ConfigMap", "Db"]);
        let name = *numbers.one(&["a", "b"]);
        let key = Key::new(kind, name);
        let version = if kind == "Db" { *numbers.one(&["v1", "v1", "v1alpha1"]) } else { "v1" }.to_owned();
        let manager = (*numbers.one(&MANAGERS)).to_owned();
        match numbers.below(20) {
            0..=8 => {
                let mut body = self.body(&key, &version, numbers);
                let ours = if numbers.is(3) { manager } else { MANAGERS[0].to_owned() };
                let metadata = body["metadata"].as_object_mut().expect("because it was made so");
                let stale = numbers.is(4);
                if numbers.is(3) {
                    metadata.insert("resourceVersion".to_owned(), json!("1"));
                } else if numbers.is(2) {
                    metadata
                        .insert("uid".to_owned(), json!(self.field(&key, "uid", stale).unwrap_or("none".to_owned())));
                    if let Some(version) = self.field(&key, "resourceVersion", stale).filter(|_| numbers.is(2)) {
                        metadata.insert("resourceVersion".to_owned(), json!(version));
                    }
                }
                Request::Apply { key, version, body, manager: ours, is_trial: numbers.is(6) }
            }
            9..=13 => {
                let body = self.change(&key, numbers);
                Request::Patch { key, version, body, manager, is_status: false }
            }
            14 => {
                let body = json!({"status": {"phase": numbers.one(&["new", "old"])}});
                Request::Patch {
                    key: Key::new("Db", &key.name),
                    version: "v1".to_owned(),
                    body,
                    manager,
                    is_status: true,
                }
            }
            15 => self.moving(key, version),
            16 => {
                let body = self.body(&key, &version, numbers);
                Request::Create { key, version, body, manager }
            }
            17 => Request::List { kind: kind.to_owned(), version, labels: vec![("l".to_owned(), "x".to_owned())] },
            _ => {
                let (has_uid, has_version, is_stale) = (numbers.is(2), numbers.is(2), numbers.is(4));
                let uid = self.field(&key, "uid", is_stale).filter(|_| has_uid);
                let resource_version = self.field(&key, "resourceVersion", is_stale).filter(|_| has_version);
                Request::Delete { key, version, uid, resource_version }
            }
        }
    }

    /// A manifest.
    fn body(&self, key: &Key, version: &str, numbers: &mut Numbers) -> Value {
        let mut metadata = Map::from_iter([("name".to_owned(), json!(key.name))]);
        if numbers.is(2) {
            metadata.insert("labels".to_owned(), json!({"l": numbers.one(&["x", "y"])}));
        }
        if numbers.is(3) {
            metadata.insert("annotations".to_owned(), json!({"a": numbers.one(&["x", "y"])}));
        }
        match numbers.below(6) {
            0 => drop(metadata.insert("ownerReferences".to_owned(), json!([self.owner(0, true)]))),
            1 => {
                drop(metadata.insert("ownerReferences".to_owned(), json!([self.owner(0, true), self.owner(1, false)])));
            }
            2 => drop(metadata.insert("finalizers".to_owned(), json!(["example.com/c"]))),
            _ => {}
        }
        let mut fields = Map::from_iter([("always".to_owned(), json!("x"))]);
        for field in ["one", "two"] {
            if numbers.is(2) {
                fields.insert(field.to_owned(), json!(numbers.one(&["x", "y"])));
            }
        }
        let below = if key.kind == "Db" { "spec" } else { "data" };
        json!({"apiVersion": self.api_version(&key.kind, version), "kind": key.kind, "metadata": metadata, below: fields})
    }

    /// An edit by somebody.
    fn change(&self, key: &Key, numbers: &mut Numbers) -> Value {
        let below = if key.kind == "Db" { "spec" } else { "data" };
        let value = numbers.one(&[json!("x"), json!("z"), Value::Null]).clone();
        let mut body = match numbers.below(6) {
            0 | 1 => json!({below: {*numbers.one(&["one", "two", "always"]): value}}),
            2 => json!({"metadata": {"labels": {"l": value}}}),
            3 => json!({"metadata": {"annotations": {"a": value, "b": "x"}}}),
            4 => {
                let all = [json!([]), json!(["example.com/a"]), json!(["example.com/a", "example.com/b"]), Value::Null];
                json!({"metadata": {"finalizers": numbers.one(&all)}})
            }
            _ => {
                let all =
                    [json!([]), json!([self.owner(1, false)]), json!([self.owner(0, true), self.owner(1, false)])];
                json!({"metadata": {"ownerReferences": numbers.one(&all)}})
            }
        };
        if let Some(version) = self.field(key, "resourceVersion", numbers.is(4)).filter(|_| numbers.is(3)) {
            body["metadata"]["resourceVersion"] = json!(version);
        }
        body
    }

    /// Makes what Helm owns ours, as an adoption does.
    fn moving(&self, key: Key, version: String) -> Request {
        let now = self.known.get(&key).map(|(_, now)| now.clone()).unwrap_or_default();
        let entries = now["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let is_ours = |entry: &Value| entry["manager"] == MANAGERS[0] && entry["operation"] == "Apply";
        let is_helms = |entry: &Value| {
            entry["manager"] == "helm" && entry["operation"] == "Update" && entry["subresource"].is_null()
        };
        let (mut left, mut moved) = (Vec::new(), Vec::new());
        for entry in entries {
            if is_ours(&entry) || is_helms(&entry) { moved.push(entry) } else { left.push(entry) }
        }
        if let Some(mut first) = moved.first().cloned() {
            first["manager"] = json!(MANAGERS[0]);
            first["operation"] = json!("Apply");
            let merged = moved.iter().fold(json!({}), |mut all, next| {
                super::server::values::merge(&mut all, &next["fieldsV1"]);
                all
            });
            first["fieldsV1"] = merged;
            left.push(first);
        }
        let version_now = now["metadata"]["resourceVersion"].clone();
        let body = json!({"metadata": {"resourceVersion": version_now, "managedFields": left}});
        Request::Patch { key, version, body, manager: MANAGERS[0].to_owned(), is_status: false }
    }
}

fn entry(entry: &Value) -> String {
    let text = |key: &str| entry[key].as_str().unwrap_or_default();
    // An applier is the same in every version.
    let version = if text("operation") == "Apply" { "" } else { text("apiVersion") };
    format!("{} {} {} {version} {}", text("manager"), text("operation"), text("subresource"), entry["fieldsV1"])
}

/// An answer in words that are the same for both servers. What a list has is compared by name.
pub fn words(view: &mut View, request: &Request, answer: &Result<Value, Refusal>) -> String {
    match (request, answer) {
        (_, Err(refusal)) => format!("{refusal:?}"),
        (Request::Delete { .. }, Ok(_)) => "deleted".to_owned(),
        (Request::List { .. }, Ok(list)) => {
            let items = list["items"].as_array().into_iter().flatten();
            format!("{:?}", items.map(|item| item["metadata"]["name"].clone()).collect::<Vec<_>>())
        }
        (Request::Apply { is_trial: true, key, .. }, Ok(object)) => {
            // A new object has a UID that nobody sees again.
            let mut object = object.clone();
            if !view.known.get(key).is_some_and(|(_, now)| now.is_object()) {
                object["metadata"]["uid"] = json!("trial");
            }
            view.words(&object)
        }
        (_, Ok(object)) => view.words(object),
    }
}
