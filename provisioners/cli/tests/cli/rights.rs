//! `rukpakctl rights` and `policy`, without a cluster.

use serde_json::Value;

use crate::support::command;

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command(arguments).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn roles_are_named_after_the_deployment_and_bound_to_the_account() {
    let folder = tempfile::tempdir().unwrap();
    let manifests = folder.path().join("manifests");
    std::fs::create_dir(&manifests).unwrap();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n";
    std::fs::write(manifests.join("map.yaml"), map).unwrap();
    std::fs::write(manifests.join("ns.yaml"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n").unwrap();
    let bundle = folder.path().to_str().unwrap();

    let arguments = ["rights", bundle, "--name", "web", "--service-account", "shop/installer", "-o", "name"];
    let (code, names, _) = run(&arguments);
    assert_eq!(code, Some(0));
    let expected = "namespace/shop\nclusterrole.rbac.authorization.k8s.io/web-installer\n\
                    clusterrolebinding.rbac.authorization.k8s.io/web-installer\nrole.rbac.authorization.k8s.io/web-installer\n\
                    rolebinding.rbac.authorization.k8s.io/web-installer\n";
    assert_eq!(names, expected);

    let (_, json, talk) = run(&["rights", bundle, "-o", "json"]);
    assert!(talk.contains("note: the roles are bound to nobody; --service-account"), "{talk}");
    let objects: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(objects.len(), 3);
    assert_eq!(objects[2]["rules"][0]["verbs"], serde_json::json!(["create", "delete", "patch"]));

    let gadget = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g, namespace: shop}\n";
    std::fs::write(manifests.join("gadget.yaml"), gadget).unwrap();
    let (code, _, talk) = run(&["rights", bundle, "--kubeconfig", "/nowhere"]);
    assert_eq!(code, Some(2), "what only a cluster knows cannot be found out: {talk}");
    assert!(talk.contains("kind Gadget of example.com/v1"), "{talk}");
    let (code, _, talk) = run(&["rights", bundle, "--service-account", "installer"]);
    assert_eq!(code, Some(2), "{talk}");
}

#[test]
fn rights_that_lead_to_every_other_are_printed_only_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let manifests = folder.path().join("manifests");
    std::fs::create_dir(&manifests).unwrap();
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: all}\n\
                rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n";
    std::fs::write(manifests.join("role.yaml"), role).unwrap();
    let bundle = folder.path().to_str().unwrap();

    let (code, printed, talk) = run(&["rights", bundle, "--name", "web"]);
    assert_eq!((code, printed.as_str()), (Some(1), ""), "{talk}");
    assert!(talk.contains("as strong as a cluster administrator") && talk.contains("--allow-powerful"), "{talk}");
    let (code, printed, talk) = run(&["rights", bundle, "--name", "web", "--allow-powerful"]);
    assert_eq!(code, Some(0), "{talk}");
    assert!(printed.contains("kind: ClusterRole"), "{printed}");
}

#[test]
fn a_policy_is_read_strictly() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.yaml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    write("name: shop\nrules:\n- subjects: [{user: jane}]\n  names: [shop]\n");
    let (code, names, talk) = run(&["policy", path, "-o", "name"]);
    assert_eq!(code, Some(0), "{talk}");
    let group = "admissionregistration.k8s.io/rukpak-install-policy-shop";
    assert_eq!(names.lines().next(), Some(&*format!("validatingadmissionpolicy.{group}")));
    assert_eq!(names.lines().count(), 4);
    for (text, word) in [
        ("name: shop\nrules:\n- subjects: [{user: jane}]\n  names: [shop]\n  source: []\n", "unknown field `source`"),
        ("name: shop\nrules: []\n", "rules is empty"),
        ("name: shop\n---\nname: b\n", "2 documents"),
    ] {
        write(text);
        let (code, _, talk) = run(&["policy", path]);
        assert_eq!(code, Some(1), "{talk}");
        assert!(talk.contains(word), "{talk}");
    }
    assert_eq!(run(&["policy", "/nowhere.yaml"]).0, Some(2));
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rights/install-policy.yaml");
    assert_eq!(run(&["policy", example, "-o", "name"]).1.lines().count(), 4);
}
