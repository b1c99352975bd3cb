//! A small API server: objects with UID, version, generation, finalizers and owners of fields, and the requests that the
//! controller and others send. Deterministic; a state is a value that can be copied and compared.
//!
//! `tests/suite/harness/conformance.rs` sends the same random requests to this and to a real one, and compares what comes of them.

#![allow(dead_code)] // each of the two programs that have it uses another part

#[path = "server/body.rs"]
mod body;
#[path = "server/object.rs"]
mod object;
#[path = "server/values.rs"]
pub mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use body::{empty_members, is_owned, own, tidy, without};
use object::{BuiltIn, read_entry};
pub use object::{Key, Kind, Manager, Object, Operation, Owned};
use values::{Set, compare, leaves, merge, remove};

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Get {
        key: Key,
        version: String,
    },
    /// All of a kind that have these labels.
    List {
        kind: String,
        version: String,
        labels: Vec<(String, String)>,
    },
    Create {
        key: Key,
        version: String,
        body: Value,
        manager: String,
    },
    /// Forced.
    Apply {
        key: Key,
        version: String,
        body: Value,
        manager: String,
        is_trial: bool,
    },
    /// A merge patch, of the object or of its status.
    Patch {
        key: Key,
        version: String,
        body: Value,
        manager: String,
        is_status: bool,
    },
    Delete {
        key: Key,
        version: String,
        uid: Option<String>,
        resource_version: Option<String>,
    },
}

/// What is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The object or its kind.
    NotFound,
    Conflict,
    /// The object of that name has another UID.
    OtherObject,
    Invalid,
    Forbidden,
    /// The server did not answer, or had no time.
    Unavailable,
}

/// The object, or `items` of a list.
pub type Answer = Result<Value, Refusal>;

/// What watches are told: the object, and whether it is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    pub key: Key,
    pub object: Arc<Object>,
    pub is_gone: bool,
}

/// The server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Server {
    pub objects: BTreeMap<Key, Arc<Object>>,
    /// What no watch was told yet.
    pub events: Vec<Event>,
    /// Kinds whose deletion an admission policy refuses.
    pub undeletable: Vec<String>,
    /// Objects that a webhook refuses where `data.x` is this, and how.
    pub refused: Vec<(Key, String, Refusal)>,
    /// Whether it does not look at trials.
    pub lets_trials_pass: bool,
    /// What the clock says, as RFC 3339 has it.
    pub time: String,
    /// Those of a real one are never as low as that which creates objects.
    version: u64,
    /// How often an object of each name was made.
    births: BTreeMap<Key, u64>,
}

const FIRST: u64 = 100;
/// Who owns what was there before the first apply.
const BEFORE: &str = "before-first-apply";
const CRD: &str = "CustomResourceDefinition";
const BUILT_IN: [BuiltIn; 6] = [
    ("ConfigMap", "", "configmaps", true, false),
    ("ControllerRevision", "apps", "controllerrevisions", true, false),
    (CRD, "apiextensions.k8s.io", "customresourcedefinitions", false, true),
    ("Lease", "coordination.k8s.io", "leases", true, false),
    ("Namespace", "", "namespaces", false, false),
    ("Secret", "", "secrets", true, false),
];

impl Request {
    /// The kind and version that are asked for.
    fn kind(&self) -> (&str, &str) {
        match self {
            Self::List { kind, version, .. } => (kind, version),
            Self::Get { key, version }
            | Self::Create { key, version, .. }
            | Self::Apply { key, version, .. }
            | Self::Patch { key, version, .. }
            | Self::Delete { key, version, .. } => (&key.kind, version),
        }
    }

    /// The object that is changed.
    pub fn written(&self) -> Option<&Key> {
        match self {
            Self::Get { .. } | Self::List { .. } | Self::Apply { is_trial: true, .. } => None,
            Self::Create { key, .. } | Self::Apply { key, .. } | Self::Patch { key, .. } | Self::Delete { key, .. } => {
                Some(key)
            }
        }
    }
}

impl Server {
    /// What the server does with a request.
    pub fn answer(&mut self, request: &Request) -> Answer {
        let (kind, version) = request.kind();
        let served = self.kind(kind).ok_or(Refusal::NotFound)?;
        if !served.versions.iter().any(|known| known == version) {
            return Err(Refusal::NotFound);
        }
        let api = if served.group.is_empty() { version.to_owned() } else { format!("{}/{version}", served.group) };
        match request {
            Request::Get { key, .. } => self.shown(key, &api),
            Request::List { kind, labels, .. } => {
                let of_kind =
                    self.objects.iter().filter(|(key, object)| key.kind == *kind && object.has_labels(labels));
                Ok(json!({"items": of_kind.map(|(key, object)| object.shown(key, &api)).collect::<Vec<_>>()}))
            }
            Request::Create { key, .. } if self.objects.contains_key(key) => Err(Refusal::Conflict),
            Request::Create { key, body, manager, .. } => {
                let mut new = self.born(key, served.is_counted);
                new.value = own(body);
                tidy(&mut new.value);
                self.update(&mut new, &json!({}), manager, "", &api);
                self.store(key, new);
                self.shown(key, &api)
            }
            Request::Apply { key, body, manager, is_trial, .. } => {
                if let Some(refusal) = self.refuses(key, body).filter(|_| !is_trial) {
                    return Err(refusal);
                }
                let before = is_trial.then(|| self.clone());
                let applied = self.apply(key, body, manager, &api, &served);
                let applied = applied.map(|object| object.shown(key, &api));
                if let Some(before) = before {
                    *self = before;
                }
                applied
            }
            Request::Patch { key, body, manager, is_status, .. } => {
                Ok(self.patch(key, body, manager, *is_status, &api)?.shown(key, &api))
            }
            Request::Delete { key, uid, resource_version, .. } => {
                let live = self.objects.get(key).ok_or(Refusal::NotFound)?;
                let is_other = uid.as_ref().is_some_and(|uid| *uid != live.uid)
                    || resource_version.as_ref().is_some_and(|version| *version != live.version.to_string());
                if self.undeletable.contains(&key.kind) {
                    return Err(Refusal::Forbidden);
                }
                if is_other { Err(Refusal::Conflict) } else { Ok(self.delete(key)) }
            }
        }
    }

    /// The kind as it is served: built in, or defined by a CRD.
    pub fn kind(&self, kind: &str) -> Option<Kind> {
        let built_in = BUILT_IN.iter().find(|(known, ..)| *known == kind).map(Kind::built_in);
        built_in.or_else(|| self.definitions().find(|spec| spec["names"]["kind"] == kind).and_then(Kind::defined))
    }

    /// All kinds that are served, and their names.
    pub fn kinds(&self) -> Vec<(String, Kind)> {
        let built_in = BUILT_IN.iter().map(|kind| (kind.0.to_owned(), Kind::built_in(kind)));
        let defined = |spec: &Value| Some((spec["names"]["kind"].as_str()?.to_owned(), Kind::defined(spec)?));
        built_in.chain(self.definitions().filter_map(defined)).collect()
    }

    fn definitions(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(|(key, _)| key.kind == CRD).map(|(_, crd)| &crd.value["spec"])
    }

    /// The version of the last write.
    pub fn version(&self) -> u64 {
        self.version.max(FIRST)
    }

    fn refuses(&self, key: &Key, body: &Value) -> Option<Refusal> {
        let mut all = self.refused.iter();
        all.find(|(refused, x, _)| refused == key && body["data"]["x"] == x.as_str()).map(|(.., refusal)| *refusal)
    }

    fn shown(&self, key: &Key, api: &str) -> Answer {
        self.objects.get(key).map(|object| object.shown(key, api)).ok_or(Refusal::NotFound)
    }

    fn born(&mut self, key: &Key, is_counted: bool) -> Object {
        let births = self.births.entry(key.clone()).or_default();
        *births += 1;
        Object {
            uid: format!("{}/{}#{births}.", key.kind, key.name),
            version: 0,
            generation: is_counted.then_some(1),
            is_terminating: false,
            untidy: BTreeSet::new(),
            value: json!({}),
            managers: BTreeMap::new(),
        }
    }

    fn apply(
        &mut self,
        key: &Key,
        body: &Value,
        manager: &str,
        api: &str,
        served: &Kind,
    ) -> Result<Arc<Object>, Refusal> {
        let named = |field: &str| body["metadata"][field].as_str();
        let live = match self.objects.get(key) {
            Some(live) if named("resourceVersion").is_some_and(|version| version != live.version.to_string()) => {
                return Err(Refusal::Conflict);
            }
            Some(live) if named("uid").is_some_and(|uid| uid != live.uid) => return Err(Refusal::OtherObject),
            Some(live) => Some((**live).clone()),
            None if named("uid").is_some() => return Err(Refusal::Conflict),
            None => None,
        };
        let is_new = live.is_none();
        let mut before = live.unwrap_or_else(|| self.born(key, served.is_counted));
        // Of an object that nobody owns any field of, all is somebody's from the first apply on.
        if !is_new && before.managers.is_empty() {
            self.update(&mut before, &json!({}), BEFORE, "", api);
            // Of a status that has a subresource nobody owns anything who writes the object itself.
            if served.is_counted {
                for owned in before.managers.values_mut() {
                    owned.set.retain(|path| path.first().is_none_or(|key| key != "f:status"));
                }
            }
        }
        let (config, mut after) = (own(body), before.clone());
        merge(&mut after.value, &config);
        let us = Manager {
            operation: Operation::Apply,
            name: manager.to_owned(),
            subresource: String::new(),
            version: api.to_owned(),
        };
        let mine = |other: &Manager| {
            other.operation == Operation::Apply && other.name == manager && other.subresource.is_empty()
        };
        let set: Set = leaves(&config).into_iter().filter(is_owned).collect();
        let last = after.managers.iter().find(|(other, _)| mine(other)).map(|(_, owned)| owned.clone());
        after.managers.retain(|other, _| !mine(other));
        let others: Set = after.managers.values().flat_map(|owned| owned.set.iter()).chain(&set).cloned().collect();
        let is_above =
            |path: &values::Path| others.range(path.clone()..).next().is_some_and(|next| next.starts_with(path));
        for path in last.iter().flat_map(|last| last.set.difference(&others)).filter(|path| !is_above(path)) {
            remove(&mut after.value, path, &others);
        }
        let is_changed = Self::take_from_others(&before, &mut after, None);
        let time = last.filter(|_| !is_changed).map_or_else(|| self.time.clone(), |last| last.time);
        after.managers.insert(us, Owned { set, time });
        // An object of a built-in kind is read into its type and written again, and so is one that is converted. A custom resource that is
        // applied in the version that is stored, is stored as the apply left it: a map that another manager has stays, though all that
        // was in it is gone.
        let is_as_applied =
            BUILT_IN.iter().all(|(kind, ..)| *kind != key.kind) && api.rsplit('/').next() == Some(&served.stored);
        after.untidy = if is_as_applied { empty_members(&after.value) } else { BTreeSet::new() };
        self.replace(key, &before, after, is_new)
    }

    /// What a change of values takes from whoever owned them. Whether anything was changed.
    fn take_from_others(before: &Object, after: &mut Object, by: Option<&Manager>) -> bool {
        let compared = compare(&before.value, &after.value);
        for (_, owned) in after.managers.iter_mut().filter(|(manager, _)| Some(*manager) != by) {
            let is_taken = |path: &values::Path| {
                compared.modified.contains(path) || compared.added.contains(path) || compared.removed.contains(path)
            };
            owned.set.retain(|path| !is_taken(path));
        }
        after.managers.retain(|_, owned| !owned.set.is_empty());
        before.value != after.value
    }

    /// Notes who has made `after` of the value `before`, other than by an apply.
    fn update(&self, after: &mut Object, before: &Value, manager: &str, subresource: &str, api: &str) {
        let (name, subresource, version) = (manager.to_owned(), subresource.to_owned(), api.to_owned());
        let us = Manager { operation: Operation::Update, name, subresource, version };
        let old = Object { value: before.clone(), ..after.clone() };
        Self::take_from_others(&old, after, Some(&us));
        let compared = compare(before, &after.value);
        let known = after.managers.remove(&us).unwrap_or(Owned { set: Set::new(), time: self.time.clone() });
        let kept = known.set.iter().filter(|path| !compared.removed.contains(*path)).cloned();
        let new = compared.added.into_iter().chain(compared.modified).filter(is_owned);
        let set: Set = kept.chain(new).collect();
        if !set.is_empty() {
            let time = if set == known.set { known.time } else { self.time.clone() };
            after.managers.insert(us, Owned { set, time });
        }
    }

    fn patch(
        &mut self,
        key: &Key,
        body: &Value,
        manager: &str,
        is_status: bool,
        api: &str,
    ) -> Result<Arc<Object>, Refusal> {
        let before = self.objects.get(key).ok_or(Refusal::NotFound)?.clone();
        let named = |field: &str| body["metadata"][field].as_str();
        if named("resourceVersion").is_some_and(|version| version != before.version.to_string()) {
            return Err(Refusal::Conflict);
        }
        if named("uid").is_some_and(|uid| uid != before.uid) {
            return Err(Refusal::OtherObject);
        }
        let mut after = (*before).clone();
        if is_status {
            let mut status = json!({"status": before.value["status"]});
            values::patch(&mut status, &json!({"status": body["status"]}));
            after.value["status"] = status["status"].take();
        } else {
            let mut body = own(body);
            if before.generation.is_some()
                && let Some(map) = body.as_object_mut()
            {
                map.remove("status");
            }
            values::patch(&mut after.value, &body);
        }
        if let Some(entries) = body["metadata"]["managedFields"].as_array() {
            after.managers = entries.iter().map(|entry| read_entry(entry, &self.time)).collect();
        }
        tidy(&mut after.value);
        // Compared is what is stored: who asks for the empty list that is there changes nothing.
        let is_same = after.value == before.value;
        after.untidy = empty_members(body).into_iter().filter(|name| is_same && before.untidy.contains(name)).collect();
        let subresource = if is_status { "status" } else { "" };
        // Nobody begins to own fields by an update where nobody has any.
        if !after.managers.is_empty() {
            self.update(&mut after, &before.value, manager, subresource, api);
        }
        self.replace(key, &before, after, false)
    }

    /// Stores what became of `before`, unless it is the same. Returns it, even if it goes with that: its last finalizer held it.
    fn replace(&mut self, key: &Key, before: &Object, mut after: Object, is_new: bool) -> Result<Arc<Object>, Refusal> {
        tidy(&mut after.value);
        let finalizers =
            |object: &Object| object.value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let is_added = finalizers(&after).iter().any(|finalizer| !finalizers(before).contains(finalizer));
        if before.is_terminating && is_added {
            return Err(Refusal::Invalid);
        }
        if !is_new && *before == after {
            return Ok(Arc::new(after));
        }
        if without(&before.value, &["metadata", "status"]) != without(&after.value, &["metadata", "status"]) && !is_new
        {
            after.generation = after.generation.map(|generation| generation + 1);
        }
        let stored = self.store(key, after);
        self.end(key);
        Ok(stored)
    }

    fn store(&mut self, key: &Key, mut object: Object) -> Arc<Object> {
        self.version = self.version.max(FIRST) + 1;
        object.version = self.version;
        if key.kind == CRD && object.value["status"].is_null() {
            object.value["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
        }
        let object = Arc::new(object);
        self.events.push(Event { key: key.clone(), object: object.clone(), is_gone: false });
        self.objects.insert(key.clone(), object.clone());
        object
    }

    /// Deletes an object, or has it wait for its finalizers. A CRD takes its instances along, whatever admission says.
    pub fn delete(&mut self, key: &Key) -> Value {
        let Some(live) = self.objects.get(key).cloned() else { return Value::Null };
        if live.is_terminating {
            // It is read and written again, which changes the bytes of one that an apply left untidy, and so its version.
            if !live.untidy.is_empty() {
                self.store(key, Object { untidy: BTreeSet::new(), ..(*live).clone() });
            }
            return Value::Null;
        }
        let instances = self.holds(key);
        if live.has_finalizers() || !instances.is_empty() {
            let mut object = Object { is_terminating: true, untidy: BTreeSet::new(), ..(*live).clone() };
            object.generation = object.generation.map(|generation| generation + 1);
            self.store(key, object);
            for instance in &instances {
                self.delete(instance);
            }
        } else {
            self.go(key);
        }
        Value::Null
    }

    /// Takes an object away.
    fn go(&mut self, key: &Key) {
        self.version += 1;
        let Some(object) = self.objects.remove(key) else { return };
        let object = Arc::new(Object { version: self.version, ..(*object).clone() });
        self.events.push(Event { key: key.clone(), object, is_gone: true });
        // The last instance of a CRD that terminates takes that along.
        let crds: Vec<Key> = self.objects.keys().filter(|other| other.kind == CRD).cloned().collect();
        for crd in &crds {
            self.end(crd);
        }
    }

    /// The instances of a CRD, which it waits for.
    fn holds(&self, key: &Key) -> Vec<Key> {
        let defined =
            self.objects.get(key).filter(|_| key.kind == CRD).map(|crd| crd.value["spec"]["names"]["kind"].clone());
        let instances =
            self.objects.keys().filter(|other| defined.as_ref().is_some_and(|kind| *kind == other.kind.as_str()));
        instances.cloned().collect()
    }

    /// Takes away what terminates and waits for nothing any more.
    fn end(&mut self, key: &Key) {
        let is_over = |object: &Arc<Object>| object.is_terminating && !object.has_finalizers();
        if self.objects.get(key).is_some_and(is_over) && self.holds(key).is_empty() {
            self.go(key);
        }
    }
}
