//! The objects that are made. Pure.

use kube::ResourceExt as _;
use rukpak_crds::{BundleDeployment, PlatformOperatorSpec, config, names};
use serde_json::{Map, Value, json};

/// A bundle of a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Package {
    pub(crate) name: String,
    /// Version of the bundle, as the catalog writes it.
    pub(crate) version: String,
}

/// A ClusterExtension for what the BundleDeployment has installed: in its version, with its configuration.
pub(super) fn extension(deployment: &BundleDeployment, package: &Package, namespace: &str) -> Value {
    let mut spec = json!({
        "namespace": namespace,
        "source": {"sourceType": "Catalog", "catalog": {"packageName": package.name, "version": package.version}},
    });
    let inline = configuration(deployment);
    if !inline.is_empty() {
        spec["config"] = json!({"configType": "Inline", "inline": inline});
    }
    let metadata = metadata(deployment);
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": metadata, "spec": spec})
}

/// A PlatformOperator for what the BundleDeployment has installed: in its version, and upgraded by nobody.
pub(super) fn operator(deployment: &BundleDeployment, package: &Package) -> Value {
    let mut spec = json!({"package": {"name": package.name, "version": package.version}});
    // Nobody gets rights because it changes hands.
    if PlatformOperatorSpec::default().changed_api_roles(Some(&deployment.spec)).is_some() {
        spec["apiRoles"] = json!(false);
    }
    let metadata = metadata(deployment);
    json!({"apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "metadata": metadata, "spec": spec})
}

/// The name of the BundleDeployment, and what its owner has said of dependencies.
fn metadata(deployment: &BundleDeployment) -> Value {
    let mut metadata = json!({"name": deployment.metadata.name});
    if let Some(said) = deployment.annotations().get(names::IGNORE_DEPENDENCIES) {
        metadata["annotations"] = json!({names::IGNORE_DEPENDENCIES: said});
    }
    metadata
}

/// Whether `there` says all that `wanted` says; what else it says is defaults.
pub(super) fn says_all(wanted: &Value, there: &Value) -> bool {
    match (wanted, there) {
        (Value::Object(wanted), Value::Object(there)) => {
            wanted.iter().all(|(key, value)| there.get(key).is_some_and(|there| says_all(value, there)))
        }
        _ => wanted == there,
    }
}

/// The user's part of `spec.config`.
fn configuration(deployment: &BundleDeployment) -> Map<String, Value> {
    let mut config = deployment.spec.config.clone().unwrap_or_default();
    config.retain(|key, _| !config::RESERVED.contains(&key.as_str()));
    config
}

#[cfg(test)]
mod tests {
    use rukpak_crds::olm::ClusterExtension;

    use super::*;

    #[test]
    fn what_is_installed_is_asked_for_with_the_users_configuration() {
        let mut deployment: BundleDeployment = serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment",
            "metadata": {"name": "pump", "annotations": {"core.rukpak.io/ignore-dependencies": "true", "other": "x"}},
            "spec": {"provisionerClassName": "a", "config": {"watchNamespace": "w", "installNamespace": "n", "objectLabels": {}},
                     "template": {"spec": {"provisionerClassName": names::CLASS_REGISTRY, "source": {"type": "image"}}}},
        }))
        .unwrap();
        let package = Package { name: "p".to_owned(), version: "1.0.0".to_owned() };
        let made = extension(&deployment, &package, "pumps");
        assert_eq!(made["spec"]["source"]["catalog"], json!({"packageName": "p", "version": "1.0.0"}));
        assert_eq!(made["spec"]["config"], json!({"configType": "Inline", "inline": {"watchNamespace": "w"}}));
        let typed: ClusterExtension = serde_json::from_value(made.clone()).unwrap();
        assert!(typed.spec.catalog().is_ok());
        assert_eq!(made["metadata"]["name"], "pump");
        let mut there = made.clone();
        there["spec"]["source"]["catalog"]["upgradeConstraintPolicy"] = json!("CatalogProvided");
        assert!(says_all(&made["spec"], &there["spec"]));
        there["spec"]["source"]["catalog"]["packageName"] = json!("q");
        assert!(!says_all(&made["spec"], &there["spec"]));
        let made = operator(&deployment, &package);
        assert_eq!(made["metadata"]["annotations"], json!({"core.rukpak.io/ignore-dependencies": "true"}));
        assert_eq!(made["spec"], json!({"package": {"name": "p", "version": "1.0.0"}, "apiRoles": false}));
        assert_eq!(made["kind"], "PlatformOperator");

        deployment.spec.config.as_mut().unwrap().insert(config::API_ROLES.to_owned(), json!(true));
        let inline = json!({"watchNamespace": "w", "apiRoles": true});
        assert_eq!(extension(&deployment, &package, "pumps")["spec"]["config"]["inline"], inline);
        let made = operator(&deployment, &package);
        assert_eq!(made["spec"], json!({"package": {"name": "p", "version": "1.0.0"}}), "it has its roles already");
    }
}
