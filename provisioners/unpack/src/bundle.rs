//! The Bundle reconciler: observe -> decide -> validate -> turn -> resolve -> verify -> fetch into a stage -> seal -> check format ->
//! report.
//!
//! ```text
//! decide       what is to be done, and when again       pure
//! backoff      waits after a failure                    memory
//! turn         waits for permits; who killed the        disk
//!              process twice is put aside (fetches, attempts)
//! resolve      reference to digest or commit            network, Secrets (credentials), ConfigMaps
//! verify       whether a policy lets it in              network, Secrets
//! fetch        into a stage                             network, spool file
//!              images that are here already are not     memory (images)
//! seal         stage to content, content to ref         disk
//! check        is it a bundle of its class              a child process
//! pin          what it resolved to, for good            pure
//! failure      what a failure says and when to retry    pure
//! conclude     report, Event, log line, the next attempt
//! events       which Events                             pure
//! report       what is known to status                  pure; reporter writes it
//! life_cycle   what is done between reconciles: lost content, uploads, Bundles that went
//! ```
//!
//! A Bundle resolves again at each attempt until one succeeds. That one makes the pin, in the same write as
//! `Unpacked=True`. From then on the content stays what it is: lost content is fetched again by the pin.

mod backoff;
mod check;
mod conclude;
mod config_maps;
mod credentials;
mod decide;
mod events;
mod failure;
mod fetch;
mod life_cycle;
mod pin;
mod report;
mod reporter;
mod resolve;
#[cfg(test)]
mod scenarios;
mod seal;
mod steady;
mod turn;
mod verify;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt};
use rukpak_crds::{Bundle, BundleDeployment, BundlePhase, BundleSpec, Pin, Revision, names, validate};
use rukpak_format::Format;
use rukpak_plan::retry::{self, Class};
use rukpak_runtime::api;
use rukpak_runtime::error::Chain;
use rukpak_runtime::finalizers::strip;
use rukpak_runtime::metrics::{Outcome, count_reconcile};
use rukpak_runtime::warn_first;
use rukpak_store::Sealed;
use rukpak_trust::Verdict;
use tokio::sync::SemaphorePermit;

use crate::context::Context;
use crate::images;
use crate::metrics;
use check::Expected;
use decide::{Decision, Observed, decide};
use failure::Failure;
use pin::Pinned;
use report::Report;
use reporter::Reporter;
use resolve::Resolved;

pub use check::{CHILD as CHECK_CHILD, main as check_child};
pub(crate) use life_cycle::on_upload;
pub use life_cycle::{on_deleted, release, retry, sweep, verify_content};
pub(crate) use verify::place;

/// The kind, as metrics call it.
const KIND: &str = "Bundle";

/// Neither a wait for a permit nor a fetch that ends within this time writes a status in between: where a hundred Bundles come at once,
/// these writes would be what they wait for.
const SOON: Duration = Duration::from_secs(1);

/// Why a reconcile of a Bundle ended without a report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The status could not be written.
    #[error("cannot write the status")]
    Status(#[source] api::Error),
    /// Upstream's finalizer could not be taken off.
    #[error("cannot remove the finalizer {}", names::UPSTREAM_FINALIZER)]
    Finalizer(#[source] api::Error),
}

/// One reconcile of a Bundle.
///
/// Bundles of other classes are left completely alone. An unpacked Bundle costs a look at the disk and no request, unless a
/// ContentPolicy requires a signature of it: then Secrets are read that hold keys, and what the status does not know yet is
/// searched for.
///
/// # Errors
/// Only what prevents the outcome from being reported; everything else is in the status.
pub async fn reconcile(bundle: Arc<Bundle>, context: Arc<Context>) -> Result<Action, Error> {
    // What was uploaded must not be replaced between the look at it and the word about it.
    let uploads = context.uploads.as_ref().filter(|_| bundle.spec.source.upload.is_some());
    let _turn = match uploads {
        Some(uploads) => Some(uploads.turn(&bundle.uid().unwrap_or_default()).await),
        None => None,
    };
    // The queue has no bound of its own: who waits for a permit to fetch must not stand in the way of a look at the disk.
    let mut pass = context.permits.reconciles.acquire().await.ok();

    let mut reporter = Reporter::new(&bundle, &context);
    let mut observed = observe(&bundle, &context);
    let outcome = loop {
        match decide(&observed) {
            Decision::LeaveAlone => return Ok(Action::await_change()),
            Decision::RemoveFinalizer => {
                strip(&context.client, &*bundle, &[names::UPSTREAM_FINALIZER]).await.map_err(Error::Finalizer)?;
                return Ok(Action::await_change());
            }
            Decision::Wait(left) => return Ok(Action::requeue(left)),
            Decision::Fail(error) => break Err(Failure::Pin(error)),
            Decision::LookFor(pinned) => match seal::find(&bundle.name_any(), &pinned, &context).await {
                Ok(kept) => observed.kept = Some(kept),
                Err(failure) => break Err(failure),
            },
            Decision::Unpack(format) => break unpack(&bundle, format, pass, &mut reporter, &context).await?,
            Decision::Keep(pinned) => {
                break reconsider(&bundle, &pinned, &mut pass, &mut reporter, &context).await.map(|()| pinned);
            }
            Decision::Refill(pinned) => {
                let reconsidered = reconsider(&bundle, &pinned, &mut pass, &mut reporter, &context).await;
                break match reconsidered {
                    Ok(()) => refill(&bundle, pinned, pass, &context).await?,
                    Err(failure) => Err(failure),
                };
            }
        }
    };

    // It may have gone meanwhile, and its ref with it: one that was set since would stay.
    if context.bundles.get(&ObjectRef::from_obj(&*bundle)).is_none() {
        on_deleted(&bundle.name_any(), &bundle.uid().unwrap_or_default(), &context).await;
        return Ok(Action::await_change());
    }
    conclude::conclude(&bundle, outcome, &mut reporter, &context).await
}

/// After a reconcile that could not report.
pub fn error_policy(bundle: &Bundle, error: &Error, context: &Context) -> Action {
    let (Error::Status(source) | Error::Finalizer(source)) = error;
    let class = if source.is_conflict() { Class::Conflict } else { Class::Transient };
    let uid = bundle.uid().unwrap_or_default();
    let delay = retry::delay(class, context.failures.another(&uid));
    count_reconcile(KIND, Outcome::Error);
    let (bundle, error) = (bundle.name_any(), Chain(error));
    if class == Class::Conflict {
        tracing::debug!(bundle, %error, "reconcile ended early; it runs again");
    } else {
        warn_first!(context.failures.is_first(&uid), bundle, %error, ?delay, "reconcile failed; will retry");
    }
    Action::requeue(delay)
}

fn observe<'a>(bundle: &'a Bundle, context: &Context) -> Observed<'a> {
    let has_pin = bundle.status.as_ref().is_some_and(|status| status.pin.is_some());
    let remembered = if has_pin { None } else { remembered_pin(bundle, context) };
    Observed {
        bundle,
        is_stale: context.written.is_stale(bundle),
        back_off: backoff::ATTEMPTS.left(&bundle.uid().unwrap_or_default()),
        asks_signature: remembered.is_some() && verify::asks_signature(bundle, context),
        remembered,
        kept: None,
    }
}

/// Finds out what the policies of now say of a Bundle that has its pin, unless the status says so already; it goes with the report.
async fn reconsider(
    bundle: &Bundle,
    pinned: &Pinned,
    pass: &mut Option<SemaphorePermit<'_>>,
    reporter: &mut Reporter,
    context: &Context,
) -> Result<(), Failure> {
    if let Some(verdict) = verify::reconsider(bundle, pinned, pass, context).await? {
        reporter.verified(verdict);
    }
    Ok(())
}

/// What an earlier Bundle of the same template resolved to, as the history of the BundleDeployment says: deleting a generated
/// Bundle, or coming back to an earlier template, gives the same content again.
fn remembered_pin(bundle: &Bundle, context: &Context) -> Option<Pin> {
    let deployment = made_for(bundle, context)?;
    let hash = bundle.metadata.labels.as_ref()?.get(names::TEMPLATE_HASH)?;
    let history = &deployment.status.as_ref()?.history;
    let same = history.iter().find(|revision| {
        revision.template_hash.as_ref() == Some(hash) && revision.source.as_ref() == Some(&bundle.spec.source)
    })?;
    same.pin.clone()
}

/// Fetches the content of a revision of the BundleDeployment again, by its pin and without a Bundle.
pub async fn fetch_revision(
    revision: &Revision,
    deployment: &BundleDeployment,
    context: &Context,
) -> Result<(), String> {
    let (Some(source), Some(pin)) = (&revision.source, &revision.pin) else {
        return Err("the history does not say where it came from".to_owned());
    };
    let name = revision.bundle.clone().unwrap_or_default();
    let spec = BundleSpec { source: source.clone(), ..BundleSpec::default() };
    let mut bundle = Bundle::new(&name, spec);
    // Secrets are read for the BundleDeployment that they name.
    bundle.metadata.owner_references = deployment.controller_owner_ref(&()).map(|owner| vec![owner]);
    let fetched = async {
        let pinned = Pinned::read(pin, source).map_err(Failure::Pin)?;
        let source = validate::source(source).map_err(Failure::Spec)?;
        bring_back(&bundle, source, pinned, context).await
    };
    fetched.await.map(|_| ()).map_err(|failure: Failure| Chain(&failure).to_string())
}

/// The first time: whatever the reference names now.
async fn unpack(
    bundle: &Bundle,
    format: Format,
    pass: Option<SemaphorePermit<'_>>,
    reporter: &mut Reporter,
    context: &Context,
) -> Result<Result<Pinned, Failure>, Error> {
    let source = match validate::source(&bundle.spec.source) {
        Ok(source) => source,
        Err(findings) => return Ok(Err(Failure::Spec(findings))),
    };
    let _turn = match turn::take(bundle, &source, pass, Some(reporter), context).await? {
        Ok(turn) => turn,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut verdict = None;
    let brought = {
        let mut brought = pin!(bring(bundle, format, source, &mut verdict, context));
        // What is there in a moment is told once: a status is a write, and so is each that follows from it.
        if let Ok(brought) = tokio::time::timeout(SOON, &mut brought).await {
            brought
        } else {
            reporter.begin(&Report::Unpacking).await.map_err(Error::Status)?;
            brought.await
        }
    };
    if let Some(verdict) = verdict {
        reporter.verified(verdict);
    }
    Ok(brought)
}

async fn bring(
    bundle: &Bundle,
    format: Format,
    source: validate::Source,
    verdict: &mut Option<Verdict>,
    context: &Context,
) -> Result<Pinned, Failure> {
    let name = bundle.name_any();
    let (revision, sealed) = fetched(bundle, source, Version::New(verdict), context).await?;
    let expected = Expected { format, watches_namespace: watches_namespace(bundle, context) };
    check::check(&name, &sealed.digest, expected, context)
        .await
        .inspect_err(|_| context.images_fetched.forget(&sealed.digest))?;
    let pinned = Pinned { revision, content: sealed.digest.clone() };
    seal::name(&name, &pinned, context).await?;
    Ok(pinned)
}

/// Which version of a source is fetched.
enum Version<'a> {
    /// Whatever it names now, if the policies let that in; and what they say.
    New(&'a mut Option<Verdict>),
    /// The one that was let in before.
    Known(&'a pin::Revision),
}

/// A version of the source, put into the store; counted.
async fn fetched(
    bundle: &Bundle,
    source: validate::Source,
    version: Version<'_>,
    context: &Context,
) -> Result<(pin::Revision, Sealed), Failure> {
    let (type_, begun) = (metrics::source_type(&source), Instant::now());
    let mut is_here = false;
    let fetched = async {
        let is_new = matches!(version, Version::New(_));
        let resolved = match version {
            Version::Known(revision) => resolve::resolve(bundle, source, Some(revision), context).await?,
            Version::New(said) => {
                let check = verify::Check::of(&source, context)?;
                let resolved = resolve::resolve(bundle, source, None, context).await?;
                let (verdict, resolved) = check.admit(resolved, context).await?;
                *said = Some(verdict);
                resolved
            }
        };
        let revision = resolved.revision();
        // What was lost or damaged is fetched, whatever is remembered.
        let mut turn = match &resolved {
            Resolved::Image { image, .. } if is_new => Some(context.images_fetched.turn(&image.reference()).await),
            _ => None,
        };
        if let Some(content) = turn.as_deref().and_then(Option::as_ref)
            && let Some(sealed) = seal::hold(content, context).await?
        {
            is_here = true;
            return Ok((revision, sealed));
        }
        let stage = Arc::new(fetch::fetch(resolved, context).await?);
        let sealed = seal::seal(stage, context).await?;
        if let Some(turn) = &mut turn {
            **turn = Some(images::Content { digest: sealed.digest.clone(), size_bytes: sealed.size_bytes });
        }
        Ok((revision, sealed))
    };
    let fetched: Result<_, Failure> = fetched.await;
    if let Err(Failure::PullImage { .. } | Failure::Signatures { .. } | Failure::NotAdmitted(_)) = &fetched {
        // A registry may show a manifest to everybody, and keep the rest to itself.
        context.has_no_pull_secrets.store(false, Ordering::Relaxed);
    }
    let (outcome, bytes) = match &fetched {
        Ok(_) if is_here => (Outcome::Unchanged, 0),
        Ok((_, sealed)) => (Outcome::Succeeded, sealed.size_bytes),
        Err(failure) if failure.verdict().phase == BundlePhase::Pending => (Outcome::Waiting, 0),
        Err(_) => (Outcome::Failed, 0),
    };
    metrics::count_fetch(type_, outcome, bytes, begun.elapsed());
    fetched
}

/// Later: exactly what the pin names. Says nothing meanwhile, so that a Bundle does not flap when a cache was lost.
async fn refill(
    bundle: &Bundle,
    pinned: Pinned,
    pass: Option<SemaphorePermit<'_>>,
    context: &Context,
) -> Result<Result<Pinned, Failure>, Error> {
    let source = match validate::source(&bundle.spec.source) {
        Ok(source) => source,
        Err(findings) => return Ok(Err(Failure::Spec(findings))),
    };
    Ok(match turn::take(bundle, &source, pass, None, context).await? {
        Ok(_turn) => bring_back(bundle, source, pinned, context).await,
        Err(failure) => Err(failure),
    })
}

async fn bring_back(
    bundle: &Bundle,
    source: validate::Source,
    pinned: Pinned,
    context: &Context,
) -> Result<Pinned, Failure> {
    let name = bundle.name_any();
    let (_, sealed) = fetched(bundle, source, Version::Known(&pinned.revision), context).await?;
    pinned.confirm(&sealed.digest).map_err(Failure::Pin)?;
    seal::name(&name, &pinned, context).await?;
    tracing::info!(bundle = name, revision = %pinned.revision, "lost content was fetched again");
    if let Some(owner) = owner(bundle) {
        context.deployment_queue.add(owner);
    }
    Ok(pinned)
}

/// Whether the BundleDeployment that the Bundle was generated for says which namespaces are watched.
fn watches_namespace(bundle: &Bundle, context: &Context) -> bool {
    let deployment = made_for(bundle, context);
    deployment.is_some_and(|deployment| rukpak_format::watches_namespace(deployment.spec.config.as_ref()))
}

/// The BundleDeployment that the Bundle was made for, if it is there: one of its name is another.
fn made_for(bundle: &Bundle, context: &Context) -> Option<Arc<BundleDeployment>> {
    let owner = bundle.owner_references().iter().find(|owner| BundleDeployment::is_controller(owner))?;
    let found = context.deployments.get(&ObjectRef::new(&owner.name));
    found.filter(|found| found.metadata.uid.as_ref() == Some(&owner.uid))
}

fn owner(bundle: &Bundle) -> Option<&str> {
    let labels = bundle.labels();
    let is_owned = labels.get(names::OWNER_KIND).is_some_and(|kind| kind == names::OWNER_KIND_VALUE);
    labels.get(names::OWNER_NAME).filter(|_| is_owned).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use rukpak_crds::Bundle;
    use serde_json::json;

    use super::owner;

    fn labelled(labels: &serde_json::Value) -> Bundle {
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "b", "labels": labels},
            "spec": {"provisionerClassName": "c", "source": {"type": "image"}},
        }))
        .unwrap()
    }

    #[test]
    fn only_a_bundle_deployment_is_woken() {
        let name = "core.rukpak.io/owner-name";
        let kind = "core.rukpak.io/owner-kind";
        assert_eq!(owner(&labelled(&json!({kind: "BundleDeployment", name: "d"}))), Some("d"));
        assert_eq!(owner(&labelled(&json!({kind: "Bundle", name: "d"}))), None);
        assert_eq!(owner(&labelled(&json!({name: "d"}))), None);
        assert_eq!(owner(&labelled(&json!({}))), None);
    }
}
