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
