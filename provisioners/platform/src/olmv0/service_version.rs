//! What follows from a BundleDeployment of a Subscription: observe -> InstallPlan -> ClusterServiceVersion -> report. I/O.
//!
//! ```text
//! removal       whether somebody has deleted what it is for               pure
//! install_plan  the question, the answer, and how far it is               pure, and written here
//! version       what is written of it, and its status                     pure
//! requirements  what has to be there                                      pure
//! restore       definitions that somebody has deleted
//! ```

mod install_plan;
mod removal;
mod requirements;
mod restore;
mod version;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Patch, PatchParams, Preconditions};
use kube::runtime::controller::Action;
use kube::{Api, Resource, ResourceExt};
use rukpak_crds::BundleDeployment;
use rukpak_crds::olmv0::{ClusterServiceVersion, DEPLOYMENT_UID, InstallPlan, PLANNED, Subscription};
use rukpak_plan::retry::{self, Class};
use rukpak_runtime::error::Chain;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::status::StatusWriter;
use rukpak_runtime::{api, clock, warn_first};

use self::removal::Removal;
use self::version::Others;
use super::context::{Context, FIELD_MANAGER};
use super::membership::Membership;
use super::stage::{Seen, Stage};
use super::subscription::has_namespace;
use super::unit::{Unit, within};
use super::{bundles, components, deployment, neighbours};
use crate::owned;

/// Why a pass ended early. The next one starts over from what is in the cluster.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("cannot write the InstallPlan")]
    Plan(#[source] api::Error),
    #[error("cannot write the ClusterServiceVersion")]
    Version(#[source] api::Error),
    #[error("cannot write the BundleDeployment")]
    Deployment(#[source] api::Error),
    #[error("cannot tell the Operator what belongs to it")]
    Operator(#[source] api::Error),
    #[error("cannot look for the Subscription")]
    Subscription(#[source] api::Error),
    #[error("cannot look for the namespace")]
    Namespace(#[source] api::Error),
    #[error("cannot read the ClusterServiceVersion of the bundle")]
    Bundle(#[from] bundles::Error),
    #[error(
        "ClusterServiceVersion {name} is that of package {package}, which BundleDeployment {deployment} installs in this namespace: \
         two packages cannot have one of the same name; delete one of the Subscriptions, or install one in another namespace"
    )]
    Taken { name: String, package: String, deployment: String },
}

/// What a pass works on.
struct Pass {
    deployment: Arc<BundleDeployment>,
    unit: Unit,
    seen: Seen,
    /// The Subscription that has the package, if there is one.
    subscription: Option<Arc<Subscription>>,
    membership: Membership,
    /// ClusterServiceVersions that were made for this BundleDeployment.
    versions: Vec<Arc<ClusterServiceVersion>>,
    /// InstallPlans that speak of it.
    plans: Vec<Arc<InstallPlan>>,
    context: Arc<Context>,
}

/// One pass over a BundleDeployment.
pub(super) async fn reconcile(deployment: Arc<BundleDeployment>, context: Arc<Context>) -> Result<Action, Error> {
    let is_over = deployment.meta().deletion_timestamp.is_some()
        || context.written.is_stale(&*deployment)
        || !context.gate.is_open();
    let Some(pass) = observe(deployment, context).filter(|_| !is_over) else { return Ok(Action::await_change()) };
    if pass.versions.iter().any(|version| pass.context.written.is_stale(&**version))
        || pass.plans.iter().any(|plan| pass.context.written.is_stale(&**plan))
    {
        return Ok(Action::await_change());
    }
    if pass.is_to_go().await? {
        let (namespace, package) = (&pass.unit.namespace, &pass.unit.package);
        tracing::info!(namespace, package, "what it is for is gone: the BundleDeployment is deleted");
        // First: nobody knows whose they are when that is gone.
        pass.delete_versions(|_| true).await?;
        deployment::delete(&pass.deployment, &pass.context).await.map_err(Error::Deployment)?;
        return Ok(Action::await_change());
    }
    pass.ask().await?;
    pass.answer().await?;
    // What is known is told first, whatever has become of the ClusterServiceVersion.
    let made = pass.make_version().await;
    let failure = made.as_ref().err().map(|error| Chain(error).to_string());
    pass.report(failure.as_deref()).await?;
    let restored = pass.restore().await?;
    made?;
    pass.collect().await?;
    let own = components::own(pass.subscription.as_deref(), &pass.versions, &pass.plans);
    components::tell(&pass.deployment, &pass.unit, own, &pass.context).await.map_err(Error::Operator)?;
    pass.context.failures.clear(&pass.deployment.uid().unwrap_or_default());
    Ok(pass.next(restored))
}

/// After a pass that ended early.
pub(super) fn error_policy(deployment: &BundleDeployment, error: &Error, failures: &Failures) -> Action {
    let class = match error {
        Error::Plan(error) | Error::Version(error) | Error::Deployment(error) | Error::Operator(error)
            if error.is_conflict() || error.is_not_found() =>
        {
            Class::Conflict
        }
        // Nothing tells when the other one goes.
        Error::Taken { .. } => Class::Blocked,
        _ => Class::Transient,
    };
    let uid = deployment.uid().unwrap_or_default();
    let delay = retry::delay(class, failures.another(&uid));
    if class != Class::Conflict {
        let name = deployment.name_any();
        warn_first!(failures.is_first(&uid), name, error = %Chain(error), ?delay, "pass over a Subscription's BundleDeployment failed; will retry");
    }
    Action::requeue(delay)
}

/// Gathers what a pass needs. No I/O.
fn observe(deployment: Arc<BundleDeployment>, context: Arc<Context>) -> Option<Pass> {
    let unit = Unit::of(&deployment)?;
    let seen = Seen::of(&deployment, &context.questions.state())?;
    let uid = deployment.uid()?;
    let mut versions = within(&context.versions, &unit.namespace);
    versions.retain(|version| version.annotations().get(DEPLOYMENT_UID) == Some(&uid));
    let mut plans = within(&context.plans, &unit.namespace);
    plans.retain(|plan| plan.annotations().get(DEPLOYMENT_UID) == Some(&uid));
    Some(Pass {
        subscription: context.subscription(&unit.namespace, &unit.package),
        membership: neighbours::membership(&unit, &context),
        versions,
        plans,
        deployment,
        unit,
        seen,
        context,
    })
}

impl Pass {
    /// Whether what it is for was deleted. What the watch does not show is looked for once more.
    async fn is_to_go(&self) -> Result<bool, Error> {
        let there: BTreeMap<String, String> = self
            .versions
            .iter()
            .filter(|version| version.meta().deletion_timestamp.is_none())
            .map(|version| (version.name_any(), version.uid().unwrap_or_default()))
            .collect();
        let noted = deployment::noted(&self.deployment);
        let has_subscription = self.subscription.is_some();
        Ok(match removal::removal(&self.seen, (self.is_untouched(), has_subscription), &noted, &there) {
            Removal::No => false,
            Removal::Yes => true,
            Removal::UnlessNamespaceStays => {
                !has_namespace(&self.unit.namespace, &self.context.client).await.map_err(Error::Namespace)?
            }
            Removal::UnlessThere { name, uid } => {
                let api: Api<ClusterServiceVersion> =
                    Api::namespaced(self.context.client.clone(), &self.unit.namespace);
                let found = api.get_metadata_opt(&name).await.map_err(api::Error::from).map_err(Error::Version)?;
                found.is_none_or(|found| found.uid() != Some(uid) || found.metadata.deletion_timestamp.is_some())
            }
        })
    }

    /// Whether nothing was ever written for it.
    fn is_untouched(&self) -> bool {
        let inventory = self.deployment.status.as_ref().and_then(|status| status.inventory.as_ref());
        inventory.is_none_or(|inventory| inventory.kinds.is_empty())
    }

    /// Has the InstallPlan of what is wanted be there, where one is needed.
    async fn ask(&self) -> Result<(), Error> {
        let Some(subscription) = &self.subscription else { return Ok(()) };
        let all = within(&self.context.plans, &self.unit.namespace);
        let (needed, over) = install_plan::needed(&self.deployment, &self.seen, subscription, (&self.plans, &all));
        if let Some(body) = needed {
            let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let params = PatchParams::apply(FIELD_MANAGER).force();
            let made = self.plan_api().patch(&name, &params, &Patch::Apply(body)).await;
            match made.map_err(api::Error::from) {
                Ok(made) => self.context.written.record(&made),
                // The watch will show the one that is there.
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(Error::Plan(error)),
            }
        }
        for plan in over {
            self.delete(&self.plan_api(), &*plan).await.map_err(Error::Plan)?;
        }
        Ok(())
    }

    /// Approves the Plan that is asked about, if its InstallPlan is approved.
    async fn answer(&self) -> Result<(), Error> {
        let Stage::Asking { digest } = &self.seen.stage else { return Ok(()) };
        let is_approved = install_plan::of(&self.plans, digest).is_some_and(|plan| plan.spec.approved);
        if !is_approved || self.deployment.spec.approved_plan.as_ref() == Some(digest) {
            return Ok(());
        }
        let (namespace, package) = (&self.unit.namespace, &self.unit.package);
        tracing::info!(namespace, package, plan = digest, "InstallPlan is approved");
        deployment::approve(&self.deployment, digest, &self.context).await.map_err(Error::Deployment)
    }

    /// Makes the ClusterServiceVersion of what is wanted, once nobody has to be asked, and notes it.
    async fn make_version(&self) -> Result<(), Error> {
        let wanted = &self.seen.wanted;
        let mut noted = deployment::noted(&self.deployment);
        let there = self.versions.iter().find(|version| version.name_any() == wanted.name);
        let version = match there {
            Some(version) => version.clone(),
            None if noted.contains_key(&wanted.name) || !self.may_begin() => return Ok(()),
            None => {
                let manifest = self.context.bundles.version(&wanted.reference).await?;
                // The watch may show the upgrade only when it is done: what was there before tells what was replaced.
                let before = self.versions.first().map(|version| version.name_any());
                let whose = (&*self.deployment, &self.unit, &self.membership);
                let body = version::body(&manifest, whose, &wanted.name, before.as_deref());
                let params = PatchParams::apply(FIELD_MANAGER).force();
                match self
                    .version_api()
                    .patch(&wanted.name, &params, &Patch::Apply(body))
                    .await
                    .map_err(api::Error::from)
                {
                    Ok(made) => {
                        self.context.written.record(&made);
                        Arc::new(made)
                    }
                    Err(error) if error.is_conflict() => return self.clear(&wanted.name).await,
                    Err(error) => return Err(Error::Version(error)),
                }
            }
        };
        let uid = version.uid().unwrap_or_default();
        if noted.get(&wanted.name) == Some(&uid) {
            return Ok(());
        }
        noted.insert(wanted.name.clone(), uid);
        deployment::note(&self.deployment, &noted, &self.context).await.map_err(Error::Deployment)
    }

    /// Deletes what a BundleDeployment that is gone has left under the name of a ClusterServiceVersion; what was made by hand stays, and so
    /// does what a living one has: without it, that would be taken for deleted, and all that it has installed with it.
    async fn clear(&self, name: &str) -> Result<(), Error> {
        let all = within(&self.context.versions, &self.unit.namespace);
        let Some(version) = all.iter().find(|version| version.name_any() == name) else { return Ok(()) };
        let Some(other) = version.annotations().get(DEPLOYMENT_UID) else { return Ok(()) };
        if Some(other) == self.deployment.uid().as_ref() {
            return Ok(());
        }

        let deployments = self.context.deployments.state();
        if let Some(living) = deployments.iter().find(|deployment| deployment.uid().as_ref() == Some(other)) {
            let package = Unit::of(living).map(|unit| unit.package).unwrap_or_default();
            return Err(Error::Taken { name: name.to_owned(), package, deployment: living.name_any() });
        }
        self.delete(&self.version_api(), &**version).await.map_err(Error::Version)
    }

    /// Whether what is wanted may be in the cluster: nobody has to be asked, or somebody said yes.
    fn may_begin(&self) -> bool {
        let is_asked = self.deployment.spec.approval == Some(rukpak_crds::ApprovalPolicy::Always);
        let is_approved = || {
            let digest = self.deployment.spec.approved_plan.as_deref()?;
            let plan = install_plan::of(&self.plans, digest)?;
            let names = &plan.spec.cluster_service_version_names;
            Some(plan.spec.approved && names.first() == Some(&self.seen.wanted.name))
        };
        // The InstallPlan goes with the Subscription. Who had said yes to what is begun has not taken that back.
        let is_begun = || self.subscription.is_none() && self.seen.active.is_none() && !self.is_untouched();
        let may_go = || !is_asked || is_approved() == Some(true) || is_begun();
        self.seen.is_installed() || (self.seen.stage.is_going() && may_go())
    }

    /// Writes the statuses, and what ClusterServiceVersions say of the OperatorGroup.
    async fn report(&self, failure: Option<&str>) -> Result<(), Error> {
        let now = clock::now();
        let wanted = self.versions.iter().find(|version| version.name_any() == self.seen.wanted.name);
        let (questions, uid) = (self.context.questions.state(), self.deployment.uid());
        for plan in &self.plans {
            let key = plan.annotations().get(PLANNED);
            let about = install_plan::About {
                seen: &self.seen,
                failure,
                version: wanted.map(|version| &**version),
                subscription: self.subscription.as_deref(),
                group: self.membership.group(),
                // Of this BundleDeployment: whoever writes the annotation sees nothing of another's.
                question: questions
                    .iter()
                    .map(|plan| &**plan)
                    .find(|plan| Some(&plan.spec.digest) == key && Some(&plan.spec.deployment.uid) == uid.as_ref()),
            };
            let status = install_plan::status(plan, &about, now);
            let mut writer = StatusWriter::within(&self.context.client, &**plan, plan.status.as_ref());
            writer.write(&status, &self.context.written).await.map_err(Error::Plan)?;
        }
        for version in &self.versions {
            let others = if version.name_any() == self.seen.wanted.name {
                Others::None
            } else {
                wanted.map_or(Others::None, |wanted| Others::ReplacedBy {
                    name: wanted.name_any(),
                    is_done: self.seen.is_installed() && self.seen.stage == Stage::Succeeded,
                })
            };
            let place = (self.unit.namespace.as_str(), &self.membership);
            let Some(status) = version::status(version, &self.seen, place, &others, now) else { continue };
            let mut writer = StatusWriter::within(&self.context.client, &**version, version.status.as_ref());
            writer.write(&status, &self.context.written).await.map_err(Error::Version)?;
            self.annotate(version).await?;
        }
        Ok(())
    }

    /// Says on a ClusterServiceVersion which namespaces its operator watches.
    async fn annotate(&self, version: &ClusterServiceVersion) -> Result<(), Error> {
        let Some(group) = self.membership.group() else { return Ok(()) };
        let wanted = version::group_annotations(group, &self.unit.namespace);
        if wanted.iter().all(|(key, value)| version.annotations().get(*key) == Some(value)) {
            return Ok(());
        }
        let patch = serde_json::json!({"metadata": {"uid": version.uid(), "annotations": wanted}});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.version_api().patch_metadata(&version.name_any(), &params, &Patch::Merge(patch)).await;
        match written.map_err(api::Error::from) {
            Err(error) if !error.is_not_found() => Err(Error::Version(error)),
            _ => Ok(()),
        }
    }

    /// Nobody tells when an operator has taken too long, or when to look at `other` things.
    fn next(&self, other: Option<Duration>) -> Action {
        let wanted = self.versions.iter().find(|version| version.name_any() == self.seen.wanted.name);
        let late = wanted.and_then(|version| version::deadline(version));
        let left: Option<Duration> = late.and_then(|late| late.duration_since(clock::now()).try_into().ok());
        left.into_iter().chain(other).min().map_or_else(Action::await_change, Action::requeue)
    }

    /// Deletes ClusterServiceVersions in whose place another one has succeeded, and forgets those that are gone.
    async fn collect(&self) -> Result<(), Error> {
        let wanted = &self.seen.wanted.name;
        let has_wanted = self.versions.iter().any(|version| version.name_any() == *wanted);
        if !has_wanted || !self.seen.is_installed() || self.seen.stage != Stage::Succeeded {
            return Ok(());
        }
        let has_replaced = self.delete_versions(|version| version.name_any() != *wanted).await?;
        let mut noted = deployment::noted(&self.deployment);
        let count = noted.len();
        noted.retain(|name, _| name == wanted);
        if noted.len() == count || has_replaced {
            return Ok(());
        }
        deployment::note(&self.deployment, &noted, &self.context).await.map_err(Error::Deployment)
    }

    /// Deletes ClusterServiceVersions that were noted, where `is_meant`. Whether there were some.
    async fn delete_versions(&self, is_meant: impl Fn(&ClusterServiceVersion) -> bool) -> Result<bool, Error> {
        let noted = deployment::noted(&self.deployment);
        // A copy that somebody made has the annotations too.
        let is_noted = |version: &ClusterServiceVersion| noted.get(&version.name_any()) == version.uid().as_ref();
        let mut has_some = false;
        for version in self.versions.iter().filter(|version| is_meant(version) && is_noted(version)) {
            self.delete(&self.version_api(), &**version).await.map_err(Error::Version)?;
            has_some = true;
        }
        Ok(has_some)
    }

    async fn delete<K>(&self, api: &Api<K>, object: &K) -> Result<(), api::Error>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        // By its version: an answer that was written meanwhile is not lost.
        let preconditions = Preconditions { uid: object.uid(), resource_version: object.resource_version() };
        owned::delete(api, &object.name_any(), preconditions).await
    }

    fn plan_api(&self) -> Api<InstallPlan> {
        Api::namespaced(self.context.client.clone(), &self.unit.namespace)
    }

    fn version_api(&self) -> Api<ClusterServiceVersion> {
        Api::namespaced(self.context.client.clone(), &self.unit.namespace)
    }
}
