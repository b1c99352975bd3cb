//! From objects to steps: every kind resolved, every body stamped, ordered by phase. Asks discovery, writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use rukpak_content::Digest;
use rukpak_crds::InventoryKind;
use rukpak_plain::{Object, ObjectKey};
use rukpak_plan::Phase;
use rukpak_plan::stamp::Stamp;
use serde_json::Value;

use super::Pass;
use super::release::Release;
use crate::cluster::{Error, Identity, Kind, Kinds, MissingKind, defined_by};
use crate::format::Rendered;

/// One object to apply.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub key: ObjectKey,
    pub identity: Identity,
    pub phase: Phase,
    /// The body of the apply request, without preconditions.
    pub body: Value,
    /// Where the object is declared, for messages.
    pub origin: String,
    /// Whether a definition of this very bundle brings the kind.
    pub brought: bool,
}

/// Everything that a release asks for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub release: Release,
    /// When the certificates among the objects are to be looked at again.
    pub certificates_due: Option<SystemTime>,
    /// Stands for the authorities that the objects trust.
    pub authorities: Option<Digest>,
    pub steps: BTreeMap<ObjectKey, Step>,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum NoPlan {
    /// Kinds that nobody serves, and what needs them.
    Missing(Vec<(MissingKind, Need)>),
    /// The API server could not be asked.
    Discovery(Error),
}

/// What needs a kind.
#[derive(Clone, Debug)]
pub(crate) enum Need {
    /// An object of the bundle is of the kind.
    Object(ObjectKey),
    /// The bundle says that it depends on it.
    Dependency,
}

impl NoPlan {
    /// The API groups that must come.
    pub fn groups(&self) -> BTreeSet<String> {
        match self {
            Self::Missing(missing) => missing.iter().map(|(kind, _)| kind.group().to_owned()).collect(),
            Self::Discovery(_) => BTreeSet::new(),
        }
    }

    /// In the words of Helm, which clients of upstream know.
    pub fn message(&self) -> String {
        match self {
            Self::Missing(missing) => {
                let lines: Vec<String> = missing
                    .iter()
                    .map(|(kind, need)| match need {
                        Need::Object(key) => {
                            let namespace = key.namespace.as_deref().unwrap_or_default();
                            format!(
                                "resource mapping not found for name: {:?} namespace: {namespace:?}: {kind}",
                                key.name
                            )
                        }
                        Need::Dependency => format!("the bundle depends on an API that is not served: {kind}"),
                    })
                    .collect();
                let hint = if missing.iter().any(|(_, need)| is_of_registry_bundle(need)) { REGISTRY_HINT } else { "" };
                format!(
                    "[{}]: {hint}install what provides these kinds; this BundleDeployment continues by itself when they are \
                     served",
                    lines.join(", ")
                )
            }
            Self::Discovery(error) => crate::error::Chain(error).to_string(),
        }
    }
}

/// A registry+v1 bundle that is taken for a plain one. Rendered as what it is, it has no such object.
const REGISTRY_HINT: &str = "with a ClusterServiceVersion in it this is a registry+v1 bundle: set provisionerClassName \
                             core-rukpak-io-registry in spec.template.spec; otherwise ";

fn is_of_registry_bundle(need: &Need) -> bool {
    matches!(need, Need::Object(key) if key.group == "operators.coreos.com" && key.kind == "ClusterServiceVersion")
}

/// Plans the objects of `rendered`, which is what `release` means.
pub(crate) async fn plan(pass: &Pass, release: Release, rendered: &Rendered) -> Result<Plan, NoPlan> {
    let brought = brought(&rendered.objects);
    let stamp = Stamp { owner: pass.owner.clone(), default_namespace: pass.context.system_namespace.clone() };
    let mut steps = BTreeMap::new();
    // What is installed is guarded whatever became of what it depends on.
    let is_new = super::converge::installed(pass).as_ref() != Some(&release);
    let mut missing = if is_new { unmet(pass, rendered).await.map_err(NoPlan::Discovery)? } else { Vec::new() };
    let mut known: BTreeMap<(String, String), Option<Kind>> = BTreeMap::new();
    for object in &rendered.objects {
        let id = (object.api_version().to_owned(), object.kind().to_owned());
        if !known.contains_key(&id) {
            let kind = resolve(&pass.context.cluster.kinds, &brought, object).await.map_err(NoPlan::Discovery)?;
            known.insert(id.clone(), kind);
        }
        if let Some(kind) = known.get(&id).and_then(Option::as_ref) {
            let step = step(&stamp, object, kind, brought.contains_key(&id));
            steps.insert(step.key.clone(), step);
        } else if rendered.optional.contains(&object.key()) {
            tracing::info!(deployment = %pass.owner.name, object = %object.key(), "left out: its kind is not served, and it is optional");
        } else {
            missing.push((MissingKind { api_version: id.0, kind: id.1 }, Need::Object(object.key())));
        }
    }
    if missing.is_empty() {
        let Rendered { certificates_due, authorities, .. } = rendered;
        Ok(Plan { release, certificates_due: *certificates_due, authorities: authorities.clone(), steps })
    } else {
        Err(NoPlan::Missing(missing))
    }
}

/// The kinds that the bundle depends on and nobody serves.
async fn unmet(pass: &Pass, rendered: &Rendered) -> Result<Vec<(MissingKind, Need)>, Error> {
    let mut unmet = Vec::new();
    for gvk in &rendered.required {
        let api_version = gvk.api_version();
        if pass.context.cluster.kinds.get(&api_version, &gvk.kind).await?.is_none() {
            unmet.push((MissingKind { api_version, kind: gvk.kind.clone() }, Need::Dependency));
        }
    }
    Ok(unmet)
}

fn brought(objects: &[Object]) -> BTreeMap<(String, String), Kind> {
    objects
        .iter()
        .filter(|object| object.group() == "apiextensions.k8s.io" && object.kind() == "CustomResourceDefinition")
        .flat_map(defined_by)
        .map(|kind| ((kind.resource.api_version.clone(), kind.resource.kind.clone()), kind))
        .collect()
}

async fn resolve(
    kinds: &Kinds,
    brought: &BTreeMap<(String, String), Kind>,
    object: &Object,
) -> Result<Option<Kind>, Error> {
    if let Some(kind) = brought.get(&(object.api_version().to_owned(), object.kind().to_owned())) {
        return Ok(Some(kind.clone()));
    }
    kinds.get(object.api_version(), object.kind()).await
}

fn step(stamp: &Stamp, object: &Object, kind: &Kind, brought: bool) -> Step {
    let body = stamp.body(object, kind.namespaced);
    let namespace = kind.namespaced.then(|| object.namespace().unwrap_or(&stamp.default_namespace).to_owned());
    let key = ObjectKey { namespace: namespace.clone(), ..object.key() };
    Step {
        phase: Phase::of(object.group(), object.kind()),
        identity: Identity { kind: kind.clone(), namespace, name: key.name.clone() },
        key,
        body,
        origin: object.origin().to_string(),
        brought,
    }
}

impl Plan {
    /// The kinds of all steps.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = Vec::new();
        for step in self.steps.values() {
            if !kinds.contains(&step.identity.kind) {
                kinds.push(step.identity.kind.clone());
            }
        }
        kinds
    }

    /// The kinds as the inventory lists them.
    pub fn inventory(&self) -> BTreeSet<InventoryKind> {
        self.kinds()
            .into_iter()
            .map(|kind| InventoryKind {
                group: kind.resource.group,
                version: kind.resource.version,
                kind: kind.resource.kind,
            })
            .collect()
    }

    /// The steps of one phase.
    pub fn phase(&self, phase: Phase) -> impl Iterator<Item = &Step> {
        self.steps.values().filter(move |step| step.phase == phase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(group: &str, kind: &str) -> (MissingKind, Need) {
        let key = ObjectKey { group: group.to_owned(), kind: kind.to_owned(), namespace: None, name: "a".to_owned() };
        (MissingKind { api_version: format!("{group}/v1alpha1"), kind: kind.to_owned() }, Need::Object(key))
    }

    #[test]
    fn a_registry_bundle_that_is_taken_for_a_plain_one_is_told_so() {
        let hint =
            "this is a registry+v1 bundle: set provisionerClassName core-rukpak-io-registry in spec.template.spec";
        let version = missing("operators.coreos.com", "ClusterServiceVersion");
        let other = missing("operators.coreos.com", "CatalogSource");
        let message = NoPlan::Missing(vec![other.clone(), version]).message();
        assert!(message.contains(hint), "{message}");
        assert!(message.contains("no matches for kind \"CatalogSource\" in version \"operators.coreos.com/v1alpha1\""));
        assert!(message.ends_with("continues by itself when they are served"), "{message}");
        let like = missing("example.com", "ClusterServiceVersion");
        for other in [other, like] {
            assert!(!NoPlan::Missing(vec![other]).message().contains("registry"));
        }
    }
}
