//! Rules on the package's name and on the manifests beside CSV and CRDs.

use rukpak_plain::Origin;

use super::{Finding, Findings, Rule};
use crate::Bundle;
use crate::metadata::PACKAGE;

/// Kinds that bundles may have, by name alone, whatever their group, and whether they lie in a namespace. The list is the
/// reference's, which takes VerticalPodAutoscaler for cluster-scoped.
const KINDS: [(&str, bool); 22] = [
    ("ClusterServiceVersion", true),
    ("Service", true),
    ("ServiceAccount", true),
    ("Role", true),
    ("RoleBinding", true),
    ("PrometheusRule", true),
    ("ServiceMonitor", true),
    ("PodMonitor", true),
    ("Secret", true),
    ("ConfigMap", true),
    ("PodDisruptionBudget", true),
    ("NetworkPolicy", true),
    ("VerticalPodAutoscaler", true),
    ("CustomResourceDefinition", false),
    ("ClusterRole", false),
    ("ClusterRoleBinding", false),
    ("PriorityClass", false),
    ("ConsoleYAMLSample", false),
    ("ConsoleQuickStart", false),
    ("ConsoleCLIDownload", false),
    ("ConsoleLink", false),
    ("ConsolePlugin", false),
];

/// Whether a bundle may have objects of this kind.
pub fn is_supported_kind(kind: &str) -> bool {
    KINDS.iter().any(|(known, _)| *known == kind)
}

/// Whether objects of a supported kind get the install namespace.
pub(crate) fn is_namespaced(kind: &str) -> bool {
    KINDS.contains(&(kind, true))
}

pub(super) fn package(bundle: &Bundle, findings: &mut Findings) {
    if bundle.package().is_empty() {
        findings.extend([Finding {
            rule: Rule::PackageName,
            origin: Origin::made_from("metadata/annotations.yaml"),
            field: Some(format!("annotations[{PACKAGE:?}]")),
            message: "package name is empty".to_owned(),
        }]);
    }
}

pub(super) fn kinds(bundle: &Bundle, findings: &mut Findings) {
    let mut unsupported: Vec<_> = bundle.others.iter().filter(|other| !is_supported_kind(&other.kind)).collect();
    unsupported.sort_by_key(|other| &other.name);
    findings.extend(unsupported.into_iter().map(|other| Finding {
        rule: Rule::Kind,
        origin: other.origin.clone(),
        field: Some("kind".to_owned()),
        message: format!("unsupported resource \"{}\" with kind \"{}\"", other.name, other.kind),
    }));
}

pub(super) fn objects(bundle: &Bundle, findings: &mut Findings) {
    for other in bundle.others.iter().filter(|other| is_supported_kind(&other.kind)) {
        if let Err(error) = &other.object {
            let message = format!("{} {:?}: {error}", other.kind, other.name);
            findings.extend([Finding { rule: Rule::Object, origin: other.origin.clone(), field: None, message }]);
        }
    }
}
