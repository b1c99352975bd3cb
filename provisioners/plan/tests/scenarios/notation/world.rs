//! Releases by their names, and objects as they are after an apply. `v1` is a plain release; `v1@a` is one of the other format
//! whose settings say `a`.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_content::Digest;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::{Objects, Tracked};
use rukpak_plan::health::{Health, State};
use rukpak_plan::plan::Missing;
use rukpak_plan::{Fingerprint, Format, Identity, Kind, Owner, Plan, Release};
use serde_json::{Map, Value, json};

use super::Error;

/// What the program that wrote a digest is called.
pub const RENDERER: &str = "renderer/1";
/// When everything happens that has no time of its own.
pub const NOW: i64 = 1_750_000_000;

pub fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

pub fn owner() -> Owner {
    Owner { name: "app".into(), uid: "uid-of-app".into() }
}

/// `1m`, `-1h`: so long before or after `now`.
pub fn at(now: Timestamp, offset: &str) -> Result<Timestamp, Error> {
    Ok(now.checked_add(offset.parse::<SignedDuration>()?)?)
}

/// A name and what is in brackets after it.
pub fn release(name: &str) -> Release {
    match name.split_once('@') {
        None => Release::new(Digest::sha256(name.as_bytes()), Format::Plain, None),
        Some((name, setting)) => {
            let settings: Map<String, Value> = [("watchNamespace".to_owned(), json!(setting))].into_iter().collect();
            Release::new(Digest::sha256(name.as_bytes()), Format::Registry, Some(&settings))
        }
    }
}

/// The name of a release, among those that scenarios speak of.
pub fn name(of: &Release) -> String {
    let name = content_name(&of.content.to_string());
    let setting = of.config.as_ref().and_then(|config| config["watchNamespace"].as_str());
    setting.map_or(name.clone(), |setting| format!("{name}@{setting}"))
}

pub fn content_name(digest: &str) -> String {
    let known = (0..10).map(|number| format!("v{number}"));
    let mut known = known.filter(|name| Digest::sha256(name.as_bytes()).to_string() == digest);
    known.next().unwrap_or_else(|| digest.to_owned())
}

/// ConfigMaps are called by their names alone; `Kind name` is something else in the same namespace.
pub fn key(text: &str) -> ObjectKey {
    let (kind, name) = text.split_once(' ').unwrap_or(("ConfigMap", text));
    let group = if kind == "Deployment" { "apps" } else { "" };
    ObjectKey { group: group.into(), kind: kind.into(), namespace: Some("ns".into()), name: name.into() }
}

/// The objects of a release: `a` and `b`, and from `v2` on a Deployment as well. `v9` is a large one.
pub fn objects(of: &Release, now: Timestamp) -> Objects {
    let names = match content_name(&of.content.to_string()).as_str() {
        "v1" => vec!["a".to_owned(), "b".to_owned()],
        "v9" => (0..12).map(|number| format!("o{number:02}")).collect(),
        _ => vec!["a".to_owned(), "b".to_owned(), "Deployment c".to_owned()],
    };
    names.iter().map(|name| (key(name), tracked(&key(name), of, now))).collect()
}

/// Which objects it has is the scenario's to know.
pub fn plan(of: &Release, missing: Vec<Missing>) -> Plan {
    Plan {
        release: of.clone(),
        certificates_due: None,
        authorities: None,
        properties: Vec::new(),
        namespace: None,
        steps: BTreeMap::new(),
        missing,
        hooks: Vec::new(),
    }
}

fn tracked(key: &ObjectKey, of: &Release, read_at: Timestamp) -> Tracked {
    let resource = std::sync::Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk(&key.group, "v1", &key.kind)));
    let kind = Kind { resource, namespaced: true };
    let identity = Identity { kind, namespace: key.namespace.clone(), name: key.name.clone() };
    let fingerprint = Fingerprint::of(&metadata(&key.name, &name(of)), &owner(), FIELD_MANAGER);
    Tracked { identity, fingerprint, health: Health::new(State::Current, ""), is_read: true, read_at }
}

/// Metadata of an object that was applied with one field, called like the release.
fn metadata(uid: &str, field: &str) -> ObjectMeta {
    serde_json::from_value(json!({
        "uid": uid, "resourceVersion": "1", "ownerReferences": [owner().reference()],
        "labels": {"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "app"},
        "managedFields": [{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {format!("f:{field}"): {}}}}],
    }))
    .unwrap()
}
