//! From objects to steps: every kind resolved, every body stamped, ordered by phase. Asks discovery, writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use rukpak_content::Digest;
use rukpak_crds::InventoryKind;
use rukpak_plain::{Object, ObjectKey};
use rukpak_plan::Phase;
use rukpak_plan::stamp::Stamp;
use serde_json::Value;

use super::Pass;
use crate::cluster::{Error, Identity, Kind, Kinds, MissingKind, defined_by};

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

/// Everything that a content asks for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub content: Digest,
    pub steps: BTreeMap<ObjectKey, Step>,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum NoPlan {
    /// Kinds that nobody serves, and the objects that need them.
    Missing(Vec<(MissingKind, ObjectKey)>),
    /// The API server could not be asked.
    Discovery(Error),
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
                    .map(|(kind, key)| {
                        let namespace = key.namespace.as_deref().unwrap_or_default();
                        format!("resource mapping not found for name: {:?} namespace: {namespace:?}: {kind}", key.name)
                    })
                    .collect();
                format!(
                    "[{}]: install what provides these kinds; this BundleDeployment continues by itself when they are served",
                    lines.join(", ")
                )
            }
            Self::Discovery(error) => crate::error::Chain(error).to_string(),
        }
    }
}

/// Plans `objects`.
pub(crate) async fn plan(pass: &Pass, content: Digest, objects: &[Object]) -> Result<Plan, NoPlan> {
    let brought = brought(objects);
    let stamp = Stamp { owner: pass.owner.clone(), default_namespace: pass.context.system_namespace.clone() };
    let mut steps = BTreeMap::new();
    let mut missing = Vec::new();
    let mut known: BTreeMap<(String, String), Option<Kind>> = BTreeMap::new();
    for object in objects {
        let id = (object.api_version().to_owned(), object.kind().to_owned());
        if !known.contains_key(&id) {
            let kind = resolve(&pass.context.cluster.kinds, &brought, object).await.map_err(NoPlan::Discovery)?;
            known.insert(id.clone(), kind);
        }
        if let Some(kind) = known.get(&id).and_then(Option::as_ref) {
            let step = step(&stamp, object, kind, brought.contains_key(&id));
            steps.insert(step.key.clone(), step);
        } else {
            let kind = MissingKind { api_version: id.0, kind: id.1 };
            missing.push((kind, object.key()));
        }
    }
    if missing.is_empty() { Ok(Plan { content, steps }) } else { Err(NoPlan::Missing(missing)) }
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
