//! Rules on the Deployments of the CSV.

use std::collections::{BTreeMap, HashSet};

use super::dns::subdomain_problems;
use super::{Finding, Findings, Rule};
use crate::Bundle;

/// Groups that the API server itself serves and that have a dot in their name; no others are without one.
pub const BUILT_IN_GROUPS: [&str; 18] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

fn field(index: usize) -> String {
    format!("spec.install.spec.deployments[{index}].name")
}

/// The first position of each name for which `is_wanted` holds, by name.
fn places(bundle: &Bundle, mut is_wanted: impl FnMut(&str) -> bool) -> BTreeMap<&str, usize> {
    let mut places = BTreeMap::new();
    for (index, deployment) in bundle.csv.spec.install.spec.deployments.iter().enumerate() {
        if is_wanted(&deployment.name) {
            places.entry(deployment.name.as_str()).or_insert(index);
        }
    }
    places
}

pub(super) fn unique(bundle: &Bundle, findings: &mut Findings) {
    let mut seen = HashSet::new();
    let repeated = places(bundle, |name| !seen.insert(name.to_owned()));
    findings.extend(repeated.into_iter().map(|(name, index)| {
        let message = format!("cluster service version contains duplicate strategy deployment spec '{name}'");
        Finding::of_csv(bundle, Rule::DeploymentUnique, field(index), message)
    }));
}

pub(super) fn names(bundle: &Bundle, findings: &mut Findings) {
    let wrong = places(bundle, |name| !subdomain_problems(name).is_empty());
    findings.extend(wrong.into_iter().map(|(name, index)| {
        let problems = subdomain_problems(name).join(", ");
        let message = format!("invalid cluster service version strategy deployment name '{name}': {problems}");
        Finding::of_csv(bundle, Rule::DeploymentName, field(index), message)
    }));
}

pub(super) fn of_api_services(bundle: &Bundle, findings: &mut Findings) {
    let known: HashSet<&str> =
        bundle.csv.spec.install.spec.deployments.iter().map(|deployment| deployment.name.as_str()).collect();
    let owned = || bundle.csv.spec.api_services.owned.iter().enumerate();
    let lost = owned().filter(|(_, api)| !known.contains(api.deployment_name.as_str()));
    findings.extend(lost.map(|(index, api)| {
        let message = format!(
            "API service '{}.{}' references non-existent deployment '{}'",
            api.version, api.group, api.deployment_name
        );
        let field = format!("spec.apiservicedefinitions.owned[{index}].deploymentName");
        Finding::of_csv(bundle, Rule::ApiServiceDeployment, field, message)
    }));

    let taken = owned().filter(|(_, api)| is_of_kubernetes(&api.group));
    findings.extend(taken.map(|(index, api)| {
        let message = format!("API service '{}.{}' is of a group of Kubernetes itself", api.version, api.group);
        let field = format!("spec.apiservicedefinitions.owned[{index}].group");
        Finding::of_csv(bundle, Rule::ApiServiceGroup, field, message)
    }));
}

/// Whether a group is served by the API server itself: a further version of it would become the one that clients prefer.
fn is_of_kubernetes(group: &str) -> bool {
    !group.contains('.') || BUILT_IN_GROUPS.contains(&group)
}
