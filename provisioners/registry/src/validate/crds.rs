//! Rules on CRDs.

use std::collections::{BTreeMap, HashSet};

use super::{Finding, Findings, Rule};
use crate::Bundle;
use crate::crd::Crd;

pub(super) fn unique(bundle: &Bundle, findings: &mut Findings) {
    let mut seen = HashSet::new();
    let mut repeated = BTreeMap::new();
    for crd in &bundle.crds {
        if !seen.insert(crd.name()) {
            repeated.entry(crd.name()).or_insert(crd);
        }
    }
    findings.extend(repeated.into_iter().map(|(name, crd)| Finding {
        rule: Rule::CrdUnique,
        origin: crd.object.origin().clone(),
        field: Some("metadata.name".to_owned()),
        message: format!("bundle contains duplicate custom resource definition '{name}'"),
    }));
}

pub(super) fn shipped(bundle: &Bundle, findings: &mut Findings) {
    let shipped: HashSet<&str> = bundle.crds.iter().map(Crd::name).collect();
    let mut missing = BTreeMap::new();
    for (index, crd) in bundle.csv.spec.crds.owned.iter().enumerate() {
        if !shipped.contains(crd.name.as_str()) {
            missing.entry(crd.name.as_str()).or_insert(index);
        }
    }
    findings.extend(missing.into_iter().map(|(name, index)| {
        let field = format!("spec.customresourcedefinitions.owned[{index}].name");
        let message = format!(
            "cluster service definition references owned custom resource definition '{name}' not found in bundle"
        );
        Finding::of_csv(bundle, Rule::CrdShipped, field, message)
    }));
}
