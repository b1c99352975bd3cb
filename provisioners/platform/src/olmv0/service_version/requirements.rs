//! What has to be there for a version, as its status lists it. Pure; statuses and messages are OLM's.
//!
//! It is what the bundle says, and how far its BundleDeployment is: nothing is looked up. Kinds that are required have been found once
//! something is written; ServiceAccounts and their rights come with the bundle.

use std::collections::BTreeMap;

use kube::{Resource, ResourceExt};
use rukpak_crds::olmv0::ClusterServiceVersion;
use rukpak_crds::olmv0::service_version::{Api, Dependent, Permission, Requirement};

use super::super::stage::{Seen, Stage};

/// So many bytes of rules are told: a bundle may have more of them than a status can hold.
const RULES_MAX: usize = 64 << 10;

const PRESENT: &str = "Present";
const NOT_PRESENT: &str = "NotPresent";

/// What has to be there for `version`.
pub(super) fn requirements(version: &ClusterServiceVersion, seen: &Seen) -> Vec<Requirement> {
    let is_installed = version.name_any() != seen.wanted.name || seen.is_installed();
    let is_held = matches!(seen.stage, Stage::Held(_));
    let is_met = !is_held && (is_installed || matches!(seen.stage, Stage::Applying(_)));
    let spec = &version.spec;

    let kubernetes = Some(&spec.min_kube_version).filter(|oldest| !oldest.is_empty()).map(|oldest| {
        let (group, kind) = (ClusterServiceVersion::group(&()), ClusterServiceVersion::kind(&()));
        // What needs a newer Kubernetes is refused before there is a version.
        let message = format!("CSV minKubeVersion ({oldest}) less than server version");
        requirement((&*group, "v1alpha1", &*kind), &version.name_any(), (PRESENT, message.as_str()))
    });
    let owned = spec.definitions.owned.iter().map(|one| (one, is_installed && !is_lost(&one.name, seen)));
    let required = spec.definitions.required.iter().map(|one| (one, is_met));
    let definitions = owned.chain(required).map(|(one, is_there)| {
        let said = if is_there {
            (PRESENT, "CRD is present and Established condition is true")
        } else {
            (NOT_PRESENT, "CRD is not present")
        };
        requirement(("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), &one.name, said)
    });
    let met = if is_met { PRESENT } else { NOT_PRESENT };
    let api_service = |one: &Api, status| {
        let name = format!("{}.{}", one.version, one.group);
        requirement(("apiregistration.k8s.io", "v1", "APIService"), &name, (status, ""))
    };
    let needed = spec.api_services.required.iter().map(|one| api_service(one, met));
    // A bundle without that Deployment is refused.
    let served = spec.api_services.owned.iter().map(|one| api_service(one, "DeploymentFound"));
    let native = spec.native_apis.iter().map(|one| {
        let message = if is_met { "Native API exists" } else { "Native API does not exist" };
        let name = format!("{}.{}", one.version, one.group);
        requirement((one.group.as_str(), one.version.as_str(), one.kind.as_str()), &name, (met, message))
    });
    let all = kubernetes.into_iter().chain(definitions).chain(needed).chain(served).chain(native);
    all.chain(accounts(version, is_installed)).collect()
}

/// Whether somebody has deleted a definition of what is installed.
fn is_lost(name: &str, seen: &Seen) -> bool {
    matches!(&seen.stage, Stage::Lost { all, .. } if all.split([' ', ',', ';']).any(|word| word == name))
}

/// The ServiceAccounts, with their rights once they have them.
fn accounts(version: &ClusterServiceVersion, is_installed: bool) -> Vec<Requirement> {
    let mut accounts: BTreeMap<&str, Requirement> = BTreeMap::new();
    let mut left = RULES_MAX;
    let spec = &version.spec.install.spec;
    let namespaced = spec.permissions.iter().map(|permission| (permission, "namespaced"));
    let everywhere = spec.cluster_permissions.iter().map(|permission| (permission, "cluster"));
    for (Permission { service_account_name: name, rules }, scope) in namespaced.chain(everywhere) {
        let said = if is_installed { (PRESENT, "") } else { (NOT_PRESENT, "Service account does not exist") };
        let account = accounts.entry(name).or_insert_with(|| requirement(("", "v1", "ServiceAccount"), name, said));
        for rule in rules.iter().filter(|_| is_installed) {
            let Some(rest) = left.checked_sub(rule.len()) else { break };
            left = rest;
            account.dependents.push(Dependent {
                group: "rbac.authorization.k8s.io".to_owned(),
                version: "v1".to_owned(),
                kind: "PolicyRule".to_owned(),
                status: "Satisfied".to_owned(),
                message: format!("{scope} rule:{rule}"),
            });
        }
    }
    accounts.into_values().collect()
}

fn requirement((group, version, kind): (&str, &str, &str), name: &str, (status, message): (&str, &str)) -> Requirement {
    Requirement {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        status: status.to_owned(),
        message: message.to_owned(),
        dependents: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::installed::Identity;

    fn version(spec: &Value) -> ClusterServiceVersion {
        let mut all = json!({"displayName": "p"});
        if let (Some(all), Some(more)) = (all.as_object_mut(), spec.as_object()) {
            all.extend(more.clone());
        }
        serde_json::from_value(json!({"metadata": {"name": "v1", "namespace": "ns"}, "spec": all})).unwrap()
    }

    fn seen(is_installed: bool, stage: Stage) -> Seen {
        let identity = Identity { name: "v1".to_owned(), ..Identity::default() };
        Seen { wanted: identity.clone(), active: is_installed.then_some(identity), stage }
    }

    /// Kind, name and status of each.
    fn told(version: &ClusterServiceVersion, seen: &Seen) -> Vec<(String, String, String)> {
        requirements(version, seen).into_iter().map(|one| (one.kind, one.name, one.status)).collect()
    }

    fn rows(rows: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
        rows.iter().map(|(kind, name, status)| ((*kind).into(), (*name).into(), (*status).into())).collect()
    }

    #[test]
    fn everything_that_a_bundle_needs_is_listed_in_olms_order() {
        let definition = |name: &str| json!({"name": name, "version": "v1", "kind": "K"});
        let api = |group: &str| json!({"name": "things", "group": group, "version": "v1", "kind": "K"});
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]});
        let permission = |name: &str| json!({"serviceAccountName": name, "rules": [rule]});
        let csv = version(&json!({
            "minKubeVersion": "1.20.0",
            "customresourcedefinitions": {"owned": [definition("own.x")], "required": [definition("other.x")]},
            "apiservicedefinitions": {"owned": [api("mine")], "required": [api("theirs")]},
            "nativeAPIs": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
            "install": {"strategy": "deployment", "spec": {
                "permissions": [permission("b"), permission("a")], "clusterPermissions": [permission("a")]}},
        }));
        let (definition, service) = ("CustomResourceDefinition", "APIService");
        let waits = [
            ("ClusterServiceVersion", "v1", "Present"),
            (definition, "own.x", "NotPresent"),
            (definition, "other.x", "NotPresent"),
            (service, "v1.theirs", "NotPresent"),
            (service, "v1.mine", "DeploymentFound"),
            ("Deployment", "v1.apps", "NotPresent"),
            ("ServiceAccount", "a", "NotPresent"),
            ("ServiceAccount", "b", "NotPresent"),
        ];
        assert_eq!(told(&csv, &seen(false, Stage::Held("no other.x".to_owned()))), rows(&waits));
        let is_own = |kind: &str, name: &str| (kind, name) == (definition, "own.x") || kind == "ServiceAccount";
        let begun = waits.map(|(kind, name, status)| {
            (kind, name, if status == "NotPresent" && !is_own(kind, name) { "Present" } else { status })
        });
        assert_eq!(told(&csv, &seen(false, Stage::Applying(String::new()))), rows(&begun));
        let done =
            waits.map(|(kind, name, status)| (kind, name, if status == "NotPresent" { "Present" } else { status }));
        assert_eq!(told(&csv, &seen(true, Stage::Succeeded)), rows(&done));

        let all = requirements(&csv, &seen(true, Stage::Succeeded));
        let account = all.iter().find(|one| one.name == "a").expect("it is listed");
        let messages: Vec<&str> = account.dependents.iter().map(|one| one.message.as_str()).collect();
        let text = r#"rule:{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}"#;
        assert_eq!(messages, [format!("namespaced {text}"), format!("cluster {text}")]);
    }

    #[test]
    fn every_definition_that_was_deleted_is_not_present_and_others_are() {
        let lost: Vec<String> = (10..22).map(|number| format!("b{number}.x")).collect();
        let text = |names: &str| format!("CustomResourceDefinition {names} was deleted, with all objects of its kind");
        let why = text(&format!("{}, and 2 more", lost[..10].join(", ")));
        let stage = Stage::Lost { why, all: text(&lost.join(", ")) };

        let names = || std::iter::once("a.x").chain(lost.iter().map(String::as_str));
        let owned: Vec<Value> = names().map(|name| json!({"name": name, "version": "v1", "kind": "K"})).collect();
        let owned = json!({"customresourcedefinitions": {"owned": owned}});
        let status = |name: &str| if name == "a.x" { "Present" } else { "NotPresent" };
        let expected: Vec<_> = names().map(|name| ("CustomResourceDefinition", name, status(name))).collect();
        assert_eq!(told(&version(&owned), &seen(true, stage)), rows(&expected));
    }

    #[test]
    fn what_is_no_list_of_rights_hides_nothing_and_too_many_are_cut() {
        let odd = json!({"nativeAPIs": 5, "install": {"spec": {"permissions": "all"}}, "apiservicedefinitions": []});
        assert!(told(&version(&odd), &seen(true, Stage::Succeeded)).is_empty());
        let rule = json!({"apiGroups": ["x".repeat(1000)], "resources": ["*"], "verbs": ["*"]});
        let rules: Vec<&Value> = std::iter::repeat_n(&rule, 1000).collect();
        let many = json!({"install": {"spec": {"permissions": [{"serviceAccountName": "a", "rules": rules}]}}});
        let all = requirements(&version(&many), &seen(true, Stage::Succeeded));
        let length: usize = all[0].dependents.iter().map(|one| one.message.len()).sum();
        assert!(length > RULES_MAX / 2 && length < RULES_MAX + RULES_MAX / 10, "{length}");
    }
}
