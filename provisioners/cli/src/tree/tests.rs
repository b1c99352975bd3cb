use serde_json::{Value, json};

use super::*;

fn tree(unknown: &[&str]) -> Tree {
    let condition = json!({"type": "Ready", "status": "Unknown", "reason": "Unhealthy", "message": "Deployment\npump", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let source = json!({"type": "image", "image": {"ref": "example.com/pump:v1"}});
    let deployment = serde_json::from_value(json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "pump", "generation": 1},
        "spec": {"provisionerClassName": "p", "template": {"spec": {"provisionerClassName": "p", "source": source}}},
        "status": {"observedGeneration": 1, "activeBundle": "pump-1", "conditions": [condition]},
    }))
    .unwrap();
    let bundle = |name: &str, phase: &str| {
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
            "spec": {"provisionerClassName": "p", "source": source}, "status": {"phase": phase},
        }))
        .unwrap()
    };
    let object = |value: Value| serde_json::from_value::<DynamicObject>(value).unwrap();
    let objects = [
        object(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pumps"}, "status": {"phase": "Active"}}),
        ),
        object(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "pump", "namespace": "pumps", "generation": 2},
                      "spec": {"replicas": 1}, "status": {"observedGeneration": 1}}),
        ),
        object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pump", "namespace": "pumps"}})),
    ];
    let bundles = [bundle("pump-1", "Unpacked"), bundle("pump-2", "Failing")];
    let unknown = unknown.iter().map(|&line| line.to_owned()).collect();
    Tree::of(&deployment, &bundles, &objects, unknown, Timestamp::UNIX_EPOCH)
}

fn shown(tree: &Tree, is_wide: bool) -> String {
    let mut out = Vec::new();
    tree.text(&mut out, Palette::of(&tempfile::tempfile().unwrap()), is_wide).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn bundles_and_objects_have_a_line_each() {
    let wanted = "\
BundleDeployment pump   not Ready: Unhealthy: Deployment pump
├── Bundle pump-1   Unpacked, active
├── Bundle pump-2   Failing
├── ConfigMap pumps/pump   Current
├── Deployment pumps/pump   InProgress: Deployment generation is 2, but latest observed generation is 1
└── Namespace pumps   Current
";
    assert_eq!(shown(&tree(&[]), false), wanted);
    let wide = shown(&tree(&["Secret: forbidden\n"]), true);
    assert!(wide.contains("├── Bundle pump-1   Unpacked, active   example.com/pump:v1\n"), "{wide}");
    assert!(wide.contains("ConfigMap pumps/pump   Current: Resource is always ready\n"), "{wide}");
    assert!(wide.ends_with("\n└── ?   Secret: forbidden\n"), "{wide}");
}

#[test]
fn programs_get_what_people_get() {
    let answer = serde_json::to_value(tree(&[])).unwrap();
    assert_eq!((&answer["name"], &answer["ready"]), (&json!("pump"), &json!(false)));
    let bundle = json!({"name": "pump-1", "phase": "Unpacked", "isActive": true, "source": "example.com/pump:v1"});
    assert_eq!(answer["bundles"][0], bundle);
    let object = json!({"group": "apps", "kind": "Deployment", "namespace": "pumps", "name": "pump", "health": "InProgress",
                        "message": "Deployment generation is 2, but latest observed generation is 1"});
    assert_eq!(answer["objects"][1], object);
    assert!(answer.get("unknown").is_none(), "{answer:#}");
    let mut out = Vec::new();
    tree(&[]).names(&mut out).unwrap();
    let wanted = "bundledeployment.core.rukpak.io/pump\nbundle.core.rukpak.io/pump-1\nbundle.core.rukpak.io/pump-2\n\
                  configmap/pump\ndeployment.apps/pump\nnamespace/pumps\n";
    assert_eq!(String::from_utf8(out).unwrap(), wanted);
}
