//! Single objects: what is sent for one, whose one is, whether one has drifted, what a bundle comes to.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_crds::{BundleDeploymentSpec, DeletionPolicy, HealthCheck, IgnoredDifference, ObjectSelector};
use rukpak_plain::{Gvk, Object, ObjectKey, Origin};
use rukpak_plan::fields::Taken;
use rukpak_plan::health::assess_by;
use rukpak_plan::opt_out::Ignored;
use rukpak_plan::owner::Predecessors;
use rukpak_plan::owner_metadata::OwnerMetadata;
use rukpak_plan::plan::{Need, Objects, missing_text};
use rukpak_plan::put::replacement;
use rukpak_plan::resolve::{Basis, Live, Why, needs_live, resolve};
use rukpak_plan::{Fingerprint, Kind, prune};
use serde::Deserialize;
use serde_json::{Value, json};

use super::deployment::path;
use super::{Error, world};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Step {
    /// `apps Deployment`; `ConfigMap` in the core group.
    kind: String,
    why: String,
    body: Value,
    live: Option<Value>,
    #[serde(default)]
    metadata: ObjectMeta,
    installed: Option<Value>,
    #[serde(default)]
    relinquished: Vec<String>,
    /// JSON pointers.
    #[serde(default)]
    ignored: Vec<String>,
    /// The manifest of the release that is taken back asks for a replacement.
    #[serde(default)]
    takes_back_forced: bool,
    /// What the API server says of a field, if it refuses the update; by default that it cannot be changed.
    refusal: Option<String>,
}

fn key(kind: &str) -> ObjectKey {
    let (group, kind) = kind.split_once(' ').unwrap_or(("", kind));
    ObjectKey { group: group.into(), kind: kind.into(), namespace: None, name: "x".into() }
}

/// What is sent for an object.
pub fn resolved(given: Value) -> Result<Value, Error> {
    let step: Step = serde_json::from_value(given)?;
    let key = key(&step.kind);
    let all = [Why::First, Why::Upgrade, Why::Rollback, Why::WayBack, Why::Resync, Why::Renewal, Why::Repair];
    let why = all.into_iter().find(|why| format!("{why:?}") == step.why).ok_or("why: not known")?;
    let relinquished: BTreeSet<Taken> = step
        .relinquished
        .iter()
        .map(|field| Taken { manager: "other".into(), subresource: String::new(), path: path(field) })
        .collect();
    let (group, kind) = (key.group.clone(), key.kind.clone());
    let objects = ObjectSelector { group, kind, ..Default::default() };
    let rule = IgnoredDifference { objects, json_pointers: step.ignored.clone() };
    let spec = BundleDeploymentSpec { ignore_differences: vec![rule], ..Default::default() };
    let basis = Basis {
        why,
        installed: step.installed.clone(),
        relinquished: Some(&relinquished),
        ignored: Ignored::of(&spec, &key),
        is_forced: step.takes_back_forced,
    };
    let complaint = step.refusal.as_deref().unwrap_or("field is immutable");
    let refusal = serde_json::from_value(json!({"code": 422, "details": {"causes": [{"message": complaint}]}}))?;
    let live = step.live.as_ref().map(|body| Live { metadata: &step.metadata, body });
    // Where it is not read, it does not count.
    let needs_live = needs_live(&key, &step.body, &basis);
    let resolved = resolve(&key, &step.body, live.filter(|_| needs_live), &basis);
    Ok(json!({
        "sent": resolved.body,
        "kept": resolved.kept,
        "ifRefused": live.map(|live| format!("{:?}", replacement(&key, &step.body, live, &basis, &refusal))),
    }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Owned {
    kind: String,
    metadata: ObjectMeta,
}

/// Whose an object is, and what becomes of it when it leaves the bundle.
pub fn owned(given: Value) -> Result<Value, Error> {
    let Owned { kind, metadata } = serde_json::from_value(given)?;
    let (key, owner) = (key(&kind), world::owner());
    let left = owner.owns_fully(&metadata).then(|| format!("{:?}", prune::decide(&key.group, &key.kind, &metadata)));
    let predecessors = Predecessors { system_namespace: "rukpak-system", extension: None };
    Ok(json!({
        "ownership": format!("{:?}", owner.ownership(&metadata, predecessors)),
        "whenItLeaves": left.unwrap_or_else(|| "it is not pruned".to_owned()),
    }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Seen {
    applied: ObjectMeta,
    seen: ObjectMeta,
}

/// Whether an object is as it was applied.
pub fn drifted(given: Value) -> Result<Value, Error> {
    let Seen { applied, seen } = serde_json::from_value(given)?;
    let print = |metadata: &ObjectMeta| Fingerprint::of(metadata, &world::owner(), FIELD_MANAGER);
    Ok(json!({"drift": format!("{:?}", print(&applied).drift(&print(&seen)))}))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Judged {
    check: HealthCheck,
    status: Value,
}

/// How healthy an object is by a check.
pub fn judged(given: Value) -> Result<Value, Error> {
    let Judged { check, status } = serde_json::from_value(given)?;
    let api_version = format!("{}/v1", check.objects.group);
    let object =
        json!({"apiVersion": api_version, "kind": check.objects.kind, "metadata": {"generation": 2}, "status": status});
    let health = assess_by(&object, Some(&check), world::now());
    Ok(json!({"health": format!("{}: {}", health.state, health.message)}))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Bundle {
    objects: Vec<Value>,
    /// Names of objects that may be left out.
    #[serde(default)]
    optional: Vec<String>,
    /// `example.com/v1 Widget`; `cluster v1 Namespace` has no namespaces; `example.com/v2 Widget not v1` is not served in `v1`.
    #[serde(default)]
    required: Vec<String>,
    served: Vec<String>,
    #[serde(default)]
    is_installed: bool,
}

fn gvk(text: &str) -> Result<Gvk, Error> {
    let (api_version, kind) = text.split_once(' ').ok_or("a version and a kind")?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Ok(Gvk { group: group.into(), version: version.into(), kind: kind.into() })
}

/// What a bundle comes to.
pub fn planned(given: Value) -> Result<Value, Error> {
    let bundle: Bundle = serde_json::from_value(given)?;
    let all: Vec<Object> = bundle
        .objects
        .into_iter()
        .map(|value| Object::new(value, Origin::made_from("a scenario")).map_err(|error| format!("{error:?}").into()))
        .collect::<Result<_, Error>>()?;
    let optional =
        all.iter().map(Object::key).filter(|key| bundle.optional.contains(&key.name)).collect::<BTreeSet<_>>();
    let required = bundle.required.iter().map(|text| gvk(text)).collect::<Result<BTreeSet<_>, Error>>()?;
    let mut served = BTreeMap::new();
    for text in &bundle.served {
        let (text, namespaced) = text.strip_prefix("cluster ").map_or((text.as_str(), true), |text| (text, false));
        let (text, asked) = text.split_once(" not ").map_or((text, None), |(text, asked)| (text, Some(asked)));
        let Gvk { group, version, kind } = gvk(text)?;
        let asked = asked.map(|asked| format!("{group}/{asked}"));
        let resource = std::sync::Arc::new(ApiResource::from_gvk(&GroupVersionKind { group, version, kind }));
        let id = (asked.unwrap_or_else(|| resource.api_version.clone()), resource.kind.clone());
        served.insert(id, Some(Kind { resource, namespaced }));
    }
    let stamp = OwnerMetadata {
        owner: world::owner(),
        default_namespace: "rukpak-system".into(),
        policy: DeletionPolicy::Delete,
    };
    let objects = Objects { all, optional: &optional, required: &required };
    let plan = match objects.plan(world::release("v1"), &served, &stamp, bundle.is_installed) {
        Ok(plan) => plan,
        Err(refusal) => return Ok(json!({"refused": refusal.to_string()})),
    };
    let steps: Vec<String> = rukpak_plan::Phase::ALL
        .into_iter()
        .flat_map(|phase| plan.phase(phase))
        .map(|step| format!("{:?}: {}", step.phase, step.identity))
        .collect();
    let missing: Vec<String> =
        plan.missing.iter().map(|missing| format!("{}: {}", need(&missing.need), missing.kind)).collect();
    let blocking = plan.blocking();
    Ok(json!({
        "steps": steps,
        "missing": missing,
        "blocked": (!blocking.is_empty()).then(|| missing_text(&blocking)),
        "awaitedGroups": plan.missing_groups(),
    }))
}

fn need(need: &Need) -> String {
    match need {
        Need::Object(key) => format!("{} {}", key.kind, key.name),
        Need::Optional(key) => format!("{} {} (optional)", key.kind, key.name),
        Need::Dependency => "a dependency".to_owned(),
    }
}
