//! From the objects of a bundle to a plan: every kind resolved, every body with our ownership metadata, ordered by phase.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use rukpak_content::Digest;
use rukpak_crds::{BundleProperty, InventoryKind};
use rukpak_plain::{Gvk, Object, ObjectKey};

use crate::hook::Hook;
use crate::kind::{Kind, MissingKind, defined_by, is_crd};
use crate::owner_metadata::OwnerMetadata;
use crate::release::Release;
use crate::step::step;
use crate::{Phase, Step};

pub use crate::missing::{Missing, Need, missing_text};
pub use crate::step::{DeclaredTwice, Served};

/// Everything that a release asks for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it installs.
    pub release: Release,
    /// When the certificates among the objects are to be looked at again.
    pub certificates_due: Option<SystemTime>,
    /// Stands for the authorities that the objects trust.
    pub authorities: Option<Digest>,
    /// What the bundle provides and requires.
    pub properties: Vec<BundleProperty>,
    /// The Namespace that is made for the bundle.
    pub namespace: Option<String>,
    /// The objects.
    pub steps: BTreeMap<ObjectKey, Step>,
    /// Kinds that nobody serves and that the plan therefore does without.
    pub missing: Vec<Missing>,
    /// The hooks that are run when the release is installed, in their order. They are no objects of it.
    pub hooks: Vec<Hook>,
}

/// The objects of a bundle, as a plan wants them.
#[derive(Clone, Debug)]
pub struct Objects<'a> {
    /// All of them.
    pub all: Vec<Object>,
    /// Those that may be left out where their kind is not served.
    pub optional: &'a BTreeSet<ObjectKey>,
    /// Kinds that the bundle depends on and does not define.
    pub required: &'a BTreeSet<Gvk>,
}

impl Objects<'_> {
    /// The kinds that have to be asked for, as apiVersion and kind: those that no CRD among the objects defines.
    pub fn kinds(&self) -> BTreeSet<(String, String)> {
        let defined = self.defined();
        let own = self.all.iter().map(|object| (object.api_version().to_owned(), object.kind().to_owned()));
        let required = self.required.iter().map(|gvk| (gvk.api_version(), gvk.kind.clone()));
        own.filter(|kind| !defined.contains_key(kind)).chain(required).collect()
    }

    fn defined(&self) -> BTreeMap<(String, String), Kind> {
        let crds = self.all.iter().filter(|object| is_crd(&object.key()));
        crds.flat_map(defined_by)
            .map(|kind| ((kind.resource.api_version.clone(), kind.resource.kind.clone()), kind))
            .collect()
    }

    /// The plan. `is_installed`: the objects are in the cluster already, so what they depend on is not asked for again.
    ///
    /// # Errors
    /// If two manifests of a release that is not installed turn out to be of one object, now that it is known where it is.
    pub fn plan(
        self,
        release: Release,
        served: &Served,
        stamp: &OwnerMetadata,
        is_installed: bool,
    ) -> Result<Plan, DeclaredTwice> {
        let mut plan = Plan {
            release,
            certificates_due: None,
            authorities: None,
            properties: Vec::new(),
            namespace: None,
            steps: BTreeMap::new(),
            missing: if is_installed { Vec::new() } else { self.unmet(served) },
            hooks: Vec::new(),
        };
        let defined = self.defined();
        let Self { all, optional, .. } = self;
        for object in all {
            let id = (object.api_version().to_owned(), object.kind().to_owned());
            let own = defined.get(&id);
            let found = served.get(&id).and_then(Option::as_ref);
            if let Some(kind) = own.or_else(|| found.filter(|found| found.resource.api_version == id.0)) {
                let is_optional = optional.contains(&object.key());
                let mut step = step(stamp, object, kind, own.is_some());
                step.is_optional = is_optional;
                // What was installed by an earlier version, which took the last one, is guarded as it is.
                if let Some(first) = plan.steps.get(&step.key).filter(|first| !is_installed && !first.is_same(&step)) {
                    let (object, first, second) = (step.identity.to_string(), first.origin.clone(), step.origin);
                    return Err(DeclaredTwice { object, first, second });
                }
                plan.steps.insert(step.key.clone(), step);
                continue;
            }
            let key = object.key();
            let need = if optional.contains(&key) { Need::Optional(key) } else { Need::Object(key) };
            let (api_version, kind) = id;
            plan.missing.push(Missing { kind: MissingKind { api_version, kind }, need, served: found.cloned() });
        }
        Ok(plan)
    }

    fn unmet(&self, served: &Served) -> Vec<Missing> {
        let mut unmet = Vec::new();
        for gvk in self.required {
            let (api_version, kind) = (gvk.api_version(), gvk.kind.clone());
            let found = served.get(&(api_version.clone(), kind.clone())).and_then(Option::as_ref);
            if found.is_none_or(|found| found.resource.api_version != api_version) {
                let kind = MissingKind { api_version, kind };
                unmet.push(Missing { kind, need: Need::Dependency, served: found.cloned() });
            }
        }
        unmet
    }
}

impl Plan {
    /// The kinds of all steps.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut last: Option<&Kind> = None;
        for step in self.steps.values() {
            let kind = &step.identity.kind;
            if last != Some(kind) && !kinds.contains(kind) {
                kinds.push(kind.clone());
            }
            last = Some(kind);
        }
        kinds
    }

    /// The kinds as the inventory lists them.
    pub fn inventory(&self) -> BTreeSet<InventoryKind> {
        self.kinds().iter().map(Kind::inventory).collect()
    }

    /// The steps of one phase.
    pub fn phase(&self, phase: Phase) -> impl Iterator<Item = &Step> {
        self.steps.values().filter(move |step| step.phase == phase)
    }

    /// Leaves out the objects that went by themselves once their work was done, and are not there any more. A release that was applied
    /// as a whole has made them, and none of them runs twice.
    pub fn leave_out_finished(&mut self, is_there: impl Fn(&ObjectKey) -> bool) {
        self.steps.retain(|key, step| is_there(key) || !step.ends_by_itself());
    }

    /// What must be served before the release can be whole.
    pub fn blocking(&self) -> Vec<&Missing> {
        self.missing.iter().filter(|missing| !missing.is_optional()).collect()
    }

    /// The API groups of all kinds that are missing, the optional ones too: their CRDs are waited for.
    pub fn missing_groups(&self) -> BTreeSet<String> {
        self.missing.iter().map(|missing| missing.kind.group().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::{ApiResource, GroupVersionKind};
    use rukpak_crds::DeletionPolicy;
    use rukpak_plain::Origin;
    use rukpak_plain::yaml::MAX_DEPTH;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Format, Owner};

    #[test]
    fn a_step_gives_back_the_body_it_was_made_of_as_deeply_as_manifests_may_nest() {
        let owner = Owner { name: "bd".into(), uid: "u".into() };
        let stamp = OwnerMetadata { owner, default_namespace: "rukpak-system".into(), policy: DeletionPolicy::Delete };
        let resource = Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Pump")));
        let served = Served::from([(
            ("example.com/v1".to_owned(), "Pump".to_owned()),
            Some(Kind { resource, namespaced: true }),
        )]);
        let deep = (1..MAX_DEPTH).fold(json!(0.1), |inner, _| json!([inner]));
        let object = json!({"apiVersion": "example.com/v1", "kind": "Pump", "metadata": {"name": "a"}, "spec": deep});
        let object = Object::new(object, Origin::made_from("a test")).unwrap();
        let (optional, required) = (BTreeSet::new(), BTreeSet::new());
        let objects = Objects { all: vec![object.clone()], optional: &optional, required: &required };
        let release = Release::new(Digest::sha256(b""), Format::Plain, None);
        let plan = objects.plan(release, &served, &stamp, false).unwrap();
        let (_, step) = plan.steps.first_key_value().unwrap();
        assert_eq!(step.body(), stamp.body(object, true));
        assert_eq!(step.body()["metadata"]["namespace"], "rukpak-system");
    }

    #[test]
    fn only_a_job_that_has_a_time_to_live_and_is_gone_is_left_out() {
        let owner = Owner { name: "bd".into(), uid: "u".into() };
        let stamp = OwnerMetadata { owner, default_namespace: "n".into(), policy: DeletionPolicy::Delete };
        let resource = Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk("batch", "v1", "Job")));
        let served =
            Served::from([(("batch/v1".to_owned(), "Job".to_owned()), Some(Kind { resource, namespaced: true }))]);
        let job = |name: &str, spec: Value| {
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
            Object::new(job, Origin::made_from("a test")).unwrap()
        };
        let mortal = json!({"ttlSecondsAfterFinished": 1});
        let all = vec![job("gone", mortal.clone()), job("there", mortal), job("lasting", json!({}))];
        let (optional, required) = (BTreeSet::new(), BTreeSet::new());
        let release = Release::new(Digest::sha256(b""), Format::Plain, None);
        let objects = Objects { all, optional: &optional, required: &required };
        let mut plan = objects.plan(release, &served, &stamp, true).unwrap();
        plan.leave_out_finished(|key| key.name == "there");
        let names: Vec<&str> = plan.steps.keys().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["lasting", "there"]);
    }
}
