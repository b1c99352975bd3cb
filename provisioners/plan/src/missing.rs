//! Kinds that nobody serves, what needs them, and what is said of that.

use std::collections::BTreeSet;

use rukpak_plain::ObjectKey;

use crate::builtin::{Builtin, builtin};
use crate::kind::{Kind, MissingKind};

/// A kind that nobody serves, and what needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The kind.
    pub kind: MissingKind,
    /// What needs it.
    pub need: Need,
    /// The kind in another version, where that is served.
    pub served: Option<Kind>,
}

impl Missing {
    /// Whether the release is whole without it.
    pub fn is_optional(&self) -> bool {
        matches!(self.need, Need::Optional(_))
    }
}

/// What needs a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// An object of the bundle is of the kind.
    Object(ObjectKey),
    /// An object of the kind may be left out; it is installed when the kind is served.
    Optional(ObjectKey),
    /// The bundle says that it depends on it.
    Dependency,
}

/// A registry+v1 bundle that is taken for a plain one. Rendered as what it is, it has no such object.
const REGISTRY_HINT: &str = "with a ClusterServiceVersion in it this is a registry+v1 bundle: set provisionerClassName \
                             core-rukpak-io-registry in spec.template.spec; otherwise ";

/// Built-in API versions that newer API servers serve no more: since which minor release of Kubernetes 1, and what took their place
/// (the project's deprecation guide).
const REMOVED: [(&str, u32, &str); 21] = [
    ("admissionregistration.k8s.io/v1beta1", 22, "admissionregistration.k8s.io/v1"),
    ("apiextensions.k8s.io/v1beta1", 22, "apiextensions.k8s.io/v1"),
    ("apiregistration.k8s.io/v1beta1", 22, "apiregistration.k8s.io/v1"),
    ("apps/v1beta1", 16, "apps/v1"),
    ("apps/v1beta2", 16, "apps/v1"),
    ("authentication.k8s.io/v1beta1", 22, "authentication.k8s.io/v1"),
    ("authorization.k8s.io/v1beta1", 22, "authorization.k8s.io/v1"),
    ("autoscaling/v2beta1", 25, "autoscaling/v2"),
    ("autoscaling/v2beta2", 26, "autoscaling/v2"),
    ("batch/v1beta1", 25, "batch/v1"),
    ("certificates.k8s.io/v1beta1", 22, "certificates.k8s.io/v1"),
    ("coordination.k8s.io/v1beta1", 22, "coordination.k8s.io/v1"),
    ("discovery.k8s.io/v1beta1", 25, "discovery.k8s.io/v1"),
    ("events.k8s.io/v1beta1", 25, "events.k8s.io/v1"),
    ("extensions/v1beta1", 22, "apps/v1, networking.k8s.io/v1"),
    ("networking.k8s.io/v1beta1", 22, "networking.k8s.io/v1"),
    ("node.k8s.io/v1beta1", 25, "node.k8s.io/v1"),
    ("policy/v1beta1", 25, "policy/v1"),
    ("rbac.authorization.k8s.io/v1beta1", 22, "rbac.authorization.k8s.io/v1"),
    ("scheduling.k8s.io/v1beta1", 22, "scheduling.k8s.io/v1"),
    ("storage.k8s.io/v1beta1", 22, "storage.k8s.io/v1"),
];

fn removed(missing: &Missing) -> Option<String> {
    let is_of = |(version, ..): &&(&str, u32, &str)| *version == missing.kind.api_version;
    let (version, release, successor) = REMOVED.iter().find(is_of)?;
    Some(format!("Kubernetes 1.{release} and newer do not serve {version}: the bundle needs a version for {successor}"))
}

/// What is declared in a version that has ended. Kubernetes' own versions have words of their own: [`removed`].
fn moved(missing: &Missing) -> Option<String> {
    let MissingKind { kind, api_version } = &missing.kind;
    let served = &missing.served.as_ref()?.resource.api_version;
    Some(format!(
        "{kind} is served in {served}, not in {api_version}: the bundle needs a version for {served}, and until it has one such \
         objects stay as they are"
    ))
}

fn misspelt(missing: &Missing) -> Option<String> {
    let MissingKind { kind, api_version } = &missing.kind;
    let Builtin::Like(known) = builtin(missing.kind.group(), kind) else { return None };
    Some(format!("Kubernetes has no kind {kind} in {api_version}: is {known} meant?"))
}

/// What is missing, in the words of Helm, which clients of upstream know, and then the way out.
pub fn missing_text(missing: &[&Missing]) -> String {
    let line = |missing: &&Missing| match &missing.need {
        Need::Object(key) | Need::Optional(key) => format!(
            "resource mapping not found for name: {:?} namespace: {:?}: {}",
            key.name,
            key.namespace.as_deref().unwrap_or_default(),
            missing.kind
        ),
        Need::Dependency => format!("the bundle depends on an API that is not served: {}", missing.kind),
    };
    let is_of_registry_bundle = |missing: &&Missing| matches!(&missing.need, Need::Object(key) if key.group == "operators.coreos.com" && key.kind == "ClusterServiceVersion");
    let lines: Vec<String> = missing.iter().map(line).collect();
    let hint = if missing.iter().any(is_of_registry_bundle) { REGISTRY_HINT } else { "" };
    let ended = missing.iter().map(|missing| removed(missing).or_else(|| moved(missing)));
    let (gone, others): (Vec<_>, Vec<_>) = ended.partition(Option::is_some);
    let gone: BTreeSet<String> = gone.into_iter().flatten().collect();
    let mut ways: Vec<String> = gone.into_iter().collect();
    ways.extend(missing.iter().filter_map(|missing| misspelt(missing)).collect::<BTreeSet<_>>());
    if !others.is_empty() {
        ways.push(format!(
            "{hint}install what provides these kinds; this BundleDeployment continues by itself when they are served"
        ));
    }
    format!("[{}]: {}", lines.join(", "), ways.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(group: &str, kind: &str) -> Missing {
        let key = ObjectKey { group: group.to_owned(), kind: kind.to_owned(), namespace: None, name: "a".to_owned() };
        let kind = MissingKind { api_version: format!("{group}/v1alpha1"), kind: kind.to_owned() };
        Missing { kind, need: Need::Object(key), served: None }
    }

    #[test]
    fn nobody_is_told_to_wait_for_an_api_that_kubernetes_has_removed() {
        let old = |kind: &str| {
            let kind = MissingKind { api_version: "apiextensions.k8s.io/v1beta1".to_owned(), kind: kind.to_owned() };
            Missing { kind, ..missing("apiextensions.k8s.io", "CustomResourceDefinition") }
        };
        let (first, second) = (old("CustomResourceDefinition"), old("CustomResourceDefinition"));
        let way_out = "Kubernetes 1.22 and newer do not serve apiextensions.k8s.io/v1beta1: the bundle needs a version for \
                       apiextensions.k8s.io/v1";
        let message = missing_text(&[&first, &second]);
        assert!(message.ends_with(&format!("]: {way_out}")), "{message}");
        let message = missing_text(&[&first, &missing("example.com", "Pump")]);
        assert!(message.contains(&format!("]: {way_out}; install what provides these kinds")), "{message}");
    }

    #[test]
    fn a_misspelt_kind_of_kubernetes_is_recognized() {
        let mut typo = missing("apps", "Deploymnt");
        let message = missing_text(&[&typo, &typo]);
        let wanted = "]: Kubernetes has no kind Deploymnt in apps/v1alpha1: is Deployment meant?; install what";
        assert!(message.contains(wanted), "{message}");
        assert_eq!(message.matches("meant?").count(), 1, "said once: {message}");
        typo.kind.api_version = "example.com/v1".to_owned();
        assert!(!missing_text(&[&typo]).contains("meant?"));
    }

    #[test]
    fn a_registry_bundle_that_is_taken_for_a_plain_one_is_told_so() {
        let hint =
            "this is a registry+v1 bundle: set provisionerClassName core-rukpak-io-registry in spec.template.spec";
        let version = missing("operators.coreos.com", "ClusterServiceVersion");
        let other = missing("operators.coreos.com", "CatalogSource");
        let message = missing_text(&[&other, &version]);
        assert!(message.contains(hint), "{message}");
        assert!(message.contains("no matches for kind \"CatalogSource\" in version \"operators.coreos.com/v1alpha1\""));
        assert!(message.ends_with("continues by itself when they are served"), "{message}");
        let like = missing("example.com", "ClusterServiceVersion");
        for other in [other, like] {
            assert!(!missing_text(&[&other]).contains("registry"));
        }
    }
}
