//! One object: created, updated, taken over, replaced, or refused. The only function that applies an object of a bundle. What is sent
//! next is decided by [`Put`].

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use rukpak_crd_upgrade as crd_upgrade;
use rukpak_crds::names::{FIELD_MANAGER, FORCE};
use rukpak_plain::ObjectKey;
use rukpak_plan::kind::is_crd;
use rukpak_plan::owner::{self, ForeignOwner, take_over};
use rukpak_plan::owner_metadata::{creating, updating};
use rukpak_plan::put::{Answer, Compared, End, Next, Put, Request, Sharing, Task};
use rukpak_plan::put::{Replacement, has_dependents, may_be_replaced, replacement};
use rukpak_plan::resolve::{Basis, Live, needs_live, resolve};
use rukpak_plan::retry::Class;
use rukpak_plan::{Fingerprint, Step};
use serde_json::{Value, json};

pub(crate) use rukpak_plan::put::Known;

use super::collision::Collision;
use crate::cluster::{self, Deleted, Propagation, Written};
use crate::deployment::observe::{Run, View};

/// An object that is deleted to be created again is mostly gone by then.
const GONE_WITHIN: Duration = Duration::from_secs(30);

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
    /// It is a Namespace or CRD of somebody else: used as it is.
    Used,
    /// A trial says that it would be deleted and created again.
    Replaceable,
    /// It is left as it is on request. The fingerprint, if it is there.
    Paused(Option<Fingerprint>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
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
            owner: &run.view.owner,
            predecessors: run.view.predecessors(),
            take_over: take_over(&run.view.observed.deployment.spec.take_over, &step.key),
            body: &body,
            sharing: Sharing::of(&step.key, &body),
            is_trial: mode == Mode::DryRun,
            may_replace: may_be_replaced(&body, basis),
        },
        known,
    );
    let mut request = put.first();
    loop {
        // Not at the end of a phase, which may have thousands of objects.
        if !run.view.is_current() {
            return Err(Error::Superseded);
        }
        let answer = send(run, (step, &body), &request, basis, mode).await.unwrap_or_else(|error| {
            tracing::debug!(object = %step.identity, %error, "request refused");
            judge(error)
        });
        match put.next(request, answer) {
            Next::Send(next) => request = next,
            Next::End(End::Refused(error)) => return Err(refused(step, basis, error)),
            Next::End(end) => return ended(&run.view, step, end),
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
    (step, declared): (&Step, &Value),
    request: &Request<cluster::Error>,
    basis: &Basis<'_>,
    mode: Mode,
) -> Result<Answer<Came, cluster::Error>, cluster::Error> {
    let (identity, writer, name) = (&step.identity, &run.objects, &run.view.owner.name);
    // Every other write names a version of the object, and fails where another of our controllers was first. A process that goes on after
    // it was stopped would create what a newer release does not have.
    let is_creation = matches!(request, Request::Create) && mode == Mode::Real;
    if is_creation && run.is_doubtful() && !run.is_wanted().await? {
        return Ok(Answer::Wanted(false));
    }
    Ok(match request {
        Request::Create => {
            let written = writer.apply(identity, &creating(declared.clone()), mode == Mode::DryRun).await?;
            Answer::Applied((Box::new(written), None))
        }
        Request::Update(known) => {
            if let Some(shared) = shared_though_kept(&run.view, step, declared).await? {
                return Ok(Answer::Seen(Some(Box::new(shared))));
            }
            let Sent { body, kept, version } = body(&run.view, step, declared, basis).await?;
            let body = updating(body, &known.uid, known.version.as_deref().or(version.as_deref()));
            Answer::Applied((Box::new(writer.apply(identity, &body, mode == Mode::DryRun).await?), kept))
        }
        Request::Inherit(known) => {
            let Sent { body, .. } = body(&run.view, step, declared, basis).await?;
            let mut body = updating(body, &known.uid, known.version.as_deref());
            body["metadata"]["ownerReferences"] = json!([run.view.owner.reference()]);
            Answer::Moved(Box::new(writer.apply(identity, &body, mode == Mode::DryRun).await?.metadata))
        }
        Request::Look => match run.view.reads.reader.metadata(identity).await?.map(Box::new) {
            Some(found) if is_kept(run, step, &found).await? => Answer::Kept(found),
            found => Answer::Seen(found),
        },
        Request::AskWanted(_) => Answer::Wanted(run.is_wanted().await?),
        Request::MoveFields(found, entries) => {
            tracing::info!(deployment = %name, object = %identity, "adopting object");
            Answer::Moved(Box::new(writer.move_fields(identity, found, entries).await?))
        }
        Request::TakeOver(found, entries) => {
            tracing::info!(deployment = %name, object = %identity, "taking over object from its controller");
            Answer::Moved(Box::new(writer.take_over(identity, found, entries.as_deref(), &run.view.owner).await?))
        }
        Request::Share(found) => {
            tracing::info!(deployment = %name, object = %identity, "object is shared with another BundleDeployment");
            writer.share(identity, found, &run.view.owner).await?;
            Answer::Shared
        }
        Request::Extend(found, versions) => {
            if mode == Mode::Real {
                tracing::info!(deployment = %name, object = %identity, "adding versions to the CRD of another BundleDeployment");
            }
            writer.extend(identity, found, &run.view.owner, versions, mode == Mode::DryRun).await?;
            Answer::Shared
        }
        Request::Compare => run.view.reads.reader.get(identity).await?.map_or(Answer::Seen(None), |live| {
            let compared = compare(step, &live);
            Answer::Compared(Box::new(live.metadata), compared)
        }),
        Request::Replace(refusal) => replace(run, step, basis, refusal, mode).await?,
    })
}

/// Whether another BundleDeployment controls the object, and would take it back.
async fn is_kept(run: &Run, step: &Step, found: &ObjectMeta) -> Result<bool, cluster::Error> {
    let ours = &run.view.observed.deployment;
    let is_taken = take_over(&ours.spec.take_over, &step.key).is_some_and(|rule| rule.controlled);
    let controller = owner::controller(found).filter(|other| other.uid != run.view.owner.uid);
    let Some(controller) = controller.filter(|other| is_taken && owner::is_deployment(other)) else { return Ok(false) };

    // Asked, not looked up: it may be of another shard.
    let other = run.context.cluster.declared(&controller.name).await?;
    let other = other.filter(|other| other.metadata.uid.as_ref() == Some(&controller.uid));
    Ok(other.is_some_and(|other| owner::is_outranked(ours, &other, &step.key)))
}

/// How the CRD in the cluster stands to the one of the release.
pub(super) fn compare(step: &Step, live: &Written) -> Compared {
    match crd_upgrade::share(&live.as_crd(&step.identity), &step.body()) {
        Ok(crd_upgrade::Sharing::Covered) => Compared::Covered,
        Ok(crd_upgrade::Sharing::Extended(versions)) => Compared::Extended(versions),
        Ok(crd_upgrade::Sharing::Incompatible(changes)) => {
            Compared::Incompatible(crd_upgrade::refusal(&step.key.name, &changes))
        }
        Err(error) => Compared::Incompatible(error.to_string()),
    }
}

fn ended(view: &View, step: &Step, end: End<Came, cluster::Error>) -> Result<Outcome, Error> {
    let what = step.identity.to_string();
    match end {
        End::Applied((written, kept)) => Ok(Outcome::Applied(written, kept)),
        End::Used => Ok(Outcome::Used),
        End::Replaceable => Ok(Outcome::Replaceable),
        End::Paused(metadata) => Ok(Outcome::Paused(Some(Fingerprint::of(&metadata, &view.owner, FIELD_MANAGER)))),
        End::Unwanted => Err(Error::Superseded),
        End::Terminating => {
            wait_for(view, step);
            Err(Error::InTheWay { what, why: "is being deleted".to_owned() })
        }
        End::LeftBehind { uid } => {
            wait_for(view, step);
            let why = format!(
                "is left from an earlier BundleDeployment of this name (UID {uid}) and is about to be garbage collected"
            );
            Err(Error::InTheWay { what, why })
        }
        End::Foreign(foreign) => {
            wait_for(view, step);
            Err(collision(view, step, foreign))
        }
        End::Refused(error) => Err(unexplained(step, error)),
    }
}

/// The metadata of a CRD that is to outlive us, if others have it too.
async fn shared_though_kept(view: &View, step: &Step, declared: &Value) -> Result<Option<ObjectMeta>, cluster::Error> {
    if !Sharing::of(&step.key, declared).is_to_outlive() {
        return Ok(None);
    }
    let found = view.reads.reader.metadata(&step.identity).await?;
    Ok(found.filter(|found| view.owner.is_controller(found) && view.owner.is_shared(found)))
}

struct Sent {
    body: Value,
    /// What stays as it is in the cluster, in words.
    kept: Option<String>,
    /// The version of the object that values were taken from: in another one they may be others by now.
    version: Option<String>,
}

/// What to send for an object that is there. It is only read where that decides anything.
async fn body(view: &View, step: &Step, declared: &Value, basis: &Basis<'_>) -> Result<Sent, cluster::Error> {
    let live = if needs_live(&step.key, declared, basis) { view.reads.reader.get(&step.identity).await? } else { None };
    let seen = live.as_ref().map(|live| Live { metadata: &live.metadata, body: &live.body });
    let resolved = resolve(&step.key, declared, seen, basis);
    let kept = resolved.kept.map(|kept| format!("{} {kept}", step.identity));
    let version =
        live.filter(|_| !basis.ignored.is_empty() || is_crd(&step.key)).and_then(|live| live.metadata.resource_version);
    Ok(Sent { body: resolved.body, kept, version })
}

/// Deletes an object that cannot be changed, so that it can be created again, and waits until it is gone. Answers whether it did, or in
/// a trial would.
async fn replace(
    run: &Run,
    step: &Step,
    basis: &Basis<'_>,
    refusal: &cluster::Error,
    mode: Mode,
) -> Result<Answer<Came, cluster::Error>, cluster::Error> {
    let cluster::Error::Refused(status) = refusal else { return Ok(Answer::Replaced(false)) };
    let Some(live) = run.view.reads.reader.get(&step.identity).await? else { return Ok(Answer::Replaced(false)) };
    let is_ours = run.view.owner.owns_fully(&live.metadata);
    let seen = Live { metadata: &live.metadata, body: &live.body };
    if !is_ours || replacement(&step.key, &step.body(), seen, basis, status) != Replacement::Replace {
        return Ok(Answer::Replaced(false));
    }
    if mode == Mode::DryRun {
        return Ok(Answer::Replaced(true));
    }
    if !run.is_wanted().await? {
        return Ok(Answer::Wanted(false));
    }
    tracing::info!(deployment = %run.view.owner.name, object = %step.identity, "the object cannot be changed: deleting it to create it again");
    let propagation = if has_dependents(&step.key) { Propagation::Foreground } else { Propagation::Background };
    if run.objects.delete(&step.identity, &live.metadata, propagation).await? == Deleted::Accepted {
        until_gone(&run.view, step, live.metadata.uid.as_deref()).await?;
    }
    Ok(Answer::Replaced(true))
}

/// Waits until the object is gone, or for so long that the phase is not held up any longer: its end is waited for then as that of any
/// object that is in the way.
async fn until_gone(view: &View, step: &Step, uid: Option<&str>) -> Result<(), cluster::Error> {
    let mut waited = Duration::ZERO;
    while waited < GONE_WITHIN {
        let found = view.reads.reader.metadata(&step.identity).await?;
        if found.is_none_or(|found| found.uid.as_deref() != uid) {
            break;
        }
        let pause = (waited / 2).clamp(Duration::from_millis(20), Duration::from_secs(1));
        tokio::time::sleep(pause).await;
        waited += pause;
    }
    Ok(())
}

/// Stops before an object is written, or owned again, that the deployment does not ask for any more.
pub(crate) async fn still_wanted(run: &Run, step: &Step) -> Result<(), Error> {
    let is_wanted = run.is_wanted().await.map_err(|error| unexplained(step, error))?;
    if is_wanted { Ok(()) } else { Err(Error::Superseded) }
}

/// If what is in the way is an installed object, of this or of another deployment, its end enqueues us; so does the annotation by
/// which it may be taken over. Nothing watches other objects.
fn wait_for(view: &View, step: &Step) {
    view.reads.trackers.block(&view.owner.name, &step.key);
    view.reads.dependents.ensure([&step.identity.kind]);
}

fn collision(view: &View, step: &Step, foreign: ForeignOwner) -> Error {
    let is_first = view.observed.installed().is_none();
    let named = match &foreign {
        ForeignOwner::Controller { name, is_deployment: true, .. }
        | ForeignOwner::Incompatible { name, .. }
        | ForeignOwner::Keeper { name, .. } => Some(name),
        _ => None,
    };
    let other = named.and_then(|name| view.reads.deployments.get(&ObjectRef::new(name)));
    let foreign = match foreign {
        // Of one that is gone it is nobody's: it may be taken over.
        ForeignOwner::Keeper { uid, .. }
            if other.as_ref().and_then(|other| other.metadata.uid.as_ref()) != Some(&uid) =>
        {
            ForeignOwner::Unknown
        }
        foreign => foreign,
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
        owner: view.owner.name.clone(),
    }))
}

pub(super) fn is_namespace(key: &ObjectKey) -> bool {
    key.group.is_empty() && key.kind == "Namespace"
}

/// Says why an object is not replaced although its manifest asks for that.
fn refused(step: &Step, basis: &Basis<'_>, source: cluster::Error) -> Error {
    let nothing = (ObjectMeta::default(), Value::Null);
    let live = Live { metadata: &nothing.0, body: &nothing.1 };
    let replacement = match &source {
        cluster::Error::Refused(status) => replacement(&step.key, &step.body(), live, basis, status),
        _ => Replacement::No,
    };
    let mut error = unexplained(step, source);
    if let (Replacement::Never { why }, Error::Refused { what, .. }) = (replacement, &mut error) {
        *what = format!("{what} is not replaced, whatever its annotation {FORCE} says, for {why}");
    }
    error
}

fn unexplained(step: &Step, source: cluster::Error) -> Error {
    Error::Refused { what: step.identity.to_string(), origin: step.origin.clone(), source }
}
