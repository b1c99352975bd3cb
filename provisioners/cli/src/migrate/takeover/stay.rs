//! Where the Subscription stays: `rukpak-platform` goes on with the very objects that OLM has written. Each write is one that can be made
//! twice.
//!
//! ```text
//! plan       the InstallPlan that goes on                                                 pure
//! speak      ClusterServiceVersion and InstallPlan say which BundleDeployment they are of
//! hand       the BundleDeployment says whose it is: from then on the Subscription has it
//! let_go     all of that is unsaid, and what was asked since is withdrawn
//! say_again  the statuses are OLM's again
//! ```

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_crds::BundleDeployment;
use rukpak_crds::olmv0::{DEPLOYMENT_UID, NAMESPACE_LABEL, PACKAGE, PLANNED, VERSIONS};
use serde_json::{Value, json};

use super::super::{Done, remove};
use super::marks::owners;
use super::olm::{CLEANUP, Installed, V1ALPHA1, identity_of, list, text};
use super::record::{Record, Reference, State};
use super::version::{is_handed_over, same_version};
use crate::answer::DEPLOYMENTS;
use crate::cluster::Cluster;
use crate::failure::Failure;

/// The InstallPlan that has installed the ClusterServiceVersion, and nothing else: one of several Subscriptions cannot speak of one
/// BundleDeployment.
pub(super) fn plan<'a>(installed: &'a Installed, csv: &str) -> Option<&'a DynamicObject> {
    let uid = installed.subscription.metadata.uid.as_ref();
    let is_of = |plan: &&DynamicObject| {
        let names = list(plan, "/spec/clusterServiceVersionNames");
        names.len() == 1
            && names[0] == csv
            && text(plan, "/status/phase") == "Complete"
            && owners(&plan.metadata).any(|owner| Some(&owner.uid) == uid)
    };
    let generation = |plan: &&DynamicObject| plan.data.pointer("/spec/generation").and_then(Value::as_i64);
    installed.plans.iter().filter(is_of).max_by_key(generation)
}

/// Has ClusterServiceVersion and InstallPlan say which BundleDeployment they are of.
pub(super) async fn speak(cluster: &Cluster, record: &Record, deployment: &BundleDeployment) -> Result<(), Failure> {
    let (version, uid) = (Reference::of_value(&record.csv), deployment.uid());
    let Some((identity, live)) = version.find(cluster).await? else {
        return Err(Failure::no(format!("{} is gone, and it was to stay", version.name())).hint("go back by --back"));
    };
    // Only OLM would remove it, for objects that are the BundleDeployment's by now.
    let finalizers: Vec<&String> = live.finalizers().iter().filter(|finalizer| *finalizer != CLEANUP).collect();
    let metadata = json!({
        "uid": version.uid, "resourceVersion": live.resource_version(), "finalizers": finalizers,
        "annotations": {DEPLOYMENT_UID: uid},
    });
    cluster.merge_any(&identity, &json!({ "metadata": metadata })).await?;

    let Some(plan) = &record.plan else { return Ok(()) };
    if let Some((identity, _)) = Reference::of_value(plan).find(cluster).await? {
        let annotations = json!({DEPLOYMENT_UID: uid, PLANNED: format!("{} {}", version.name, record.image())});
        cluster.merge_any(&identity, &json!({"metadata": {"annotations": annotations}})).await?;
    }
    Ok(())
}

/// Hands the BundleDeployment over to the Subscription.
pub(super) async fn hand(
    cluster: &Cluster,
    record: &Record,
    deployment: &BundleDeployment,
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    let version = Reference::of_value(&record.csv);
    let versions = json!(BTreeMap::from([(version.name, version.uid)])).to_string();
    let annotations = json!({PACKAGE: record.subscription["spec"]["name"], VERSIONS: versions});
    let metadata = json!({
        "uid": deployment.uid(), "labels": {NAMESPACE_LABEL: record.namespace}, "annotations": annotations,
    });
    cluster.merge(&deployment.name_any(), &json!({ "metadata": metadata })).await?;
    done.push(Done { object: format!("{DEPLOYMENTS}/{}", deployment.name_any()), action: "handed over" });
    Ok(())
}

/// Takes the BundleDeployment from the Subscription, and has nothing speak of it any more.
pub(super) async fn let_go(cluster: &Cluster, record: &Record, done: &mut Vec<Done>) -> Result<(), Failure> {
    let name = record.deployment.name_any();
    if let Some(before) = cluster.deployment(&name).await? {
        let metadata = json!({"labels": {NAMESPACE_LABEL: null}, "annotations": {PACKAGE: null, VERSIONS: null}});
        let deployment = cluster.merge(&name, &json!({ "metadata": metadata })).await?;
        if let Some(failure) = same_version(record, &deployment).err().filter(|_| is_handed_over(&before)) {
            // An upgrade began meanwhile.
            hand(cluster, record, &deployment, &mut Vec::new()).await?;
            record.note(cluster, State::Done).await?;
            return Err(failure);
        }
        // Only now nobody makes another one.
        withdraw(cluster, record, &deployment, done).await?;
    }
    let nothing = json!({"metadata": {"annotations": {DEPLOYMENT_UID: null, PLANNED: null}}});
    for object in [Some(&record.csv), record.plan.as_ref()].into_iter().flatten() {
        let Some((identity, _)) = Reference::of_value(object).find(cluster).await? else { continue };
        cluster.merge_any(&identity, &nothing).await?;
    }
    Ok(())
}

/// Deletes the InstallPlans that were made for the BundleDeployment: OLM has no steps for them, and would take them for its own.
async fn withdraw(
    cluster: &Cluster,
    record: &Record,
    deployment: &BundleDeployment,
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    let Some(kind) = cluster.kind(V1ALPHA1, "InstallPlan").await? else { return Ok(()) };
    let all = cluster.all_of(&kind, Some(&record.namespace), "").await?;
    for plan in all.iter().filter(|plan| was_made_for(plan, record, deployment)) {
        remove(cluster, &identity_of(&kind, plan), &plan.uid().unwrap_or_default(), done).await?;
    }
    Ok(())
}

/// Whether an InstallPlan was made for the BundleDeployment: not the one that OLM had.
fn was_made_for(plan: &DynamicObject, record: &Record, deployment: &BundleDeployment) -> bool {
    let olms = record.plan.as_ref().map(|plan| Reference::of_value(plan).uid);
    deployment.uid().is_some_and(|uid| plan.annotations().get(DEPLOYMENT_UID) == Some(&uid)) && plan.uid() != olms
}

/// Has all of them say again what they said, once nobody but OLM writes it: OLM goes on by that, and its InstallPlan names the image.
pub(super) async fn say_again(cluster: &Cluster, record: &Record) -> Result<(), Failure> {
    for object in [Some(&record.subscription), Some(&record.csv), record.plan.as_ref()].into_iter().flatten() {
        if let Some((identity, _)) = Reference::of_value(object).find(cluster).await? {
            cluster.merge_status(&identity, &object["status"]).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_plan_that_goes_on_has_installed_this_version_for_this_subscription_alone() {
        let plan = |name: &str, generation: i64, csvs: Value, phase: &str, owner: &str| {
            let owner = json!([{"apiVersion": "v", "kind": "Subscription", "name": "s", "uid": owner}]);
            object(json!({"metadata": {"name": name, "ownerReferences": owner}, "status": {"phase": phase},
                "spec": {"generation": generation, "clusterServiceVersionNames": csvs}}))
        };
        let mut installed = Installed {
            namespace: "ns".to_owned(),
            subscription: object(json!({"metadata": {"name": "s", "uid": "u"}})),
            csv: None,
            groups: Vec::new(),
            plans: vec![
                plan("older", 1, json!(["p.v1"]), "Complete", "u"),
                plan("newer", 2, json!(["p.v1"]), "Complete", "u"),
                plan("waiting", 3, json!(["p.v1"]), "RequiresApproval", "u"),
                plan("upgrade", 4, json!(["p.v2"]), "Complete", "u"),
                plan("common", 5, json!(["p.v1", "q.v1"]), "Complete", "u"),
                plan("other", 6, json!(["p.v1"]), "Complete", "v"),
            ],
            source: None,
            csvs: Vec::new(),
            neighbours: Vec::new(),
        };
        let chosen = |installed: &Installed| super::plan(installed, "p.v1").map(kube::ResourceExt::name_any);
        assert_eq!(chosen(&installed).as_deref(), Some("newer"));
        installed.plans.retain(|plan| plan.name_any() == "common");
        assert_eq!(chosen(&installed), None);
    }

    #[test]
    fn what_was_planned_for_the_deployment_is_withdrawn_and_what_olm_planned_stays() {
        let plan = |uid: &str, said: Value| object(json!({"metadata": {"name": uid, "uid": uid, "annotations": said}}));
        let nothing: [Value; 0] = [];
        let deployment = json!({"metadata": {"name": "p.ns", "uid": "d"}, "spec": {"provisionerClassName": "p",
            "template": {"spec": {"provisionerClassName": "p", "source": {"type": "image"}}}}});
        let record: Record = serde_json::from_value(json!({
            "namespace": "ns", "subscription": {}, "csv": {}, "group": {}, "plan": {"metadata": {"uid": "olms"}},
            "taken": nothing, "made": nothing, "removed": nothing, "swept": nothing, "deployment": deployment,
        }))
        .unwrap();
        let is_withdrawn = |plan: &DynamicObject| was_made_for(plan, &record, &record.deployment);
        assert!(is_withdrawn(&plan("ours", json!({DEPLOYMENT_UID: "d"}))));
        assert!(!is_withdrawn(&plan("olms", json!({DEPLOYMENT_UID: "d"}))));
        assert!(!is_withdrawn(&plan("other", json!({DEPLOYMENT_UID: "e"}))));
        assert!(!is_withdrawn(&plan("waiting", json!({}))));
    }
}
