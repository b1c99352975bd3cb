//! What the bundles of the sweep hold: small, with kinds of several phases, with a webhook's certificate where it is about one.

use rukpak_tests::ImageBuilder;
use serde_json::{Value, json};

use crate::sweep::stored;

/// A bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    One,
    Two,
    /// The first, with a definition of which objects are stored in a version that the second has no more.
    Stored,
    /// The second, with the definition that lacks that version.
    Dropped,
    /// The second, with an object that the API server refuses before anything is written.
    Refused,
    /// The second, with an object that is refused when the rest is applied.
    Broken,
}

impl Release {
    pub fn tag(self) -> &'static str {
        match self {
            Self::One => "v1",
            Self::Two => "v2",
            Self::Stored => "stored",
            Self::Dropped => "dropped",
            Self::Refused => "refused",
            Self::Broken => "broken",
        }
    }

    /// The objects, all in `namespace` or called like it.
    pub fn objects(self, namespace: &str) -> Vec<Value> {
        let is_first = matches!(self, Self::One | Self::Stored);
        let text = if is_first { "1" } else { "2" };
        let named = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        let mut map = named("v1", "ConfigMap", "a");
        map["data"] = json!({"version": text, text: "only here"});
        let mut secret = named("v1", "Secret", "s");
        secret["data"] = json!({"version": if is_first { "MQ==" } else { "Mg==" }});
        let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": namespace}});
        role["rules"] = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": [text]}]);
        let mut workload = named("apps/v1", "Deployment", "w");
        workload["spec"] = json!({"replicas": 0, "selector": {"matchLabels": {"app": "w"}}, "template": {
            "metadata": {"labels": {"app": "w"}},
            "spec": {"serviceAccountName": "sa", "containers": [{"name": "main", "image": format!("example.com/none:{text}")}]}}});
        let mut single = named("v1", "ConfigMap", if is_first { "old" } else { "new" });
        single["data"] = json!({"version": text});
        let mut objects = vec![map, secret, named("v1", "ServiceAccount", "sa"), role, workload, single];
        match self {
            Self::Refused => objects[0]["data"]["no key!"] = json!("refused"),
            Self::Broken => objects.extend(poison(namespace)),
            Self::Stored | Self::Dropped => objects.push(stored::definition(namespace, self == Self::Dropped)),
            Self::One | Self::Two => {}
        }
        objects
    }

    /// The image with a file for each object.
    pub fn image(self, namespace: &str) -> ImageBuilder {
        let files = self.objects(namespace).into_iter().enumerate();
        ImageBuilder::of_files(files.map(|(index, object)| (format!("manifests/{index}.yaml"), object.to_string())))
    }
}

/// A definition and an object that it refuses: no dry run can tell.
fn poison(namespace: &str) -> [Value; 2] {
    let group = format!("{namespace}.sweep.test");
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 1}}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let bad = json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget",
        "metadata": {"name": "bad", "namespace": namespace}, "spec": {"size": 0}});
    [definition, bad]
}
