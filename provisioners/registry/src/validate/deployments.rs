//! Rules on the Deployments of the CSV.

use std::collections::{BTreeMap, HashSet};

use super::dns::subdomain_problems;
use super::{Finding, Findings, Rule};
use crate::Bundle;

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
    let owned = bundle.csv.spec.api_services.owned.iter().enumerate();
    let lost = owned.filter(|(_, api)| !known.contains(api.deployment_name.as_str()));
    findings.extend(lost.map(|(index, api)| {
        let message = format!(
            "API service '{}.{}' references non-existent deployment '{}'",
            api.version, api.group, api.deployment_name
        );
        let field = format!("spec.apiservicedefinitions.owned[{index}].deploymentName");
        Finding::of_csv(bundle, Rule::ApiServiceDeployment, field, message)
    }));
}
