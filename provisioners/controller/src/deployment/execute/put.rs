//! One object: created, updated, taken over, replaced, or refused. The only function that applies an object of a bundle. What is sent
//! next is decided by [`Put`].

use kube::runtime::reflector::ObjectRef;
use rukpak_plain::ObjectKey;
use rukpak_plan::Step;
use rukpak_plan::owner::{self, ForeignOwner, Predecessors};
use rukpak_plan::owner_metadata::{creating, updating};
use rukpak_plan::put::{Answer, End, Next, Put, Request, Task};
use rukpak_plan::resolve::{Basis, Live, is_replaced, needs_live, resolve};
use rukpak_plan::retry::Class;
use serde_json::Value;

pub(crate) use rukpak_plan::put::Known;

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
    /// The deployment asks for something else by now, or is being deleted: its objects are not to be written, nor owned again.
    #[error("the BundleDeployment was changed or deleted meanwhile")]
    Superseded,
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
            Self::InTheWay { .. } | Self::Superseded => true,
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

/// Applies one object. Without `known` it is first tried to be created, in one request.
pub(crate) async fn put(
    run: &Run,
    step: &Step,
    known: Option<Known>,
    basis: &Basis<'_>,
    mode: Mode,
) -> Result<Outcome, Error> {
    let body = step.body();
    let mut put = Put::new(
        Task {
            owner: &run.owner,
            predecessors: Predecessors {
                system_namespace: &run.context.system_namespace,
                extension: owner::extension(&run.observed.deployment.metadata),
            },
            body: &body,
            is_namespace: is_namespace(&step.key),
            is_trial: mode == Mode::DryRun,
            may_replace: basis.why.replaces_immutable(),
        },
        known,
    );
    let mut request = put.first();
    loop {
        // Not at the end of a phase, which may have thousands of objects.
        if !run.is_current() {
            return Err(Error::Superseded);
        }
        let answer = send(run, step, &request, basis, mode).await.unwrap_or_else(|error| {
            tracing::debug!(object = %step.identity, %error, "request refused");
            judge(error)
        });
        match put.next(request, answer) {
            Next::Send(next) => request = next,
            Next::End(end) => return ended(run, step, end),
        }
    }
}

/// The object as the API server answered with it, and what stays as it is in the cluster, in words.
type Came = (Box<Written>, Option<String>);

fn judge(error: cluster::Error) -> Answer<Came, cluster::Error> {
    if error.is_conflict() || error.is_other_object() {
        Answer::Conflict(error)
    } else if error.is_invalid() {
        Answer::Invalid(error)
    } else {
        Answer::Refused(error)
    }
}

async fn send(
    run: &Run,
    step: &Step,
    request: &Request<cluster::Error>,
    basis: &Basis<'_>,
    mode: Mode,
) -> Result<Answer<Came, cluster::Error>, cluster::Error> {
    let (identity, writer, name) = (&step.identity, &run.objects, &run.owner.name);
    // Every other write names a version of the object, and fails where another of our controllers was first. A process that goes on after
    // it was stopped would create what a newer release does not have.
    let is_creation = matches!(request, Request::Create) && mode == Mode::Real;
    if is_creation && run.is_doubtful() && !run.is_wanted().await? {
        return Ok(Answer::Wanted(false));
    }
    Ok(match request {
        Request::Create => {
            let (body, kept) = body(run, step, None, basis).await;
            let written = writer.apply(identity, &creating(body), mode == Mode::DryRun).await?;
            Answer::Applied((Box::new(written), kept))
        }
        Request::Update(known) => {
            let (body, kept) = body(run, step, Some(known), basis).await;
            let body = updating(body, &known.uid, known.version.as_deref());
            Answer::Applied((Box::new(writer.apply(identity, &body, mode == Mode::DryRun).await?), kept))
        }
        Request::Look => Answer::Seen(run.context.cluster.reader.metadata(identity).await?.map(Box::new)),
        Request::AskWanted(_) => Answer::Wanted(run.is_wanted().await?),
        Request::MoveFields(found, entries) => {
            tracing::info!(deployment = %name, object = %identity, "adopting object");
            Answer::Moved(Box::new(writer.move_fields(identity, found, entries).await?))
        }
        Request::TakeOver(found, entries) => {
            tracing::info!(deployment = %name, object = %identity, "taking over object of operator-controller");
            Answer::Moved(Box::new(writer.take_over(identity, found, entries.as_deref(), &run.owner).await?))
        }
        Request::Share(found) => {
            tracing::info!(deployment = %name, object = %identity, "Namespace is shared with another BundleDeployment");
            writer.share(identity, found, &run.owner).await?;
            Answer::Shared
        }
        Request::Replace(_) => replace(run, step, basis).await?,
    })
}

fn ended(run: &Run, step: &Step, end: End<Came, cluster::Error>) -> Result<Outcome, Error> {
    let what = step.identity.to_string();
    match end {
        End::Applied((written, kept)) => Ok(Outcome::Applied(written, kept)),
        End::Used => Ok(Outcome::Used),
        End::Unwanted => Err(Error::Superseded),
        End::Terminating => {
            wait_for(run, step);
            Err(Error::InTheWay { what, why: "is being deleted".to_owned() })
        }
        End::LeftBehind { uid } => {
            wait_for(run, step);
            let why = format!(
                "is left from an earlier BundleDeployment of this name (UID {uid}) and is about to be garbage collected"
            );
            Err(Error::InTheWay { what, why })
        }
        End::Foreign(foreign) => {
            wait_for(run, step);
            Err(collision(run, step, foreign))
        }
        End::Refused(error) => Err(refused(step, error)),
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

/// Deletes a ConfigMap or Secret that became immutable, so that it can be created again.
async fn replace(run: &Run, step: &Step, basis: &Basis<'_>) -> Result<Answer<Came, cluster::Error>, cluster::Error> {
    let Some(live) = run.context.cluster.reader.get(&step.identity).await? else { return Ok(Answer::Replaced(false)) };
    let is_ours = run.owner.owns_fully(&live.metadata);
    if !is_ours || !is_replaced(&step.key, Live { metadata: &live.metadata, body: &live.body }, basis.why) {
        return Ok(Answer::Replaced(false));
    }
    if !run.is_wanted().await? {
        return Ok(Answer::Wanted(false));
    }
    tracing::info!(deployment = %run.owner.name, object = %step.identity, "the object is immutable: deleting it to create it again");
    run.objects.delete(&step.identity, &live.metadata).await?;
    Ok(Answer::Replaced(true))
}

/// Stops before an object is written, or owned again, that the deployment does not ask for any more.
pub(crate) async fn still_wanted(run: &Run, step: &Step) -> Result<(), Error> {
    let is_wanted = run.is_wanted().await.map_err(|error| refused(step, error))?;
    if is_wanted { Ok(()) } else { Err(Error::Superseded) }
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

pub(super) fn is_namespace(key: &ObjectKey) -> bool {
    key.group.is_empty() && key.kind == "Namespace"
}

fn refused(step: &Step, source: cluster::Error) -> Error {
    Error::Refused { what: step.identity.to_string(), origin: step.origin.clone(), source }
}
