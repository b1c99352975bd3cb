//! One object: created, updated, taken over, replaced, or refused. The only function that applies an object of a bundle.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_plain::ObjectKey;
use rukpak_plan::fields::Heir;
use rukpak_plan::owner::{self, ForeignOwner, Predecessors};
use rukpak_plan::owner_metadata::{creating, updating};
use rukpak_plan::resolve::{Basis, Live, is_replaced, needs_live, resolve};
use rukpak_plan::retry::Class;
use rukpak_plan::{Ownership, Step, fields};
use serde_json::Value;

use super::collision::Collision;
use crate::cluster::{self, Written};
use crate::deployment::observe::Run;

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
    /// The deployment is being deleted: its objects are not to be owned again.
    #[error("the BundleDeployment is being deleted")]
    Deleted,
}

impl Error {
    /// Whether it looks as if the kind or something it refers to is missing.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.is_not_found())
    }

    /// The namespace that the object is for, if that is what is missing.
    pub fn missing_namespace(&self) -> Option<&str> {
        let Self::Refused { source: cluster::Error::Refused(status), .. } = self else { return None };
        let details = status.details.as_ref().filter(|details| status.code == 404 && details.kind == "namespaces")?;
        Some(&details.name)
    }

    /// Whether somebody may make it possible without our being told. What another BundleDeployment controls is watched.
    pub fn may_be_taken_over(&self) -> bool {
        matches!(self, Self::Collision(found) if !matches!(found.foreign, ForeignOwner::Controller { is_deployment: true, .. }))
    }

    /// Whether a quota has no room for it.
    pub fn is_over_quota(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.is_over_quota())
    }

    /// How it is tried again.
    pub fn class(&self) -> Class {
        if self.is_transient() {
            Class::Transient
        } else if self.may_be_taken_over() || self.is_over_quota() {
            Class::Blocked
        } else {
            Class::Terminal
        }
    }

    /// Whether it may pass by itself soon.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Collision(_) => false,
            Self::InTheWay { .. } | Self::Deleted => true,
            Self::Refused { source, .. } => source.is_transient() || source.is_conflict(),
        }
    }
}

/// What came of one object.
pub(crate) enum Outcome {
    /// It stands as declared, but for what is kept, in words.
    Applied(Box<Written>, Option<String>),
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

/// An object of ours as it was seen last.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub uid: String,
    /// The version in which it was ours. A write that names it cannot own an object again that was orphaned meanwhile.
    pub version: Option<String>,
}

/// A lost race is run again this often before it is reported.
const ATTEMPTS: usize = 5;
/// And from this attempt on an object that others write all the time is told by its UID alone.
const PATIENCE: usize = 3;

/// Applies one object. Without `known` it is first tried to be created, in one request.
pub(crate) async fn put(
    run: &Run,
    step: &Step,
    known: Option<Known>,
    basis: &Basis<'_>,
    mode: Mode,
) -> Result<Outcome, Error> {
    let mut known = known;
    let (mut body, mut kept) = body(run, step, known.as_ref(), basis).await;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let sent = match &known {
            Some(Known { uid, version }) => {
                let version = version.as_deref().filter(|_| mode == Mode::Real && attempt <= PATIENCE);
                let body = updating(body.clone(), uid, version);
                run.objects.apply(&step.identity, &body, mode == Mode::DryRun).await
            }
            // Fails with a conflict where it exists.
            None => run.objects.apply(&step.identity, &creating(body.clone()), mode == Mode::DryRun).await,
        };
        let refusal = match sent {
            Ok(written) => return Ok(Outcome::Applied(Box::new(written), kept)),
            Err(error) if (error.is_conflict() || error.is_other_object()) && attempt < ATTEMPTS => error,
            Err(error) if error.is_invalid() && mode == Mode::Real && replace(run, step, basis).await? => {
                tracing::debug!(deployment = %run.owner.name, object = %step.identity, %error, "object replaced");
                (known, body, kept) = (None, step.body(), None);
                continue;
            }
            Err(error) => return Err(refused(step, error)),
        };
        tracing::debug!(object = %step.identity, %refusal, "apply refused: the object exists, or has another UID than the known one");
        let had = known.take();
        match existing(run, step, had.as_ref(), mode).await? {
            Prior::Nothing => {}
            Prior::Ours(found) => {
                (body, kept) = self::body(run, step, Some(&found), basis).await;
                known = Some(found);
            }
            Prior::Used => return Ok(Outcome::Used),
        }
    }
}

/// What to send, given what is in the cluster. The object is only read where that decides anything.
async fn body(run: &Run, step: &Step, known: Option<&Known>, basis: &Basis<'_>) -> (Value, Option<String>) {
    let declared = step.body();
    let live = match known.filter(|_| needs_live(&step.key, &declared, basis)) {
        // Where it cannot be read, the write that follows will tell what is wrong.
        Some(_) => run.context.cluster.reader.get(&step.identity).await.ok().flatten(),
        None => None,
    };
    let live = live.as_ref().map(|live| Live { metadata: &live.metadata, body: &live.body });
    let resolved = resolve(&step.key, &declared, live, basis);
    (resolved.body, resolved.kept.map(|kept| format!("{} {kept}", step.identity)))
}

/// Deletes a ConfigMap or Secret that became immutable, so that it can be created again. Whether it did.
async fn replace(run: &Run, step: &Step, basis: &Basis<'_>) -> Result<bool, Error> {
    if !basis.why.replaces_immutable() {
        return Ok(false);
    }
    let (reader, writer) = (&run.context.cluster.reader, &run.objects);
    let Some(live) = reader.get(&step.identity).await.map_err(|error| refused(step, error))? else { return Ok(false) };
    let is_ours = run.owner.owns_fully(&live.metadata);
    if !is_ours || !is_replaced(&step.key, Live { metadata: &live.metadata, body: &live.body }, basis.why) {
        return Ok(false);
    }
    tracing::info!(deployment = %run.owner.name, object = %step.identity, "the object is immutable: deleting it to create it again");
    writer.delete(&step.identity, &live.metadata).await.map_err(|error| refused(step, error))?;
    Ok(true)
}

enum Prior {
    Nothing,
    Ours(Known),
    Used,
}

/// Looks at what stands in the way, takes it over where that is allowed.
async fn existing(run: &Run, step: &Step, known: Option<&Known>, mode: Mode) -> Result<Prior, Error> {
    let reader = &run.context.cluster.reader;
    let what = step.identity.to_string();
    let found = reader.metadata(&step.identity).await.map_err(|error| refused(step, error))?;
    let Some(metadata) = found else { return Ok(Prior::Nothing) };
    let ours = |metadata: &ObjectMeta| {
        Prior::Ours(Known { uid: metadata.uid.clone().unwrap_or_default(), version: metadata.resource_version.clone() })
    };
    let is_known = known.is_some_and(|known| metadata.uid.as_ref() == Some(&known.uid));
    let predecessors = Predecessors {
        system_namespace: &run.context.system_namespace,
        extension: owner::extension(&run.observed.deployment.metadata),
    };
    match run.owner.ownership(&metadata, predecessors) {
        Ownership::Terminating => {
            wait_for(run, step);
            Err(Error::InTheWay { what, why: "is being deleted".to_owned() })
        }
        Ownership::Ours => {
            if mode == Mode::Real {
                adopt(run, step, &metadata).await?;
            }
            // What was moved has another version by now.
            Ok(if fields::applied(&metadata, FIELD_MANAGER).is_some() { ours(&metadata) } else { by_uid(&metadata) })
        }
        // It was ours and lost our owner reference: by hand, or because the deployment is deleted and leaves its objects.
        Ownership::Foreign(foreign) if is_known && !matches!(foreign, ForeignOwner::Controller { .. }) => {
            still_wanted(run, step).await?;
            Ok(ours(&metadata))
        }
        Ownership::HelmRelease | Ownership::AdoptionAllowed => {
            if mode == Mode::Real {
                still_wanted(run, step).await?;
                adopt(run, step, &metadata).await?;
            }
            Ok(by_uid(&metadata))
        }
        Ownership::Inherited => inherit(run, step, metadata, mode).await,
        // A trial would have two controllers, which is refused.
        Ownership::Extension if mode == Mode::DryRun => Ok(Prior::Used),
        Ownership::Extension => {
            still_wanted(run, step).await?;
            take_over(run, step, metadata).await
        }
        Ownership::LeftBehind { uid } => {
            wait_for(run, step);
            let why = format!(
                "is left from an earlier BundleDeployment of this name (UID {uid}) and is about to be garbage collected"
            );
            Err(Error::InTheWay { what, why })
        }
        Ownership::Foreign(_) if is_namespace(&step.key) => {
            if mode == Mode::Real {
                share(run, step, metadata).await?;
            }
            Ok(Prior::Used)
        }
        Ownership::Foreign(foreign) => {
            wait_for(run, step);
            Err(collision(run, step, foreign))
        }
    }
}

fn by_uid(metadata: &ObjectMeta) -> Prior {
    Prior::Ours(Known { uid: metadata.uid.clone().unwrap_or_default(), version: None })
}

/// Asks the API server, not a cache, whether the deployment is to have objects: an owner reference that is added while the
/// deployment is deleted with `--cascade=orphan` would make garbage collection delete the object.
pub(crate) async fn still_wanted(run: &Run, step: &Step) -> Result<(), Error> {
    let live = run.context.cluster.deployment(&run.owner.name).await.map_err(|error| refused(step, error))?;
    let is_wanted =
        live.is_some_and(|live| live.uid.as_ref() == Some(&run.owner.uid) && live.deletion_timestamp.is_none());
    if is_wanted { Ok(()) } else { Err(Error::Deleted) }
}

/// If what is in the way is an installed object, of this or of another deployment, its end enqueues us; so does the annotation by
/// which it may be taken over. Nothing watches other objects.
fn wait_for(run: &Run, step: &Step) {
    run.context.trackers.block(&run.owner.name, &step.key);
    run.context.dependents.ensure([&step.identity.kind]);
}

fn collision(run: &Run, step: &Step, foreign: ForeignOwner) -> Error {
    let is_first = run.observed.installed().is_none();
    let other = match &foreign {
        ForeignOwner::Controller { name, is_deployment: true, .. } => {
            run.context.deployments.get(&ObjectRef::new(name))
        }
        _ => None,
    };
    let keeper = other.as_ref().and_then(|other| other.keeper());
    Error::Collision(Box::new(Collision {
        doing: if is_first { "install" } else { "update" },
        // As Helm writes it, where there is none too.
        what: format!(
            "{} {:?} in namespace {:?}",
            step.identity.kind.resource.kind,
            step.identity.name,
            step.identity.namespace.as_deref().unwrap_or_default()
        ),
        foreign,
        keeper: keeper.map(|(kind, name)| format!("{kind} {name:?}")),
        owner: run.owner.name.clone(),
    }))
}

/// A Namespace that was shared with its BundleDeployment, which is gone.
async fn inherit(run: &Run, step: &Step, found: ObjectMeta, mode: Mode) -> Result<Prior, Error> {
    if mode == Mode::Real {
        still_wanted(run, step).await?;
        tracing::info!(deployment = %run.owner.name, object = %step.identity,
            "taking over Namespace: the BundleDeployment that made it is gone");
    }
    // By its version: another deployment that shares it may be first.
    Ok(Prior::Ours(Known { uid: found.uid.unwrap_or_default(), version: found.resource_version }))
}

/// Takes an object of operator-controller's: what controls it is replaced in one write, so that it is never without an owner, nor with
/// two, and goes with us alone from then on.
async fn take_over(run: &Run, step: &Step, mut found: ObjectMeta) -> Result<Prior, Error> {
    let (reader, writer) = (&run.context.cluster.reader, &run.objects);
    let body = step.body();
    tracing::info!(deployment = %run.owner.name, object = %step.identity, "taking over object of operator-controller");
    for attempt in 1.. {
        let entries = fields::adopted(&found, heir(run, &body, true));
        match writer.take_over(&step.identity, &found, entries.as_deref(), &run.owner).await {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
            Err(error) => return Err(refused(step, error)),
            Ok(taken) => return Ok(by_uid(&taken)),
        }
        match reader.metadata(&step.identity).await.map_err(|error| refused(step, error))? {
            Some(now) => found = now,
            None => break,
        }
    }
    Ok(Prior::Nothing)
}

/// A Namespace that another BundleDeployment made would go with that, and all of ours in it.
async fn share(run: &Run, step: &Step, mut found: ObjectMeta) -> Result<(), Error> {
    let (reader, writer) = (&run.context.cluster.reader, &run.objects);
    for attempt in 1.. {
        if !run.owner.would_lose(&found) {
            break;
        }
        tracing::info!(deployment = %run.owner.name, object = %step.identity, "Namespace is shared with another BundleDeployment");
        match writer.share(&step.identity, &found, &run.owner).await {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
            Err(error) => return Err(refused(step, error)),
            Ok(()) => break,
        }
        match reader.metadata(&step.identity).await.map_err(|error| refused(step, error))? {
            Some(now) => found = now,
            None => break,
        }
    }
    Ok(())
}

pub(super) fn is_namespace(key: &ObjectKey) -> bool {
    key.group.is_empty() && key.kind == "Namespace"
}

/// Moves the fields of whoever installed the object before to us, so that they can be removed later by leaving them out.
async fn adopt(run: &Run, step: &Step, metadata: &ObjectMeta) -> Result<(), Error> {
    let (reader, writer) = (&run.context.cluster.reader, &run.objects);
    let (body, mut found) = (step.body(), metadata.clone());
    for attempt in 1.. {
        let Some(entries) = fields::adopted(&found, heir(run, &body, false)) else { break };
        tracing::info!(deployment = %run.owner.name, object = %step.identity, "adopting object");
        match writer.move_fields(&step.identity, &found, &entries).await {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
            Err(error) => return Err(refused(step, error)),
            Ok(_) => break,
        }
        match reader.metadata(&step.identity).await.map_err(|error| refused(step, error))? {
            Some(now) => found = now,
            None => break,
        }
    }
    Ok(())
}

fn heir<'a>(run: &'a Run, body: &'a Value, replaces_olm: bool) -> Heir<'a> {
    Heir { manager: FIELD_MANAGER, uid: &run.owner.uid, body, replaces_olm }
}

fn refused(step: &Step, source: cluster::Error) -> Error {
    Error::Refused { what: step.identity.to_string(), origin: step.origin.clone(), source }
}
