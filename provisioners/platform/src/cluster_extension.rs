//! The ClusterExtension reconciler: observe -> resolve -> decide (pure) -> apply -> report (pure).
//!
//! ```text
//! offers      what the ClusterCatalogs have of the package           memory, disk
//! deployment  its BundleDeployment: found, whose it is, written      API server
//! installed   which bundle that one has installed                    API server
//! takeover    which bundle operator-controller has installed before  pure
//! upgrade     which newer version is left out, and by what           pure
//! decide      what the BundleDeployment is to be                     pure
//! course      upgrades that only go together: begun, followed        catalogs
//! set         what is noted of them, and what becomes of them        pure
//! work        what is written of the BundleDeployment                pure
//! optional    what else it asks of the BundleDeployment, if anything pure
//! progress    how far the BundleDeployment is                        pure
//! revisions   which of its revisions are there                       pure
//! report      what is known to a status                              pure
//! object_sets its revisions, shown as ClusterObjectSets              API server
//! ```
//!
//! One BundleDeployment for each extension; the provisioner does the rest, and needs no catalog for it. No finalizer: deletion is garbage
//! collection by owner references.

mod course;
mod decide;
mod deployment;
mod object_sets;
mod offers;
mod optional;
mod progress;
mod report;
mod revisions;
mod set;
mod start;
mod takeover;
mod upgrade;
mod work;

use std::sync::{Arc, LazyLock};

use kube::runtime::controller::Action;
use kube::runtime::reflector::Store;
use kube::{Client, Resource, ResourceExt};
use rukpak_catalog::{Bundle, Version};
use rukpak_crds::condition::INSTALLED;
use rukpak_crds::olm::cluster_extension::{CatalogFilter, ClusterExtensionStatus};
use rukpak_crds::olm::{
    ClusterCatalog, ClusterExtension, ClusterObjectSet, PROGRESSING, UPSTREAM_FINALIZERS, deployment_name,
};
use rukpak_crds::{BundleDeployment, DependencyPolicy, names};
use rukpak_plan::retry::{self, Class};
use rukpak_runtime::api;
use rukpak_runtime::clock;
use rukpak_runtime::error::Chain;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::finalizers::strip;
use rukpak_runtime::status::{StatusWriter, WrittenVersions};

use self::course::{Together, course};
use self::decide::{First, Next, Resolution, decide, first};
use self::deployment::Target;
use self::offers::Answer;
use self::progress::{Progress, progress};
use self::set::Set;
use self::upgrade::Upgrade;
use super::catalogs::Catalogs;
use super::cluster_catalog::changed;
use super::cluster_catalog::store::CatalogStore;
use super::dependencies::Dependencies;
use super::dependencies::dependents::Dependents;
use super::dependencies::obtain::Asking;
use super::events::Events;
use super::installed::{self, Identity, Installed};
use super::outcome::{Error, class};
use super::owned::{self, Existing};

pub(crate) use start::{Wake, start};

/// Name of the CRD.
pub(crate) const DEFINITION: &str = "clusterextensions.olm.operatorframework.io";

/// What every reconcile of a ClusterExtension is handed.
pub(crate) struct Context {
    pub client: Client,
    /// All ClusterExtensions, as last seen.
    pub extensions: Store<ClusterExtension>,
    /// All ClusterCatalogs, as last seen.
    pub catalogs: Store<ClusterCatalog>,
    /// All BundleDeployments, as last seen.
    pub deployments: Store<BundleDeployment>,
    /// All ClusterObjectSets, as last seen.
    pub sets: Store<ClusterObjectSet>,
    /// Whether what a bundle depends on is installed.
    pub dependencies: Arc<Dependencies>,
    /// All catalogs from which that can be.
    pub offered: Arc<Catalogs>,
    pub content: Arc<CatalogStore>,
    /// Whether catalogs have to name images by digest.
    pub requires_digests: bool,
    /// Where ClusterObjectSets have what they hold that show revisions, if any do.
    pub revisions_in: Option<String>,
    pub failures: Failures,
    /// Of what was written of extensions and of BundleDeployments, whoever they are of.
    pub written: Arc<WrittenVersions>,
    pub events: Arc<Events>,
}

/// One reconcile of a ClusterExtension.
///
/// # Errors
/// Only what prevents the outcome from being reported; everything else is in the status.
pub(crate) async fn reconcile(extension: Arc<ClusterExtension>, context: Arc<Context>) -> Result<Action, Error> {
    if context.written.is_stale(&*extension) {
        return Ok(Action::await_change());
    }
    if extension.meta().deletion_timestamp.is_some() {
        strip(&context.client, &*extension, &UPSTREAM_FINALIZERS).await.map_err(Error::Metadata)?;
        return Ok(Action::await_change());
    }
    let Outcome { report, retry, is_taken_over } = outcome(&extension, &context).await;
    let status = report::status(&extension, &report, clock::now());
    write(&extension, &status, &context).await?;
    if is_taken_over {
        strip(&context.client, &*extension, &UPSTREAM_FINALIZERS).await.map_err(Error::Metadata)?;
        tracing::info!(extension = %extension.name_any(), "ClusterExtension taken over from operator-controller");
    }
    let shown = Box::pin(object_sets::show(&extension, &status, &context)).await;
    let unshown = shown.err().map(|error| {
        let extension = extension.name_any();
        tracing::warn!(extension, error = %Chain(&error), "cannot show the revisions of ClusterExtension");
        Class::Transient
    });
    let uid = extension.uid().unwrap_or_default();
    let Some(class) = retry.or(unshown) else {
        context.failures.clear(&uid);
        return Ok(Action::await_change());
    };
    Ok(Action::requeue(retry::delay(class, context.failures.another(&uid))))
}

/// What came of a reconcile.
struct Outcome {
    report: report::Report,
    /// When to look again, if nobody tells us.
    retry: Option<Class>,
    /// Whether operator-controller had it, and its BundleDeployment has everything by now.
    is_taken_over: bool,
}

/// Looks what is installed, and has what is wanted installed.
async fn outcome(extension: &ClusterExtension, context: &Context) -> Outcome {
    let found = deployment::find(extension, context).await;
    let deployment = match &found {
        Ok(Some(Existing::Ours(deployment))) => Some(deployment.clone()),
        _ => None,
    };
    let unreadable =
        |why: &str, retry| Outcome { report: report::Report::unreadable(why), retry, is_taken_over: false };
    let installed = match installed::look(deployment.as_deref(), &context.client).await {
        Ok(Installed::Nothing) => None,
        Ok(Installed::Bundle(identity)) => Some(identity),
        // Which upgrades lead on from it is not known either, so nothing is looked for.
        Ok(Installed::Unknown(bundle)) => {
            let name = deployment_name(&extension.name_any());
            let why = format!(
                "the Bundle {bundle:?} that the BundleDeployment {name:?} has installed is gone, and status.history of the \
                 BundleDeployment does not say which version that is"
            );
            return unreadable(&why, None);
        }
        Err(error) => return unreadable(&Chain(&error).to_string(), Some(Class::Transient)),
    };
    let is_taken_over = installed.is_some() && takeover::is_marked(extension);
    let (report, retry) = towards(extension, found, deployment, installed, context).await;
    Outcome { report, retry, is_taken_over }
}

/// Has what is wanted installed, where `installed` is.
async fn towards(
    extension: &ClusterExtension,
    found: Result<Option<Existing>, api::Error>,
    deployment: Option<Arc<BundleDeployment>>,
    installed: Option<Identity>,
    context: &Context,
) -> (report::Report, Option<Class>) {
    // What operator-controller has installed is in the cluster all the while.
    let left = takeover::left(extension).filter(|_| installed.is_none());
    let health = deployment.as_deref().and_then(report::health);
    let revisions = deployment.as_deref().map(revisions::active).unwrap_or_default();
    let report = |progress| report::Report {
        installed: installed.clone().or(left.clone()),
        health: health.clone(),
        revisions: revisions.clone(),
        ..report::Report::of(progress)
    };
    let live = deployment.as_deref();
    let filter = match first(extension, found, left.as_ref()) {
        First::Told(progress, class) => return (report(progress), class),
        First::TakeOver(bundle) => {
            let target = Target { bundle, has_packages: false, set: None };
            let (progress, class) = apply(extension, target, live, None, context).await;
            return (report(progress), class);
        }
        First::Ask(filter) => filter,
    };
    // What was begun together is ended before anything else is looked for.
    if let Some((part, class)) = take_part(extension, filter, (live, installed.as_ref()), context).await {
        return (report::Report { catalog: part.catalog, upgrade: part.upgrade, ..report(part.progress) }, class);
    }
    let policy = match Asking::Extension(extension).policy() {
        Ok(policy) => policy,
        Err(fault) => return (report(Progress::InvalidConfiguration(fault)), None),
    };
    let Resolved { resolution, upgrade, untold, begun } =
        resolve(extension, policy, (filter, installed.as_ref(), live), context).await;
    if let Some(set) = &begun
        && let Some(bundle) = set.wanted(&extension.name_any())
    {
        let target = Target { bundle, has_packages: true, set: Some(set) };
        let (progress, class) = apply(extension, target, live, installed.as_ref(), context).await;
        return (report::Report { catalog: resolution.data(), upgrade, ..report(progress) }, class);
    }
    let over = live.and_then(Set::noted).filter(|set| set.stands(&extension.name_any(), installed.as_ref()));
    let had_packages = live.is_some_and(owned::has_packages);
    let (progress, class) = match decide(filter, (installed.as_ref(), had_packages), &resolution) {
        Next::Leave { message } => leave(extension, message, (live, over.as_ref()), context).await,
        Next::Apply { bundle, has_packages } => {
            let target = Target { bundle: &bundle, has_packages, set: over.as_ref() };
            apply(extension, target, live, installed.as_ref(), context).await
        }
    };
    (report::Report { catalog: resolution.data(), upgrade, ..report(progress) }, class.or(untold))
}

/// Does what the extension does in a set of upgrades, if it is in one that is not over.
async fn take_part(
    extension: &ClusterExtension,
    filter: &CatalogFilter,
    (live, installed): (Option<&BundleDeployment>, Option<&Identity>),
    context: &Context,
) -> Option<(report::Report, Option<Class>)> {
    let course = Box::pin(course(extension, filter, live?, context)).await?;
    let target = Target { bundle: &course.wanted, has_packages: true, set: Some(&course.noted) };
    let (progress, class) = apply(extension, target, live, installed, context).await;
    let progress = course.told(progress);
    // An upgrade that is on its way is no news, and what was said of one that is taken back stands.
    let upgrade = if course.noted.failure.is_none() { Upgrade::Nothing } else { Upgrade::Unlooked };
    let class = class.or(course.is_watched_by_clock().then_some(Class::Blocked));
    Some((report::Report { catalog: course.data, upgrade, ..report::Report::of(progress) }, class))
}

/// What is to be installed.
struct Resolved {
    resolution: Resolution,
    /// What is known of newer versions.
    upgrade: Upgrade,
    /// When to try again if something could not be asked for.
    untold: Option<Class>,
    /// Upgrades that are made together now.
    begun: Option<Set>,
}

/// Finds the bundle that is to be installed, and has installed what it depends on, as far as the policy says so.
async fn resolve(
    extension: &ClusterExtension,
    policy: DependencyPolicy,
    (filter, installed, live): (&CatalogFilter, Option<&Identity>, Option<&BundleDeployment>),
    context: &Context,
) -> Resolved {
    let asking = &Asking::Extension(extension);
    let known = &context.dependencies;
    known.begin(&context.offered).await;
    let package = &filter.package_name;
    let are_met = |bundle: &Bundle| known.are_met(asking.dependent(), package, bundle);
    let ignores_dependents = asking.says(names::IGNORE_DEPENDENTS);
    let dependents =
        LazyLock::new(|| if ignores_dependents { Dependents::default() } else { known.demanding_dependents() });
    // An extension that dependents hold up is enqueued when something else is installed. A version that is older than the installed one is
    // not waited for.
    let holding = LazyLock::new(|| known.dependents_for(&asking.dependent()));
    let release = |it: &Identity| it.release.clone().unwrap_or_default();
    let here = installed.and_then(|it| Version::with_release(&it.version, &release(it)).ok());
    let breaks = |bundle: &Bundle| {
        let broken = dependents.broken_by(package, bundle);
        let is_waited_for = !broken.is_empty() && bundle.version > here;
        if is_waited_for { holding.broken_by(package, bundle) } else { broken }
    };
    let are_ignored = asking.says(names::IGNORE_DEPENDENCIES);
    let dependencies = offers::Dependencies { are_ignored, are_met: &are_met, breaks: &breaks };
    let mut answer = offers::resolve(filter, installed, dependencies, context).await;
    // Something that is installed may provide more than was known.
    if answer.needy.is_some() && known.learn(&context.offered).await {
        answer = offers::resolve(filter, installed, dependencies, context).await;
    }
    let Answer { mut resolution, mut upgrade, needy } = answer;
    if upgrade.is_held()
        && let Some(live) = live
    {
        if policy != DependencyPolicy::Refuse
            && let Some(found) = Box::pin(course::seek(extension, live, context)).await
        {
            let (begun, untold) = agree(asking, policy, found, (&mut upgrade, context)).await;
            return Resolved { resolution, upgrade, untold, begun };
        }
        if let Some(why) = course::tried(&extension.name_any(), live) {
            upgrade.add(&why);
        }
    }

    let obtained = match &needy {
        Some(needy) => {
            let with = (&*context.offered, &context.client);
            Box::pin(known.obtain(asking, policy, needy, with)).await
        }
        None if resolution.data().is_some() => known.settle(asking, &context.client).await.map(|()| String::new()),
        None => Ok(String::new()),
    };
    let untold = resolution.explained(&obtained);
    Resolved { resolution, upgrade, untold, begun: None }
}

/// Has somebody agree that upgrades are made together, if the policy says so. Returns them once that is so, and when to try again if
/// nobody could be asked.
async fn agree(
    asking: &Asking<'_>,
    policy: DependencyPolicy,
    Together { set, needy, others }: Together,
    (upgrade, context): (&mut Upgrade, &Context),
) -> (Option<Set>, Option<Class>) {
    let answer = match policy {
        DependencyPolicy::Propose => context.dependencies.ask(asking, &needy, &others, &context.client).await,
        DependencyPolicy::Refuse | DependencyPolicy::Install => Ok(None),
    };
    match answer {
        Ok(None) => {
            *upgrade = Upgrade::Nothing;
            (Some(set), None)
        }
        Ok(Some(waiting)) => {
            upgrade.add(&waiting);
            (None, None)
        }
        Err(error) => {
            upgrade.add(&format!("what goes with it cannot be asked for: {}", Chain(&error)));
            (None, Some(Class::Transient))
        }
    }
}

/// Leaves the BundleDeployment at what it installs, for the reason `message`; what else is asked of it is done all the same.
async fn leave(
    extension: &ClusterExtension,
    message: String,
    (live, over): (Option<&BundleDeployment>, Option<&Set>),
    context: &Context,
) -> (Progress, Option<Class>) {
    let body = match work::stay(extension, (live, over), context.revisions_in.is_some()) {
        Ok(body) => body,
        Err(progress) => return (progress, None),
    };
    let (Some(live), Some(body)) = (live, body) else { return (Progress::Retrying(message), None) };
    match deployment::keep(body, live, context).await {
        Ok(()) => (Progress::Retrying(message), None),
        Err(error) => {
            let class = class(&error);
            (
                Progress::Retrying(format!("{message}; the BundleDeployment cannot be written: {}", Chain(&error))),
                Some(class),
            )
        }
    }
}

/// Makes the BundleDeployment install the target; how far it is, and when to try again if nobody tells us.
async fn apply(
    extension: &ClusterExtension,
    target: Target<'_>,
    live: Option<&BundleDeployment>,
    installed: Option<&Identity>,
    context: &Context,
) -> (Progress, Option<Class>) {
    let wanted = target.bundle;
    let body = match work::install(extension, target, live, context.revisions_in.is_some()) {
        Ok(body) => body,
        Err(progress) => return (progress, None),
    };
    match deployment::apply(extension, wanted, body, live, context).await {
        Ok(deployment) => (progress(&deployment, wanted, installed), None),
        Err(error) => (Progress::Retrying(wanted.wrapped(&Chain(&error).to_string())), Some(class(&error))),
    }
}

/// Writes the status, and tells of conditions that are others.
async fn write(extension: &ClusterExtension, status: &ClusterExtensionStatus, context: &Context) -> Result<(), Error> {
    let mut writer = StatusWriter::new(&context.client, extension, extension.status.as_ref());
    let is_written = writer.write(status, &context.written).await.map_err(Error::Status)?;
    crate::outcome::of_progress(&status.conditions, is_written);
    if !is_written {
        return Ok(());
    }
    let old = extension.status.as_ref().map(|old| old.conditions.as_slice()).unwrap_or_default();
    for (before, now) in changed(old, &status.conditions) {
        if ![INSTALLED, PROGRESSING].contains(&now.type_.as_str()) {
            continue;
        }
        let (type_, reason, detail) = (&now.type_, &now.reason, &now.message);
        tracing::info!(extension = %extension.name_any(), type_, status = ?now.status, reason, detail, "status of ClusterExtension changed");
        context.events.tell_condition(extension.object_ref(&()), before, now);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
