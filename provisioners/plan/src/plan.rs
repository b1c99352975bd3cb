//! From the objects of a bundle to a plan: every kind resolved, every body with our ownership metadata, ordered by phase.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use rukpak_content::Digest;
use rukpak_crds::{BundleProperty, InventoryKind, names};
use rukpak_plain::{Gvk, Object, ObjectKey};
use serde_json::Value;

use crate::builtin::{Builtin, builtin};
use crate::hook::Hook;
use crate::kind::{Identity, Kind, MissingKind, defined_by};
use crate::owner_metadata::OwnerMetadata;
use crate::release::Release;
use crate::{Phase, kind};

/// One object to apply.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Step {
    /// The object, whatever its version.
    pub key: ObjectKey,
    /// Where it is.
    pub identity: Identity,
    /// When it is applied.
    pub phase: Phase,
    /// The body as JSON: as a tree of maps it would take six times the memory, for as long as the release is being installed.
    text: Box<str>,
    /// Where the object is declared, for messages.
    pub origin: String,
    /// Whether a CRD of this very bundle defines the kind.
    pub defined_here: bool,
    /// Whether it may be left out where its kind is not served.
    pub is_optional: bool,
    /// Whether the manifest says that the object is left as it is.
    pub is_paused: bool,
    /// Whether the manifest asks for a replacement where a field cannot be changed.
    pub is_forced: bool,
}

impl Step {
    /// The body of the apply request, without preconditions.
    ///
    /// # Panics
    /// Never: manifests may nest less deeply (`rukpak_plain::yaml::MAX_DEPTH`) than JSON that is read here.
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).expect("because it was written from a value")
    }

    /// Returns the step with another body for the same object.
    #[must_use]
    pub fn with_body(&self, body: &Value) -> Self {
        Self { text: body.to_string().into(), ..self.clone() }
    }

    /// Whether the object goes by itself once its work is done.
    fn ends_by_itself(&self) -> bool {
        kind::is_job(&self.key) && self.body().pointer("/spec/ttlSecondsAfterFinished").is_some()
    }

    /// Whether both declare the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

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

/// A kind that nobody serves, and what needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The kind.
    pub kind: MissingKind,
    /// What needs it.
    pub need: Need,
    /// The kind in another version, where that is served.
    pub served: Option<Kind>,
}

impl Missing {
    /// Whether the release is whole without it.
    pub fn is_optional(&self) -> bool {
        matches!(self.need, Need::Optional(_))
    }
}

/// What needs a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// An object of the bundle is of the kind.
    Object(ObjectKey),
    /// An object of the kind may be left out; it is installed when the kind is served.
    Optional(ObjectKey),
    /// The bundle says that it depends on it.
    Dependency,
}

/// The kinds that discovery has found, by the apiVersion and kind that were asked for: in another version where that one is not
/// served. `None` stands for a kind that is served in no version, or in none that is known.
pub type Served = BTreeMap<(String, String), Option<Kind>>;

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
        let crds = self.all.iter().filter(|object| kind::is_crd(&object.key()));
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
                let step = Step { is_optional, ..step(stamp, object, kind, own.is_some()) };
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

/// Two manifests are of one object: one of them leaves out the namespace that the other one names, or names one where there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object} is declared twice with different content: {first} and {second}: remove one of them")]
pub struct DeclaredTwice {
    /// The object, with the namespace that it gets.
    pub object: String,
    /// Where it is declared.
    pub first: String,
    /// Where it is declared again.
    pub second: String,
}

pub(crate) fn step(stamp: &OwnerMetadata, object: Object, kind: &Kind, defined_here: bool) -> Step {
    let namespace = kind.namespaced.then(|| object.namespace().unwrap_or(&stamp.default_namespace).to_owned());
    let key = ObjectKey { namespace: namespace.clone(), ..object.key() };
    Step {
        phase: Phase::of(object.group(), object.kind()),
        identity: Identity { kind: kind.clone(), namespace, name: key.name.clone() },
        key,
        origin: object.origin().to_string(),
        defined_here,
        is_optional: false,
        is_paused: object.annotation(names::RECONCILE) == Some(names::DISABLED),
        is_forced: object.annotation(names::FORCE) == Some(names::ENABLED),
        text: stamp.body(object, kind.namespaced).to_string().into(),
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

/// A registry+v1 bundle that is taken for a plain one. Rendered as what it is, it has no such object.
const REGISTRY_HINT: &str = "with a ClusterServiceVersion in it this is a registry+v1 bundle: set provisionerClassName \
                             core-rukpak-io-registry in spec.template.spec; otherwise ";

/// Built-in API versions that newer API servers serve no more: since which minor release of Kubernetes 1, and what took their place
/// (the project's deprecation guide).
const REMOVED: [(&str, u32, &str); 21] = [
    ("admissionregistration.k8s.io/v1beta1", 22, "admissionregistration.k8s.io/v1"),
    ("apiextensions.k8s.io/v1beta1", 22, "apiextensions.k8s.io/v1"),
    ("apiregistration.k8s.io/v1beta1", 22, "apiregistration.k8s.io/v1"),
    ("apps/v1beta1", 16, "apps/v1"),
    ("apps/v1beta2", 16, "apps/v1"),
    ("authentication.k8s.io/v1beta1", 22, "authentication.k8s.io/v1"),
    ("authorization.k8s.io/v1beta1", 22, "authorization.k8s.io/v1"),
    ("autoscaling/v2beta1", 25, "autoscaling/v2"),
    ("autoscaling/v2beta2", 26, "autoscaling/v2"),
    ("batch/v1beta1", 25, "batch/v1"),
    ("certificates.k8s.io/v1beta1", 22, "certificates.k8s.io/v1"),
    ("coordination.k8s.io/v1beta1", 22, "coordination.k8s.io/v1"),
    ("discovery.k8s.io/v1beta1", 25, "discovery.k8s.io/v1"),
    ("events.k8s.io/v1beta1", 25, "events.k8s.io/v1"),
    ("extensions/v1beta1", 22, "apps/v1, networking.k8s.io/v1"),
    ("networking.k8s.io/v1beta1", 22, "networking.k8s.io/v1"),
    ("node.k8s.io/v1beta1", 25, "node.k8s.io/v1"),
    ("policy/v1beta1", 25, "policy/v1"),
    ("rbac.authorization.k8s.io/v1beta1", 22, "rbac.authorization.k8s.io/v1"),
    ("scheduling.k8s.io/v1beta1", 22, "scheduling.k8s.io/v1"),
    ("storage.k8s.io/v1beta1", 22, "storage.k8s.io/v1"),
];

fn removed(missing: &Missing) -> Option<String> {
    let is_of = |(version, ..): &&(&str, u32, &str)| *version == missing.kind.api_version;
    let (version, release, successor) = REMOVED.iter().find(is_of)?;
    Some(format!("Kubernetes 1.{release} and newer do not serve {version}: the bundle needs a version for {successor}"))
}

/// What is declared in a version that has ended. Kubernetes' own versions have words of their own: [`removed`].
fn moved(missing: &Missing) -> Option<String> {
    let MissingKind { kind, api_version } = &missing.kind;
    let served = &missing.served.as_ref()?.resource.api_version;
    Some(format!(
        "{kind} is served in {served}, not in {api_version}: the bundle needs a version for {served}, and until it has one such \
         objects stay as they are"
    ))
}

fn misspelt(missing: &Missing) -> Option<String> {
    let MissingKind { kind, api_version } = &missing.kind;
    let Builtin::Like(known) = builtin(missing.kind.group(), kind) else { return None };
    Some(format!("Kubernetes has no kind {kind} in {api_version}: is {known} meant?"))
}

/// What is missing, in the words of Helm, which clients of upstream know, and then the way out.
pub fn missing_text(missing: &[&Missing]) -> String {
    let line = |missing: &&Missing| match &missing.need {
        Need::Object(key) | Need::Optional(key) => format!(
            "resource mapping not found for name: {:?} namespace: {:?}: {}",
            key.name,
            key.namespace.as_deref().unwrap_or_default(),
            missing.kind
        ),
        Need::Dependency => format!("the bundle depends on an API that is not served: {}", missing.kind),
    };
    let is_of_registry_bundle = |missing: &&Missing| matches!(&missing.need, Need::Object(key) if key.group == "operators.coreos.com" && key.kind == "ClusterServiceVersion");
    let lines: Vec<String> = missing.iter().map(line).collect();
    let hint = if missing.iter().any(is_of_registry_bundle) { REGISTRY_HINT } else { "" };
    let ended = missing.iter().map(|missing| removed(missing).or_else(|| moved(missing)));
    let (gone, others): (Vec<_>, Vec<_>) = ended.partition(Option::is_some);
    let gone: BTreeSet<String> = gone.into_iter().flatten().collect();
    let mut ways: Vec<String> = gone.into_iter().collect();
    ways.extend(missing.iter().filter_map(|missing| misspelt(missing)).collect::<BTreeSet<_>>());
    if !others.is_empty() {
        ways.push(format!(
            "{hint}install what provides these kinds; this BundleDeployment continues by itself when they are served"
        ));
    }
    format!("[{}]: {}", lines.join(", "), ways.join("; "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::{ApiResource, GroupVersionKind};
    use rukpak_crds::DeletionPolicy;
    use rukpak_plain::Origin;
    use rukpak_plain::yaml::MAX_DEPTH;
    use serde_json::json;

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

    fn missing(group: &str, kind: &str) -> Missing {
        let key = ObjectKey { group: group.to_owned(), kind: kind.to_owned(), namespace: None, name: "a".to_owned() };
        let kind = MissingKind { api_version: format!("{group}/v1alpha1"), kind: kind.to_owned() };
        Missing { kind, need: Need::Object(key), served: None }
    }

    #[test]
    fn nobody_is_told_to_wait_for_an_api_that_kubernetes_has_removed() {
        let old = |kind: &str| {
            let kind = MissingKind { api_version: "apiextensions.k8s.io/v1beta1".to_owned(), kind: kind.to_owned() };
            Missing { kind, ..missing("apiextensions.k8s.io", "CustomResourceDefinition") }
        };
        let (first, second) = (old("CustomResourceDefinition"), old("CustomResourceDefinition"));
        let way_out = "Kubernetes 1.22 and newer do not serve apiextensions.k8s.io/v1beta1: the bundle needs a version for \
                       apiextensions.k8s.io/v1";
        let message = missing_text(&[&first, &second]);
        assert!(message.ends_with(&format!("]: {way_out}")), "{message}");
        let message = missing_text(&[&first, &missing("example.com", "Pump")]);
        assert!(message.contains(&format!("]: {way_out}; install what provides these kinds")), "{message}");
    }

    #[test]
    fn a_misspelt_kind_of_kubernetes_is_recognized() {
        let mut typo = missing("apps", "Deploymnt");
        let message = missing_text(&[&typo, &typo]);
        let wanted = "]: Kubernetes has no kind Deploymnt in apps/v1alpha1: is Deployment meant?; install what";
        assert!(message.contains(wanted), "{message}");
        assert_eq!(message.matches("meant?").count(), 1, "said once: {message}");
        typo.kind.api_version = "example.com/v1".to_owned();
        assert!(!missing_text(&[&typo]).contains("meant?"));
    }

    #[test]
    fn a_registry_bundle_that_is_taken_for_a_plain_one_is_told_so() {
        let hint =
            "this is a registry+v1 bundle: set provisionerClassName core-rukpak-io-registry in spec.template.spec";
        let version = missing("operators.coreos.com", "ClusterServiceVersion");
        let other = missing("operators.coreos.com", "CatalogSource");
        let message = missing_text(&[&other, &version]);
        assert!(message.contains(hint), "{message}");
        assert!(message.contains("no matches for kind \"CatalogSource\" in version \"operators.coreos.com/v1alpha1\""));
        assert!(message.ends_with("continues by itself when they are served"), "{message}");
        let like = missing("example.com", "ClusterServiceVersion");
        for other in [other, like] {
            assert!(!missing_text(&[&other]).contains("registry"));
        }
    }
}
