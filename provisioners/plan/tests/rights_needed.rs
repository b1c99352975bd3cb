//! From objects to rights, to rules, to roles.

use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind};
use rukpak_crds::ServiceAccountReference;
use rukpak_plan::rights::{Held, Rights, Rules, Scope, needed, roles, rules, text};
use rukpak_plan::{Identity, Kind};
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

fn object(
    group: &str,
    kind: &str,
    plural: &str,
    namespace: Option<&str>,
    name: &str,
    body: &Value,
) -> (Identity, Value) {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
    let kind = Kind { resource: Arc::new(resource), namespaced: namespace.is_some() };
    (Identity { kind, namespace: namespace.map(str::to_owned), name: name.to_owned() }, body.clone())
}

fn of(objects: &[(Identity, Value)]) -> Rights {
    needed(objects.iter().map(|(identity, body)| (identity, body)), Some("shop"))
}

/// What it takes, in words, without the line about finalizers.
fn lines(objects: &[(Identity, Value)]) -> Vec<String> {
    let mut lines = text(&rules(&of(objects)));
    let finalizers = "update bundledeployments/finalizers.core.rukpak.io \"shop\"";
    assert!(lines.iter().any(|line| line == finalizers), "{lines:?}");
    lines.retain(|line| line != finalizers);
    lines
}

fn cluster_role(name: &str, rules: &Value) -> (Identity, Value) {
    object(RBAC, "ClusterRole", "clusterroles", None, name, &json!({"rules": rules}))
}

fn role(name: &str, rules: &Value) -> (Identity, Value) {
    object(RBAC, "Role", "roles", Some("ns"), name, &json!({"rules": rules}))
}

fn binding(kind: &str, namespace: Option<&str>, role_kind: &str, role: &str) -> (Identity, Value) {
    let plural = format!("{}s", kind.to_lowercase());
    let body = json!({"roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role}});
    object(RBAC, kind, &plural, namespace, "b", &body)
}

#[test]
fn objects_are_created_changed_and_deleted_by_name() {
    let all = [
        object("", "ConfigMap", "configmaps", Some("ns"), "a", &json!({})),
        object("", "ConfigMap", "configmaps", Some("ns"), "b", &json!({})),
        object("", "ConfigMap", "configmaps", Some("other"), "a", &json!({})),
        object("", "Secret", "secrets", Some("ns"), "a", &json!({})),
        object("apps", "Deployment", "deployments", Some("ns"), "a", &json!({})),
        object("", "Namespace", "namespaces", None, "ns", &json!({})),
    ];
    assert_eq!(
        lines(&all),
        [
            "create, delete, patch namespaces \"ns\"",
            "create, delete, patch configmaps \"a\", \"b\" in namespace \"ns\"",
            "create, delete, patch secrets \"a\" in namespace \"ns\"",
            "create, delete, patch deployments.apps \"a\" in namespace \"ns\"",
            "create, delete, patch configmaps \"a\" in namespace \"other\"",
        ]
    );
    assert!(needed([], Some("shop")).is_empty(), "nothing takes nothing");
}

#[test]
fn whoever_makes_a_role_holds_its_rules() {
    let rules = json!([
        {"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"], "verbs": ["get"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]);
    assert_eq!(
        lines(&[
            cluster_role("c", &rules),
            role("r", &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "watch"]}]))
        ]),
        [
            "get, list deployments, pods",
            "get secrets \"s\"",
            "get, list deployments.apps, pods.apps",
            "create, delete, patch clusterroles.rbac.authorization.k8s.io \"c\"",
            "get /metrics",
            // Its `get` is held everywhere already.
            "watch pods in namespace \"ns\"",
            "create, delete, patch roles.rbac.authorization.k8s.io \"r\" in namespace \"ns\"",
        ]
    );
}

#[test]
fn a_broader_rule_makes_others_superfluous() {
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let objects = [cluster_role("c", &all), object("", "Secret", "secrets", Some("ns"), "a", &json!({}))];
    let found: Vec<String> = text(&rules(&of(&objects)));
    assert_eq!(found, ["* *.*"]);
}

#[test]
fn a_role_of_the_bundle_is_bound_by_its_rules_and_any_other_by_name() {
    let nothing = json!([]);
    // Verbs are sorted: `bind, create, delete` where the role itself is written, too.
    let bind = |line: &str| line.starts_with("bind");
    let own = [
        cluster_role("c", &nothing),
        role("r", &nothing),
        binding("ClusterRoleBinding", None, "ClusterRole", "c"),
        binding("RoleBinding", Some("ns"), "Role", "r"),
        binding("RoleBinding", Some("ns"), "ClusterRole", "c"),
    ];
    assert!(!lines(&own).iter().any(|line| bind(line)), "{:?}", lines(&own));
    let others = [
        // A Role of that name in another namespace is another role.
        role("r", &nothing),
        binding("RoleBinding", Some("kube-system"), "Role", "r"),
        binding("RoleBinding", Some("ns"), "ClusterRole", "view"),
        binding("ClusterRoleBinding", None, "ClusterRole", "system:auth-delegator"),
    ];
    let mut bound = lines(&others);
    bound.retain(|line| bind(line));
    assert_eq!(
        bound,
        [
            "bind clusterroles.rbac.authorization.k8s.io \"system:auth-delegator\"",
            "bind roles.rbac.authorization.k8s.io \"r\" in namespace \"kube-system\"",
            "bind clusterroles.rbac.authorization.k8s.io \"view\" in namespace \"ns\"",
        ]
    );
}

#[test]
fn an_aggregated_role_is_escalated_and_bound_by_name() {
    let (identity, _) = cluster_role("c", &json!([]));
    let body = json!({"aggregationRule": {"clusterRoleSelectors": []}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let objects = [(identity, body), binding("ClusterRoleBinding", None, "ClusterRole", "c")];
    assert_eq!(
        lines(&objects),
        [
            "create, delete, patch clusterrolebindings.rbac.authorization.k8s.io \"b\"",
            "bind, create, delete, escalate, patch clusterroles.rbac.authorization.k8s.io \"c\"",
        ]
    );
}

/// Whoever holds the printed rules lacks nothing, and without any one of them exactly that one.
#[test]
fn the_rules_are_enough_and_none_is_too_many() {
    let objects = [
        cluster_role("c", &json!([{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "*"]}])),
        role("r", &json!([{"apiGroups": ["*"], "resources": ["leases"], "verbs": ["get"]}])),
        binding("RoleBinding", Some("ns"), "ClusterRole", "view"),
        object("", "Service", "services", Some("ns"), "a", &json!({})),
        object("example.com", "Pump", "pumps", Some("other"), "p", &json!({})),
    ];
    let needed = of(&objects);
    let all = rules(&needed);
    let held = |rules: &Rules| {
        let mut held = Held::default();
        for (scope, rules) in rules {
            held.add(scope, rules);
        }
        held
    };
    assert!(held(&all).lacks(&needed).is_empty());
    let mut tried = 0;
    for (scope, of_scope) in &all {
        for (index, rule) in of_scope.iter().enumerate() {
            let mut fewer = all.clone();
            fewer.get_mut(scope).unwrap().remove(index);
            let lacks = rules(&held(&fewer).lacks(&needed));
            assert_eq!(lacks, Rules::from([(scope.clone(), vec![rule.clone()])]));
            tried += 1;
        }
    }
    assert_eq!(tried, 9);
}

#[test]
fn roles_are_bound_to_the_account() {
    let objects = [
        object("", "ConfigMap", "configmaps", Some("ns"), "a", &json!({})),
        object("", "Namespace", "namespaces", None, "ns", &json!({})),
    ];
    let rules = rules(&of(&objects));
    let account = ServiceAccountReference { name: "installer".to_owned(), namespace: "there".to_owned() };
    let found = roles(&rules, "shop-installer", Some(&account));
    let kinds: Vec<(&str, Option<&str>)> = found
        .iter()
        .map(|object| (object["kind"].as_str().unwrap(), object["metadata"]["namespace"].as_str()))
        .collect();
    let expected =
        [("ClusterRole", None), ("ClusterRoleBinding", None), ("Role", Some("ns")), ("RoleBinding", Some("ns"))];
    assert_eq!(kinds, expected);
    assert!(found.iter().all(|object| object["metadata"]["name"] == "shop-installer"));
    let subject = json!({"kind": "ServiceAccount", "name": "installer", "namespace": "there"});
    assert_eq!(found[3]["subjects"], json!([subject]));
    assert_eq!(found[3]["roleRef"], json!({"apiGroup": RBAC, "kind": "Role", "name": "shop-installer"}));
    assert_eq!(roles(&rules, "x", None).len(), 2, "nobody to bind them to");
    assert_eq!(rules.keys().cloned().collect::<Vec<_>>(), [Scope::Cluster, Scope::Namespace("ns".to_owned())]);
}
