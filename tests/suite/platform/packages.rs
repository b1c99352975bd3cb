//! Packages of our own: bundles, which hold a definition and settings, and the documents that catalogs have of them.

use rukpak_tests::verbs::Target;
use rukpak_tests::{Documents, ImageBuilder, Registry};
use serde_json::{Value, json};

/// Pairs of path and text.
pub type Files = Vec<(String, String)>;

/// Install modes with AllNamespaces.
pub const ALL: &str = "AllNamespaces";
/// Install modes without.
pub const OWN: &str = "OwnNamespace";

/// The API group of a package's kind, `Pump`.
pub fn group(package: &str) -> String {
    format!("{package}.example.rukpak.io")
}

/// Names the CRD that all bundles of `package` hold.
pub fn definition(package: &str) -> Target {
    let name = format!("pumps.{}", group(package));
    Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name)
}

/// Pushes a bundle of `package`; returns its reference.
pub async fn push(registry: &Registry, package: &str, version: &str, files: Files) -> String {
    let tag = format!("v{}", version.replace('+', "_"));
    let pushed = registry.push(package, &tag, &ImageBuilder::of_files(files)).await;
    pushed.expect("the registry takes it").reference
}

/// Pushes good bundles of `package`; returns the catalog in which each replaces the one before, and the images.
pub async fn chain(registry: &Registry, package: &str, versions: &[&str]) -> (Documents, Vec<String>) {
    let mut images = Vec::new();
    for version in versions {
        images.push(push(registry, package, version, bundle(package, version, ALL)).await);
    }
    let pairs: Vec<(&str, &str)> = versions.iter().copied().zip(images.iter().map(String::as_str)).collect();
    (Documents::package(package, &pairs), images)
}

/// A bundle of `package`: its namespace, a ServiceAccount, the kind `Pump` and the ConfigMap `settings` with the version. No
/// Deployment, as nobody would run it.
pub fn bundle(package: &str, version: &str, mode: &str) -> Files {
    let group = group(package);
    let annotations = json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": package,
        "operators.operatorframework.io.bundle.channels.v1": "stable",
    }});
    let rules = json!([{"apiGroups": [group], "resources": ["pumps"], "verbs": ["get"]}]);
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{package}.v{version}"),
            "annotations": {"operatorframework.io/suggested-namespace": format!("{package}-system")},
        },
        "spec": {
            "displayName": package, "version": version,
            "installModes": [{"type": mode, "supported": true}],
            "customresourcedefinitions": {"owned": [{"name": format!("pumps.{group}"), "kind": "Pump", "version": "v1"}]},
            "install": {"strategy": "deployment", "spec": {
                "clusterPermissions": [{"serviceAccountName": "pump-manager", "rules": rules}],
                "deployments": [],
            }},
        },
    });
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"version": version}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("pumps.{group}")},
        "spec": {
            "group": group, "scope": "Cluster",
            "names": {"kind": "Pump", "plural": "pumps", "singular": "pump", "listKind": "PumpList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    [
        ("metadata/annotations.yaml", annotations),
        ("manifests/csv.yaml", csv),
        ("manifests/settings.yaml", settings),
        ("manifests/pumps.yaml", definition),
    ]
    .map(|(path, value)| (path.to_owned(), value.to_string())) // JSON is YAML
    .into()
}

/// The Deployment of [`with_deployment`].
pub const DEPLOYMENT: &str = "pump";

/// The same bundle with a Deployment, which is not available before somebody plays the kubelet.
pub fn with_deployment(mut files: Files) -> Files {
    let template = json!({
        "metadata": {"labels": {"app": DEPLOYMENT}},
        "spec": {"containers": [{"name": "pump", "image": "registry.example/pump:v1"}]},
    });
    let deployment = json!({
        "name": DEPLOYMENT,
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": DEPLOYMENT}}, "template": template},
    });
    for (_, text) in &mut files {
        *text = text.replace("\"deployments\":[]", &format!("\"deployments\":[{deployment}]"));
    }
    files
}

/// The same bundle, which states the newest OpenShift that it supports.
pub fn supporting(mut files: Files, newest: &str) -> Files {
    let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": newest}]});
    files.push(("metadata/properties.yaml".to_owned(), properties.to_string()));
    files
}

/// A bundle whose ConfigMap no API server takes.
pub fn broken(package: &str, version: &str) -> Files {
    let mut files = bundle(package, version, ALL);
    for (_, text) in &mut files {
        *text = text.replace("\"name\":\"settings\"", "\"name\":\"settings\",\"labels\":{\"a\":\"no label!\"}");
    }
    files
}

/// `olm.package`.
pub fn package(name: &str, default_channel: &str) -> Value {
    json!({"schema": "olm.package", "name": name, "defaultChannel": default_channel})
}

/// `olm.channel`; entries as in a catalog.
#[expect(clippy::needless_pass_by_value, reason = "callers make the entries in place")]
pub fn channel(package: &str, name: &str, entries: Value) -> Value {
    json!({"schema": "olm.channel", "name": name, "package": package, "entries": entries})
}

/// `olm.bundle` called `<package>.v<version>`; `mode` is null where the catalog is silent.
pub fn entry(package: &str, version: &str, image: &str, mode: Option<&str>, further: &[Value]) -> Value {
    let mut properties = vec![json!({"type": "olm.package", "value": {"packageName": package, "version": version}})];
    properties.extend(mode.map(|mode| {
        let modes = [ALL, OWN].map(|each| json!({"type": each, "supported": each == mode}));
        json!({"type": "olm.csv.metadata", "value": {"displayName": package, "installModes": modes}})
    }));
    properties.extend(further.iter().cloned());
    json!({
        "schema": "olm.bundle", "name": format!("{package}.v{version}"), "package": package, "image": image,
        "properties": properties,
    })
}
