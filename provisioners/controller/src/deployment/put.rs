//! One object: created, updated, taken over, or refused.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::names::{FIELD_MANAGER, MANAGED_BY};
use rukpak_plain::ObjectKey;
use rukpak_plan::owner::Stranger;
use rukpak_plan::stamp::{creating, updating};
use rukpak_plan::{Standing, fields};
use serde_json::{Value, json};

use super::Pass;
use super::collision::Collision;
use super::plan::Step;
use super::preflight::is_definition;
use crate::cluster::{self, Written};

/// Why an object could not be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It exists and is somebody else's.
    #[error(transparent)]
    Collision(Box<Collision>),
    /// It must be gone first.
    #[error("{what} {why}: waiting until it is gone")]
    InTheWay { what: String, why: String },
    /// The API server refused it.
    #[error("{what} ({origin})")]
    Refused {
        what: String,
        origin: String,
        #[source]
        source: cluster::Error,
    },
}

impl Error {
    /// Whether it looks as if the kind or something it refers to is missing.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.is_not_found())
    }

    /// Whether the API server was not to be reached.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.is_unavailable())
    }

    /// Whether somebody may make it possible without our being told. What another BundleDeployment controls is watched.
    pub fn may_be_taken_over(&self) -> bool {
        matches!(self, Self::Collision(found) if !matches!(found.stranger, Stranger::Controller { is_deployment: true, .. }))
    }

    /// Whether it may pass by itself soon.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Collision(_) => false,
            Self::InTheWay { .. } => true,
            Self::Refused { source, .. } => source.is_transient() || source.is_conflict(),
        }
    }
}

/// What came of one object.
pub(crate) enum Outcome {
    /// It stands as declared.
    Applied(Box<Written>),
    /// It is a Namespace of somebody else: used as it is.
    Used,
}

/// How to write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For real.
    Real,
    /// Validated and admitted, not stored.
    DryRun,
}

/// A lost race is run again this often before it is reported.
const ATTEMPTS: usize = 4;

/// Applies one object. `uid` is the one it is known to have; without it, it is first tried to be created, in one request.
pub(crate) async fn put(pass: &Pass, step: &Step, uid: Option<&str>, mode: Mode) -> Result<Outcome, Error> {
    let mut uid = uid.map(str::to_owned);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let sent = match &uid {
            Some(uid) => {
                let body = updating(step.body.clone(), uid);
                pass.context.cluster.writer.apply(&step.identity, &body, mode == Mode::DryRun).await
            }
            None => create(pass, step, mode).await,
        };
        let refusal = match sent {
            Ok(written) => return Ok(Outcome::Applied(Box::new(written))),
            Err(error) if (error.is_conflict() || error.is_other_object()) && attempt < ATTEMPTS => error,
            Err(error) => return Err(refused(step, error)),
        };
        tracing::debug!(object = %step.identity, %refusal, "it exists, or is another object than the one known");
        match existing(pass, step, mode).await? {
            Found::Nothing => uid = None,
            Found::Ours(found) => uid = Some(found),
            Found::Used => return Ok(Outcome::Used),
        }
    }
}

/// Creates the object, or fails with a conflict where it exists.
async fn create(pass: &Pass, step: &Step, mode: Mode) -> Result<Written, cluster::Error> {
    let writer = &pass.context.cluster.writer;
    let is_trial = mode == Mode::DryRun;
    match writer.apply(&step.identity, &creating(step.body.clone()), is_trial).await {
        Err(error) if error.refuses_create_by_version() => {}
        other => return other,
    }
    // A POST fails where the object exists, as an apply without a version would not. If we are killed before its fields are
    // moved, the next pass finds an object of ours that was never applied, and moves them then.
    let written = writer.create(&step.identity, &step.body, is_trial).await?;
    let entries = fields::adopted(&written.metadata, FIELD_MANAGER, false).filter(|_| !is_trial);
    let Some(entries) = entries else { return Ok(written) };
    let metadata = writer.move_fields(&step.identity, &written.metadata, &entries).await?;
    Ok(Written { metadata, body: written.body })
}

enum Found {
    Nothing,
    Ours(String),
    Used,
}

/// Looks at what stands in the way, takes it over where that is allowed.
async fn existing(pass: &Pass, step: &Step, mode: Mode) -> Result<Found, Error> {
    let writer = &pass.context.cluster.writer;
    let what = step.identity.to_string();
    let found = writer.metadata(&step.identity).await.map_err(|error| refused(step, error))?;
    let Some(metadata) = found else { return Ok(Found::Nothing) };
    let ours = |metadata: &ObjectMeta| Found::Ours(metadata.uid.clone().unwrap_or_default());
    match pass.owner.standing(&metadata, &pass.context.system_namespace) {
        Standing::Ours | Standing::HelmRelease | Standing::AdoptionAllowed => {
            if mode == Mode::Real {
                adopt(pass, step, &metadata).await?;
            }
            Ok(ours(&metadata))
        }
        Standing::Terminating => {
            wait_for(pass, step);
            Err(Error::InTheWay { what, why: "is being deleted".to_owned() })
        }
        Standing::LeftBehind { uid } => {
            wait_for(pass, step);
            let why = format!(
                "is left from an earlier BundleDeployment of this name (UID {uid}) and is about to be garbage collected"
            );
            Err(Error::InTheWay { what, why })
        }
        Standing::Foreign(_) if is_namespace(&step.key) => {
            if mode == Mode::Real {
                share(pass, step, metadata).await?;
            }
            Ok(Found::Used)
        }
        Standing::Foreign(stranger) => {
            wait_for(pass, step);
            Err(collision(pass, step, stranger))
        }
    }
}

/// If what is in the way is an installed object, of this or of another deployment, its end wakes us; so does the annotation by
/// which it may be taken over. Nothing watches other objects.
fn wait_for(pass: &Pass, step: &Step) {
    pass.installation.state().waiting.insert(step.key.clone());
    pass.context.dependents.ensure([&step.identity.kind]);
}

fn collision(pass: &Pass, step: &Step, stranger: Stranger) -> Error {
    let is_first = super::converge::installed(pass).is_none();
    Error::Collision(Box::new(Collision {
        doing: if is_first { "install" } else { "update" },
        // As Helm writes it, where there is none too.
        what: format!(
            "{} {:?} in namespace {:?}",
            step.identity.kind.resource.kind,
            step.identity.name,
            step.identity.namespace.as_deref().unwrap_or_default()
        ),
        stranger,
        owner: pass.owner.name.clone(),
    }))
}

/// A Namespace that another BundleDeployment made would go with that, and all of ours in it.
async fn share(pass: &Pass, step: &Step, mut found: ObjectMeta) -> Result<(), Error> {
    let writer = &pass.context.cluster.writer;
    for attempt in 1.. {
        if !pass.owner.would_lose(&found) {
            break;
        }
        tracing::info!(deployment = %pass.owner.name, object = %step.identity, "used together with another BundleDeployment");
        match writer.share(&step.identity, &found, &pass.owner).await {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
            Err(error) => return Err(refused(step, error)),
            Ok(()) => break,
        }
        match writer.metadata(&step.identity).await.map_err(|error| refused(step, error))? {
            Some(now) => found = now,
            None => break,
        }
    }
    Ok(())
}

fn is_namespace(key: &ObjectKey) -> bool {
    key.group.is_empty() && key.kind == "Namespace"
}

/// Moves the fields that upstream's Helm client owns to us, so that they can be removed later by leaving them out. Upstream
/// put its owner reference on what it installed, and left Helm's marks off what it repaired: so whatever of ours was never
/// applied is Helm's.
async fn adopt(pass: &Pass, step: &Step, metadata: &ObjectMeta) -> Result<(), Error> {
    let writer = &pass.context.cluster.writer;
    let mut found = metadata.clone();
    for attempt in 1.. {
        let is_by_helm = found.labels.as_ref().and_then(|all| all.get(MANAGED_BY)).is_some_and(|by| by == "Helm");
        let is_new = fields::applied(&found, FIELD_MANAGER).is_none();
        let Some(entries) = fields::adopted(&found, FIELD_MANAGER, is_by_helm || is_new) else { break };
        tracing::info!(deployment = %pass.owner.name, object = %step.identity, "taking over");
        match writer.move_fields(&step.identity, &found, &entries).await {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
            Err(error) => return Err(refused(step, error)),
            Ok(_) => break,
        }
        match writer.metadata(&step.identity).await.map_err(|error| refused(step, error))? {
            Some(now) => found = now,
            None => break,
        }
    }
    Ok(())
}

fn refused(step: &Step, source: cluster::Error) -> Error {
    Error::Refused { what: step.identity.to_string(), origin: step.origin.clone(), source }
}

/// The step with the replicas that the object has now, where they were set through the `scale` subresource (an autoscaler,
/// `kubectl scale`): those are not ours. `previous` is what our manifest said before.
///
/// Kubernetes 1.20 does not move the field to another manager on a write to `/scale`: there, a live value that differs
/// from ours although we still own the field tells the same. Kubernetes since 1.22 lists the subresource.
pub(crate) fn keep_scale(step: &Step, live: &Written, previous: Option<&Value>) -> Step {
    let ours = step.body.pointer("/spec/replicas");
    let current = live.body.pointer("/spec/replicas");
    let (Some(ours), Some(current)) = (ours, current) else { return step.clone() };
    let manifest_changed = previous.is_some_and(|previous| previous != ours);
    let own_it =
        fields::applied(&live.metadata, FIELD_MANAGER).is_some_and(|set| set.pointer("/f:spec/f:replicas").is_some());
    let scaled = own_it || scaled_through_subresource(&live.metadata);
    if ours == current || manifest_changed || !scaled {
        return step.clone();
    }
    let mut step = step.clone();
    if let Some(spec) = step.body.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("replicas".to_owned(), json!(current));
    }
    step
}

/// The definition with those versions beside its own in which objects may be stored by now: without them the API server refuses
/// it, and the way back from a failed pivot would end there. Returns the names of the versions.
pub(crate) fn keep_stored(step: &Step, live: &Written) -> (Step, Vec<String>) {
    let mut step = step.clone();
    if !is_definition(&step) {
        return (step, Vec::new());
    }
    let stored = live.body.pointer("/status/storedVersions").and_then(Value::as_array);
    let offered = live.body.pointer("/spec/versions").and_then(Value::as_array);
    let declared = step.body.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    let (Some(stored), Some(offered), Some(declared)) = (stored, offered, declared) else {
        return (step, Vec::new());
    };
    let mut kept = Vec::new();
    for name in stored.iter().filter_map(Value::as_str) {
        if declared.iter().any(|version| version["name"] == name) {
            continue;
        }
        if let Some(version) = offered.iter().find(|version| version["name"] == name) {
            let mut version = version.clone();
            version["storage"] = json!(false);
            declared.push(version);
            kept.push(name.to_owned());
        }
    }
    (step, kept)
}

fn scaled_through_subresource(metadata: &ObjectMeta) -> bool {
    metadata.managed_fields.iter().flatten().any(|entry| {
        entry.subresource.as_deref() == Some("scale")
            && entry.fields_v1.as_ref().is_some_and(|set| set.0.pointer("/f:spec/f:replicas").is_some())
    })
}
