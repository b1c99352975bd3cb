//! The Subscription reconciler: observe -> choose (pure) -> its BundleDeployment -> report (pure).
//!
//! A Subscription says which bundle is wanted, and nothing of it is written here: the InstallPlan, which may have to be approved, and the
//! ClusterServiceVersion follow from the BundleDeployment.

mod choose;
mod deprecations;
mod report;

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::runtime::controller::Action;
use kube::{Api, Client, Resource, ResourceExt};
use rukpak_crds::BundleDeployment;
use rukpak_crds::olm::rules;
use rukpak_crds::olmv0::{
    CatalogSource, ClusterServiceVersion, DEPLOYMENT_UID, InstallPlan, Subscription, component_label,
};
use rukpak_plan::retry::{self, Class};
use rukpak_runtime::api;
use rukpak_runtime::clock;
use rukpak_runtime::error::Chain;
use rukpak_runtime::status::StatusWriter;
use serde::de::DeserializeOwned;

use self::choose::{Choice, Offer, choose};
use self::deprecations::{Advice, advice};
use self::report::{Failure, View};
use super::catalog_source::known::Health;
use super::context::Context;
use super::deployment::{self, Existing};
use super::membership::{Group, Membership};
use super::neighbours;
use super::stage::{Seen, Stage};
use super::unit::{Unit, within};
use crate::dependencies::Dependent;
use crate::image;
use crate::installed::Identity;
use crate::outcome::Error;
use crate::owned::has_packages;

/// What became of it.
#[derive(Default)]
struct Followed {
    deployment: Option<Arc<BundleDeployment>>,
    failure: Option<Failure>,
    /// What the catalog advises against, if it was asked.
    advice: Option<Advice>,
    /// When to look again, if nobody tells us.
    retry: Option<Class>,
}

/// Which bundle is wanted, and why no other if that is to be told.
struct Wanted {
    bundle: Option<Identity>,
    has_packages: bool,
    failure: Option<Failure>,
    advice: Option<Advice>,
    retry: Option<Class>,
}

/// One pass over a Subscription.
pub(super) async fn reconcile(subscription: Arc<Subscription>, context: Arc<Context>) -> Result<Action, Error> {
    let is_over = subscription.meta().deletion_timestamp.is_some() || !context.gate.is_open();
    if is_over || context.written.is_stale(&*subscription) {
        return Ok(Action::await_change());
    }
    let Followed { deployment, failure, advice, retry } = follow(&subscription, &context).await;
    let sources = sources(&subscription, &context);
    let seen = deployment.as_ref().and_then(|deployment| Seen::of(deployment, &context.questions.state()));
    let view = View {
        subscription: &subscription,
        sources: &sources,
        failure,
        advice,
        seen: seen.as_ref(),
        plan: plan(&subscription, deployment.as_deref(), &context),
        has_referenced: has_referenced(&subscription, &context),
        is_left: deployment.is_none() && left_by_olm(&subscription, &context).is_some(),
        versions: versions(&subscription, &context),
    };
    let status = report::status(&view, clock::now());
    if subscription.status.as_ref().is_none_or(|old| !report::is_same(old, &status)) {
        let mut writer = StatusWriter::within(&context.client, &*subscription, subscription.status.as_ref());
        writer.write(&status, &context.written).await.map_err(Error::Status)?;
    }
    let uid = subscription.uid().unwrap_or_default();
    let Some(class) = retry else {
        context.failures.clear(&uid);
        return Ok(Action::await_change());
    };
    Ok(Action::requeue(retry::delay(class, context.failures.another(&uid))))
}

/// Has what is wanted installed.
async fn follow(subscription: &Subscription, context: &Context) -> Followed {
    let nothing = |failure| Followed { failure: Some(failure), ..Followed::default() };
    let unit = Unit::of_subscription(subscription);
    if let Err(violation) = rules::check(&rules::PACKAGE_NAME, &unit.package) {
        return nothing(Failure::prevented(format!("spec.name: {violation}")));
    }
    let holder = context.subscription(&unit.namespace, &unit.package);
    if let Some(holder) = holder.filter(|holder| holder.uid() != subscription.uid()) {
        return nothing(Failure::unsatisfiable(format!(
            "constraints not satisfiable: there can be only one operator from package {}, which Subscription {} has; delete one of both",
            unit.package,
            holder.name_any()
        )));
    }
    let live = match deployment::find(&unit, context).await {
        Ok(Existing::Ours(live)) => Some(live),
        Ok(Existing::Nothing) => None,
        // Its end wakes us.
        Ok(Existing::Leaving) => return Followed::default(),
        // A take-over that is under way has made it.
        Ok(Existing::Foreign(message)) => {
            let left = left_by_olm(subscription, context).map(|version| takes_over(subscription, &version));
            return nothing(Failure::prevented(left.unwrap_or(message)));
        }
        Err(error) => {
            let failure = Some(Failure::prevented(Chain(&error).to_string()));
            return Followed { failure, retry: Some(Class::Transient), ..Followed::default() };
        }
    };
    let group = match neighbours::membership(&unit, context) {
        Membership::One(group) => group,
        Membership::Unfit { reason, message } => {
            let failure = Some(Failure { reason, message });
            return Followed { deployment: live, failure, ..Followed::default() };
        }
    };
    if live.is_none()
        && let Some(version) = left_by_olm(subscription, context)
    {
        return nothing(Failure::prevented(takes_over(subscription, &version)));
    }
    if live.is_none() && is_uninstalled(subscription, &within(&context.plans, &unit.namespace)) {
        return Followed::default();
    }
    let wanted = wanted(subscription, live.as_deref(), context).await;
    install(&unit, (subscription, &group), wanted, live, context).await
}

/// The ClusterServiceVersion that the Subscription has installed, or had begun to, where that was by OLM: it does not speak of a
/// BundleDeployment, or of one that the Subscription does not have yet.
fn left_by_olm(subscription: &Subscription, context: &Context) -> Option<String> {
    let status = subscription.status.as_ref()?;
    let versions = within(&context.versions, &subscription.namespace().unwrap_or_default());
    let deployments = context.deployments.state();
    let is_begun = |uid: &String| is_of_nobody(&deployments, uid);
    let is_left = |version: &Arc<ClusterServiceVersion>| {
        let name = version.name_any();
        (name == status.installed_csv || name == status.current_csv)
            && version.annotations().get(DEPLOYMENT_UID).is_none_or(is_begun)
    };
    versions.into_iter().find(is_left).map(|version| version.name_any())
}

/// Whether the BundleDeployment of this UID is there, and no Subscription has it: a take-over is under way, there or back.
fn is_of_nobody(deployments: &[Arc<BundleDeployment>], uid: &str) -> bool {
    deployments.iter().any(|one| one.uid().as_deref() == Some(uid) && Unit::of(one).is_none())
}

/// What is to be done about a ClusterServiceVersion of OLM.
fn takes_over(subscription: &Subscription, version: &str) -> String {
    format!(
        "ClusterServiceVersion {version} was not made for a BundleDeployment, and is left as it is: rukpakctl migrate subscription/{} -n {} \
         --to subscription takes over what OLM has installed",
        subscription.name_any(),
        subscription.namespace().unwrap_or_default()
    )
}

/// Whether somebody has deleted what was installed: it is not made anew before its InstallPlan is deleted, too. `plans` are those of the
/// namespace.
fn is_uninstalled(subscription: &Subscription, plans: &[Arc<InstallPlan>]) -> bool {
    let unit = Unit::of_subscription(subscription);
    let referenced = subscription.status.as_ref().and_then(|status| status.install_plan_ref.as_ref());
    plans.iter().filter(|plan| has_installed(plan, &unit)).any(|plan| match referenced {
        Some(referenced) => plan.uid().as_ref() == Some(&referenced.uid),
        // It was deleted before anybody told of the InstallPlan, as it may be while nobody is there.
        None => {
            plan.spec.approved
                && plan.owner_references().iter().any(|owner| Some(&owner.uid) == subscription.uid().as_ref())
        }
    })
}

/// Whether something of the package may have been installed by an InstallPlan. One of OLM that is not done never will be: nobody carries
/// it out any more. What the Subscription named before is another package.
fn has_installed(plan: &InstallPlan, unit: &Unit) -> bool {
    if plan.annotations().contains_key(DEPLOYMENT_UID) {
        return plan.labels().contains_key(&component_label(&unit.package, &unit.namespace));
    }
    plan.status.as_ref().is_some_and(|status| status.phase == "Complete")
}

/// The bundle that the BundleDeployment is to install: what it installs already while that goes on, else what the catalog leads to.
async fn wanted(subscription: &Subscription, live: Option<&BundleDeployment>, context: &Context) -> Wanted {
    let seen = live.and_then(|live| Seen::of(live, &context.questions.state()));
    let kept = |failure, retry| {
        let bundle = seen.as_ref().map(|seen| seen.wanted.clone());
        let has_packages = live.is_some_and(has_packages);
        Wanted { bundle, has_packages, failure, advice: None, retry }
    };
    if seen.as_ref().is_some_and(|seen| !seen.stage.is_open() && !has_failed(subscription, seen, context)) {
        return kept(None, None);
    }
    let (source, space) = (&subscription.spec.source, &subscription.spec.source_namespace);
    let is_visible = *space == context.global || Some(space) == subscription.namespace().as_ref();
    let key = (space.clone(), source.clone());
    let catalogs = &context.catalogs;
    let package = match catalogs.known.health(&key) {
        Health::Ready { .. } if is_visible => {
            match catalogs.known.package(&key, &subscription.spec.name, &catalogs.news).await {
                Ok(package) => Some(package),
                Err(why) => {
                    let failure = Failure::prevented(format!("error using catalogsource {space}/{source}: {why}"));
                    return kept(Some(failure), Some(Class::Transient));
                }
            }
        }
        // Its health is told by another condition; what it says wakes us.
        Health::Unlooked if is_visible && exists(&key, context) => return kept(None, None),
        Health::Failed(why) if is_visible => {
            return kept(Some(Failure::prevented(format!("error using catalogsource {space}/{source}: {why}"))), None);
        }
        _ => None,
    };
    let dependent = Dependent::Subscription(subscription.namespace().unwrap_or_default(), subscription.name_any());
    let others = context.dependencies.installed_for(&dependent);
    let active = seen.as_ref().and_then(|seen| seen.active.as_ref());
    let offer = match &package {
        None => Offer::NoCatalog,
        Some(None) => Offer::NoPackage,
        Some(Some(package)) => Offer::Package(package),
    };
    let advice = advice(offer, &subscription.spec.channel, active.map(|active| active.name.as_str()));
    match choose(subscription, offer, active, &others) {
        Choice::Take { bundle, has_packages } => {
            context.dependencies.forget(&dependent);
            Wanted { bundle: Some(bundle), has_packages, failure: None, advice, retry: None }
        }
        Choice::Stay => {
            context.dependencies.forget(&dependent);
            let bundle = active.cloned().or_else(|| seen.as_ref().map(|seen| seen.wanted.clone()));
            let has_packages = live.is_some_and(has_packages);
            Wanted { bundle, has_packages, failure: None, advice, retry: None }
        }
        Choice::Refused(message) => Wanted { advice, ..kept(Some(Failure::unsatisfiable(message)), None) },
    }
}

/// Whether what is wanted was written, and was not healthy in time or is no more: a newer bundle may mend that.
fn has_failed(subscription: &Subscription, seen: &Seen, context: &Context) -> bool {
    let versions = within(&context.versions, &subscription.namespace().unwrap_or_default());
    let wanted = versions.iter().find(|version| version.name_any() == seen.wanted.name);
    let phase = wanted.and_then(|version| version.status.as_ref()).map(|status| status.phase.as_str());
    matches!(seen.stage, Stage::Unhealthy(_)) && phase == Some("Failed")
}

fn exists(key: &(String, String), context: &Context) -> bool {
    context.sources.get(&kube::runtime::reflector::ObjectRef::new(&key.1).within(&key.0)).is_some()
}

/// Whether the Subscription is in the cluster and stays, with its namespace. The watch may not have shown their end yet, and a namespace
/// ends kind by kind: what it had installed may be gone before its Subscription.
pub(super) async fn is_there(subscription: &Subscription, client: &Client) -> Result<bool, api::Error> {
    let space = subscription.namespace().unwrap_or_default();
    let found = staying(&Api::namespaced(client.clone(), &space), &subscription.name_any()).await?;
    let is_it = found.is_some_and(|found: PartialObjectMeta<Subscription>| found.uid() == subscription.uid());
    Ok(is_it && has_namespace(&space, client).await?)
}

/// Whether the namespace is in the cluster, and stays.
pub(super) async fn has_namespace(name: &str, client: &Client) -> Result<bool, api::Error> {
    Ok(staying(&Api::<Namespace>::all(client.clone()), name).await?.is_some())
}

/// Looks for an object that is not on its way out. It may be listed only: nothing here may get one.
async fn staying<K>(api: &Api<K>, name: &str) -> Result<Option<PartialObjectMeta<K>>, api::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let listed = api.list_metadata(&params).await?;
    Ok(listed.items.into_iter().find(|found| found.metadata.deletion_timestamp.is_none()))
}

/// Makes the BundleDeployment what it is to be.
async fn install(
    unit: &Unit,
    (subscription, group): (&Subscription, &Group),
    wanted: Wanted,
    live: Option<Arc<BundleDeployment>>,
    context: &Context,
) -> Followed {
    let Wanted { bundle, has_packages, failure, advice, retry } = wanted;
    let Some(bundle) = bundle else { return Followed { deployment: live, failure, advice, retry } };
    if context.requires_digests {
        let catalog = &subscription.spec.source;
        if let Err(tag) = image::require_digest(catalog, &bundle.name, Some(&bundle.reference)) {
            let failure = Some(Failure::unsatisfiable(tag.to_string()));
            return Followed { deployment: live, failure, advice, retry };
        }
    }
    // Nothing would ever delete what is made for one that is gone, with its InstallPlan.
    if live.is_none() {
        match is_there(subscription, &context.client).await {
            Ok(true) => {}
            Ok(false) => return Followed::default(),
            Err(error) => {
                let failure = Some(Failure::prevented(Chain(&error).to_string()));
                return Followed { deployment: None, failure, advice, retry: Some(class(&error)) };
            }
        }
    }
    let asked = (&subscription.spec, group);
    match deployment::apply(unit, asked, (&bundle, has_packages), live.as_ref(), context).await {
        Ok(applied) => Followed { deployment: Some(applied), failure, advice, retry },
        Err(error) => {
            let message = format!("BundleDeployment {} cannot be written: {}", unit.name(), Chain(&error));
            let failure = if error.is_conflict() { failure } else { Some(Failure::prevented(message)) };
            Followed { deployment: live, failure, advice, retry: Some(class(&error)) }
        }
    }
}

fn class(error: &api::Error) -> Class {
    match () {
        () if error.is_conflict() => Class::Conflict,
        () if error.is_transient() => Class::Transient,
        () => Class::Terminal,
    }
}

/// The CatalogSources that the Subscription may name, by namespace and name, and how they are.
fn sources(subscription: &Subscription, context: &Context) -> Vec<(Arc<CatalogSource>, Health)> {
    let own = subscription.namespace().unwrap_or_default();
    let mut sources = context.sources.state();
    sources.retain(|source| {
        source.meta().namespace.as_ref().is_some_and(|space| *space == own || *space == context.global)
    });
    sources.sort_by_key(|source| (source.namespace(), source.name_any()));
    let health = |source: Arc<CatalogSource>| {
        let key = (source.namespace().unwrap_or_default(), source.name_any());
        let health = context.catalogs.known.health(&key);
        (source, health)
    };
    sources.into_iter().map(health).collect()
}

/// The latest InstallPlan of the Subscription: of what is deployed now, if something is.
fn plan(
    subscription: &Subscription,
    deployment: Option<&BundleDeployment>,
    context: &Context,
) -> Option<Arc<InstallPlan>> {
    let uid = subscription.uid()?;
    let mut plans = within(&context.plans, &subscription.namespace().unwrap_or_default());
    plans.retain(|plan| plan.owner_references().iter().any(|owner| owner.uid == uid));
    let of = |plan: &Arc<InstallPlan>| plan.annotations().get(DEPLOYMENT_UID).cloned();
    if let Some(deployment) = deployment {
        plans.retain(|plan| of(plan) == deployment.uid());
    }
    plans.into_iter().max_by_key(|plan| plan.spec.generation)
}

/// Whether the InstallPlan that the status refers to is there. One of OLM may be that of several Subscriptions.
fn has_referenced(subscription: &Subscription, context: &Context) -> bool {
    let referenced = subscription.status.as_ref().and_then(|status| status.install_plan_ref.as_ref());
    let plans = within(&context.plans, &subscription.namespace().unwrap_or_default());
    referenced.is_some_and(|referenced| plans.iter().any(|plan| plan.uid().as_ref() == Some(&referenced.uid)))
}

/// Names of the ClusterServiceVersions of the namespace.
fn versions(subscription: &Subscription, context: &Context) -> Vec<String> {
    let versions = within(&context.versions, &subscription.namespace().unwrap_or_default());
    let there = versions.iter().filter(|version| version.meta().deletion_timestamp.is_none());
    there.map(|version| version.name_any()).collect()
}

#[cfg(test)]
mod tests {
    use rukpak_crds::olmv0::{NAMESPACE_LABEL, PACKAGE};
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::api_server;

    #[tokio::test]
    async fn a_subscription_is_there_until_it_is_another_one_or_on_its_way_out() {
        let spec = json!({"name": "p", "source": "c", "sourceNamespace": "olm"});
        let metadata = json!({"name": "s", "namespace": "ns", "uid": "u"});
        let subscription: Subscription = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let found = async |all: Value| {
            let listed = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": all});
            is_there(&subscription, &api_server(200, &listed).0).await.unwrap()
        };
        let one = |metadata: Value| json!([{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}]);
        assert!(found(one(metadata.clone())).await);
        assert!(!found(json!([])).await);
        assert!(!found(one(json!({"name": "s", "namespace": "ns", "uid": "v"}))).await);
        let leaving = json!({"name": "s", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(!found(one(leaving)).await);
    }

    #[test]
    fn a_deployment_is_of_nobody_until_it_says_whose_it_is() {
        let deployment = |uid: &str, labels: Value, annotations: Value| -> Arc<BundleDeployment> {
            let spec = json!({"provisionerClassName": "c",
                "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}});
            let metadata = json!({"name": "p.ns", "uid": uid, "labels": labels, "annotations": annotations});
            Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
        };
        let whose = (json!({NAMESPACE_LABEL: "ns"}), json!({PACKAGE: "p"}));
        let all = [deployment("made", json!({}), json!({})), deployment("handed", whose.0, whose.1)];
        let is_of_nobody = |uid: &str| is_of_nobody(&all, uid);
        assert!(is_of_nobody("made") && !is_of_nobody("handed"));
        assert!(!is_of_nobody("gone"), "what it left is nobody's take-over");
    }

    #[test]
    fn what_was_installed_by_a_plan_counts_as_deleted_as_long_as_that_is_there() {
        let subscription = |package: &str| -> Subscription {
            let spec = json!({"name": package, "source": "c", "sourceNamespace": "olm"});
            let status = json!({"installPlanRef": {"name": "i", "uid": "u"}, "lastUpdated": "2026-01-01T00:00:00Z"});
            let metadata = json!({"name": "s", "namespace": "ns", "uid": "s"});
            serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
        };
        let plan = |annotations: Value, phase: &str| -> Vec<Arc<InstallPlan>> {
            let spec = json!({"clusterServiceVersionNames": ["p.v1"], "approval": "Manual", "approved": false});
            let labels = json!({component_label("p", "ns"): ""});
            let metadata = json!({"name": "i", "uid": "u", "labels": labels, "annotations": annotations});
            let plan = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}});
            vec![Arc::new(serde_json::from_value(plan).unwrap())]
        };
        let of_ours = || plan(json!({DEPLOYMENT_UID: "u"}), "RequiresApproval");
        assert!(is_uninstalled(&subscription("p"), &of_ours()));
        assert!(!is_uninstalled(&subscription("q"), &of_ours()), "it names another package by now");
        assert!(!is_uninstalled(&subscription("p"), &[]));
        assert!(is_uninstalled(&subscription("p"), &plan(json!({}), "Complete")));
        let of_olm = plan(json!({}), "RequiresApproval");
        assert!(!is_uninstalled(&subscription("p"), &of_olm), "who waits for it would wait for ever");
    }
}
