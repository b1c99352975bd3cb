//! Whether what OLM v0 has can be taken over, and what somebody should know before. Pure.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_crds::names::BUNDLE_DEPLOYMENT_NAME_MAX;
use rukpak_crds::olmv0::subscription::{CARRIED_SETTINGS, IMAGE_PULL_SECRETS, MANUAL};
use serde_json::Value;

use super::olm::{Installed, TARGETS, definitions, list, text};
use crate::failure::Failure;

/// One that OLM reads and does nothing with.
const WITHOUT_EFFECT: &str = "selector";
/// Phases of an InstallPlan in which nothing is being done.
const AT_REST: [&str; 3] = ["Complete", "Failed", "RequiresApproval"];

#[derive(Debug)]
pub(super) struct Checked<'a> {
    pub csv: &'a DynamicObject,
    pub group: &'a DynamicObject,
    /// The namespaces that are watched; one empty name means all.
    pub targets: Vec<String>,
    /// Whether Subscription, InstallPlan and ClusterServiceVersion stay.
    pub stays: bool,
    pub notes: Vec<String>,
}

/// Checks everything that OLM's objects tell. `stays`: the Subscription does.
///
/// # Errors
/// The first reason why it cannot be taken over.
pub(super) fn check(installed: &Installed, stays: bool) -> Result<Checked<'_>, Failure> {
    let subscription = &installed.subscription;
    let csv = succeeded(installed)?;
    if let Some(plan) = installed.plans.iter().find(|plan| is_in_flight(plan)) {
        let phase = Some(text(plan, "/status/phase")).filter(|phase| !phase.is_empty()).unwrap_or("new");
        let text = format!("installplan {:?} is in flight ({phase}): wait until it is Complete", plan.name_any());
        return Err(Failure::no(text).hint(format!("kubectl -n {} get installplans", installed.namespace)));
    }
    one_owner(installed, csv)?;
    refuse_settings(subscription)?;
    let group = one_group(installed, stays)?;
    let targets = targets(installed, group, csv)?;
    let package = package(subscription);
    if package.is_empty() || (!stays && package.len() > BUNDLE_DEPLOYMENT_NAME_MAX) {
        return Err(Failure::no(format!(
            "package {package:?} cannot be the name of a BundleDeployment: that has 1 to {BUNDLE_DEPLOYMENT_NAME_MAX} characters"
        )));
    }
    let mut notes = Vec::new();
    if subscription.data.pointer(&format!("/spec/config/{WITHOUT_EFFECT}")).is_some() {
        notes.push(format!("spec.config.{WITHOUT_EFFECT} has no effect in OLM, and is left out"));
    }
    notes.extend(
        installed.plans.iter().filter(|plan| text(plan, "/status/phase") == "RequiresApproval").map(|plan| {
            format!("installplan {:?} waits for approval: nobody carries it out after this", plan.name_any())
        }),
    );
    notes.extend(dependents(installed, csv));
    if stays {
        notes.extend(pull_secrets(installed));
    }
    Ok(Checked { csv, group, targets, stays, notes })
}

/// What `rukpak-platform` does once it follows the Subscription: the Secrets of a catalog of its namespace are named in the operator's Pods.
fn pull_secrets(installed: &Installed) -> Option<String> {
    let source = installed.source.as_ref()?;
    let named = list(source, "/spec/secrets").iter().filter_map(Value::as_str);
    let config = carried(&installed.subscription);
    let own = config.get(IMAGE_PULL_SECRETS).and_then(Value::as_array);
    let has = |name: &str| own.into_iter().flatten().any(|own| own["name"] == name);
    let named: Vec<&str> = named.filter(|name| !name.contains('/') && !has(name)).collect();
    if named.is_empty() || source.metadata.namespace.as_ref() != Some(&installed.namespace) {
        return None;
    }
    let is_manual = text(&installed.subscription, "/spec/installPlanApproval") == MANUAL;
    let when = if is_manual { "once an InstallPlan is approved" } else { "once" };
    Some(format!(
        "after this the Pods are replaced {when}, for catalogsource {:?} has spec.secrets, which rukpak-platform names in them: {}",
        source.name_any(),
        named.join(", ")
    ))
}

/// The package that a Subscription is for: the name of everything that is made for it.
pub(super) fn package(subscription: &DynamicObject) -> &str {
    text(subscription, "/spec/name")
}

/// `spec.config`, as `deploymentConfig` has it.
pub(super) fn carried(subscription: &DynamicObject) -> serde_json::Map<String, Value> {
    let mut config = subscription.data.pointer("/spec/config").and_then(Value::as_object).cloned().unwrap_or_default();
    config.retain(|key, value| CARRIED_SETTINGS.contains(&key.as_str()) && !value.is_null());
    config
}

fn succeeded(installed: &Installed) -> Result<&DynamicObject, Failure> {
    let (subscription, space) = (&installed.subscription, &installed.namespace);
    let name = text(subscription, "/status/installedCSV");
    let hint = format!("kubectl -n {space} get subscriptions.operators.coreos.com,csv,installplans");
    if name.is_empty() {
        let text =
            format!("subscription {:?} has installed nothing: its installedCSV is empty", subscription.name_any());
        return Err(Failure::no(text).hint(hint));
    }
    let Some(csv) = &installed.csv else {
        let text = format!("clusterserviceversion {name:?}, which the subscription has installed, is not there");
        return Err(Failure::no(text).hint(hint));
    };
    let (phase, why) = (text(csv, "/status/phase"), text(csv, "/status/message"));
    if phase != "Succeeded" || csv.metadata.deletion_timestamp.is_some() {
        let phase = if csv.metadata.deletion_timestamp.is_some() { "being deleted" } else { phase };
        let text = format!("clusterserviceversion {name:?} is {phase:?} and not Succeeded: {why}");
        return Err(Failure::no(text).hint(hint));
    }
    let replaces = |other: &&DynamicObject| {
        other.metadata.namespace.as_ref() == Some(space) && text(other, "/spec/replaces") == name
    };
    if let Some(next) = installed.csvs.iter().find(replaces) {
        let text = format!("clusterserviceversion {:?} is replacing {name:?}: wait until it has", next.name_any());
        return Err(Failure::no(text).hint(hint));
    }
    Ok(csv)
}

/// Whether a plan is being carried out, or about to be. It may be about all operators of the namespace.
fn is_in_flight(plan: &DynamicObject) -> bool {
    let phase = text(plan, "/status/phase");
    let is_approved = plan.data.pointer("/spec/approved") == Some(&Value::Bool(true));
    !AT_REST.contains(&phase) || (phase == "RequiresApproval" && is_approved)
}

/// A CRD has one owner here.
fn one_owner(installed: &Installed, csv: &DynamicObject) -> Result<(), Failure> {
    let owned: BTreeSet<&str> = definitions(csv, "owned").collect();
    for other in installed.csvs.iter().filter(|other| other.metadata.uid != csv.metadata.uid) {
        if let Some(definition) = definitions(other, "owned").find(|name| owned.contains(name)) {
            let (space, name) = (other.namespace().unwrap_or_default(), other.name_any());
            let text = format!(
                "CRD {definition:?} is owned by clusterserviceversion {name:?} in namespace {space:?} as well: here a CRD has one owner"
            );
            return Err(Failure::no(text).hint("remove one of the two installations in OLM, whose CRDs stay, first"));
        }
    }
    Ok(())
}

fn refuse_settings(subscription: &DynamicObject) -> Result<(), Failure> {
    let config = subscription.data.pointer("/spec/config").and_then(Value::as_object);
    let is_known = |key: &str| CARRIED_SETTINGS.contains(&key) || key == WITHOUT_EFFECT;
    let unknown: Vec<String> = config
        .into_iter()
        .flatten()
        .filter(|(key, _)| !is_known(key))
        .map(|(key, _)| format!("spec.config.{key}"))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let text =
        format!("subscription {:?} has settings without counterpart: {}", subscription.name_any(), unknown.join(", "));
    Err(Failure::no(text).hint("take them out of the subscription first"))
}

/// With the rights of an account only what a Subscription has is installed.
fn one_group(installed: &Installed, stays: bool) -> Result<&DynamicObject, Failure> {
    let [group] = installed.groups.as_slice() else {
        let (count, space) = (installed.groups.len(), &installed.namespace);
        return Err(Failure::no(format!("namespace {space:?} has {count} OperatorGroups: OLM itself wants one")));
    };
    let account = text(group, "/spec/serviceAccountName");
    if !stays && !account.is_empty() {
        let text = format!(
            "operatorgroup {:?} has the operator installed with the rights of ServiceAccount {account:?}: PlatformOperators and \
             ClusterExtensions have no counterpart",
            group.name_any()
        );
        return Err(
            Failure::no(text).hint("--to subscription, or take spec.serviceAccountName out of the OperatorGroup first")
        );
    }
    Ok(group)
}

/// What the operator watches, if its Pods have been told so.
fn targets(installed: &Installed, group: &DynamicObject, csv: &DynamicObject) -> Result<Vec<String>, Failure> {
    let mut targets: Vec<String> =
        list(group, "/status/namespaces").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    targets.sort();
    targets.dedup();
    let told = csv.annotations().get(TARGETS);
    if targets.is_empty() || told != Some(&targets.join(",")) {
        let (name, space) = (group.name_any(), &installed.namespace);
        let text = format!(
            "operatorgroup {name:?} targets {targets:?}, and the ClusterServiceVersion has been told {told:?}: OLM is not done with it"
        );
        return Err(Failure::no(text).hint(format!("kubectl -n {space} get operatorgroups -o yaml")));
    }
    Ok(targets)
}

/// Subscriptions of the namespace whose operators need an API of this one.
fn dependents<'a>(installed: &'a Installed, csv: &'a DynamicObject) -> impl Iterator<Item = String> + use<'a> {
    let owned: BTreeSet<&str> = definitions(csv, "owned").collect();
    let name = installed.subscription.name_any();
    let others = installed.neighbours.iter().filter(move |other| other.name_any() != name);
    others.filter_map(move |other| {
        let installed_csv = text(other, "/status/installedCSV");
        let theirs = installed.csvs.iter().find(|csv| {
            csv.name_any() == installed_csv && csv.metadata.namespace.as_ref() == Some(&installed.namespace)
        })?;
        let needed = definitions(theirs, "required").find(|needed| owned.contains(needed))?;
        Some(format!(
            "subscription {:?} needs CRD {needed:?} of this operator: take it over as well before OLM runs again, which would look for \
             another provider",
            other.name_any()
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_of_a_catalog_of_the_namespace_are_told_to_replace_the_pods() {
        let told = |space: &str, secrets: Value, approval: &str| {
            let object = |value: Value| -> DynamicObject { serde_json::from_value(value).unwrap() };
            pull_secrets(&Installed {
                namespace: "ns".to_owned(),
                subscription: object(json!({"metadata": {"name": "s"}, "spec": {
                    "installPlanApproval": approval, "config": {"imagePullSecrets": [{"name": "own"}]}}})),
                csv: None,
                groups: Vec::new(),
                plans: Vec::new(),
                source: Some(object(
                    json!({"metadata": {"name": "c", "namespace": space}, "spec": {"secrets": secrets}}),
                )),
                csvs: Vec::new(),
                neighbours: Vec::new(),
            })
        };
        let note = told("ns", json!(["pull"]), "Automatic").expect("it is told");
        assert!(note.contains("replaced once,") && note.ends_with(": pull"), "{note}");
        assert!(told("ns", json!(["pull"]), "Manual").is_some_and(|note| note.contains("is approved")));
        assert_eq!(told("olm", json!(["pull"]), "Automatic"), None, "those of other namespaces are named nowhere");
        assert_eq!(told("ns", json!(["other/pull"]), "Automatic"), None);
        assert_eq!(told("ns", json!(["own"]), "Automatic"), None, "the Pods have it already");
        assert_eq!(told("ns", Value::Null, "Automatic"), None);
    }
}
