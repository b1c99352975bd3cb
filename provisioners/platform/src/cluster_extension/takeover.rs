//! Extensions that operator-controller has installed: what it says of them, until their BundleDeployment has taken over. Pure.
//!
//! Its finalizers on the extension are the mark: nobody else sets them, and they are removed as soon as the objects are ours. Until then
//! its status is believed, and exactly what it installed is what the BundleDeployment is made for: no catalog is asked, and an upgrade
//! comes after that.

use kube::ResourceExt;
use rukpak_crds::ConditionStatus;
use rukpak_crds::condition::{Conditions as _, INSTALLED};
use rukpak_crds::olm::{ClusterExtension, UPSTREAM_FINALIZERS};

use crate::installed::Identity;

/// The bundle that operator-controller has installed; `None` if it has none, or everything is taken over.
pub(super) fn left(extension: &ClusterExtension) -> Option<Identity> {
    if !is_marked(extension) {
        return None;
    }
    let status = extension.status.as_ref()?;
    let bundle = &status.install.as_ref()?.bundle;
    let installed = status.conditions.find(INSTALLED).filter(|found| found.status == ConditionStatus::True)?;
    // Nothing else names the image: the release and the revision, which do, are not ours to read.
    let reference = installed.message.strip_prefix("Installed bundle ")?.strip_suffix(" successfully")?;
    Some(Identity {
        package: extension.spec.source.catalog.as_ref()?.package_name.clone(),
        name: bundle.name.clone(),
        version: bundle.version.clone(),
        reference: reference.to_owned(),
        release: bundle.release.clone(),
    })
}

/// Whether operator-controller had it.
pub(super) fn is_marked(extension: &ClusterExtension) -> bool {
    extension.finalizers().iter().any(|name| UPSTREAM_FINALIZERS.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn extension(finalizers: &Value, status: &Value) -> ClusterExtension {
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "e", "uid": "u", "finalizers": finalizers},
            "spec": {"namespace": "ns", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn only_what_operator_controller_says_to_be_installed_is_left() {
        let marks = json!(["olm.operatorframework.io/cleanup-unpack-cache"]);
        let status = |status: &str, message: &str| {
            json!({
                "install": {"bundle": {"name": "p.v1.0.0", "version": "1.0.0"}},
                "conditions": [{"type": "Installed", "status": status, "reason": "Succeeded", "message": message,
                                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            })
        };
        let good = status("True", "Installed bundle r.example/p@sha256:0a successfully");
        let [package, name, version, reference] =
            ["p", "p.v1.0.0", "1.0.0", "r.example/p@sha256:0a"].map(str::to_owned);
        let identity = Identity { package, name, version, reference, release: None };
        assert_eq!(left(&extension(&marks, &good)), Some(identity));
        assert_eq!(left(&extension(&json!([]), &good)), None, "ours");
        assert_eq!(left(&extension(&json!(["example.com/hold"]), &good)), None, "somebody's finalizer");
        assert_eq!(left(&extension(&marks, &status("False", "No bundle installed"))), None);
        assert_eq!(left(&extension(&marks, &status("True", "other words"))), None);
        assert_eq!(left(&extension(&marks, &json!({}))), None);
    }
}
