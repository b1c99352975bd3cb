//! InstallPolicies, and the CEL that is made of them, evaluated here for speed. The suite `tenants` has an API server evaluate it.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::HashMap;

use rukpak_plan::rights::policy::{InstallPolicy, Source, Subject, objects};
use serde_json::{Value, json};

fn policy() -> InstallPolicy {
    let document = json!({"name": "shop", "rules": [
        {
            "subjects": [{"group": "shop-developers"}, {"serviceAccount": {"namespace": "shop", "name": "ci"}}],
            "names": ["shop-*"],
            "serviceAccounts": [{"namespace": "shop", "name": "installer"}],
            "sources": [
                {"image": "registry.example.com/shop/*"},
                {"git": "https://git.example.com/shop/**"},
                {"http": "https://*.example.com/**"},
                {"configMaps": "shop-*"},
                "upload",
            ],
        },
        {
            "subjects": [{"user": "jane"}],
            "names": ["*"],
            "packages": [
                {"name": "pump-operator", "channels": ["stable"], "versions": ["1.*"], "namespaces": ["pumps-*"]},
                {"name": "hello-operator"},
                {"name": "valve-operator", "namespaces": ["valves"], "catalogs": ["valves"], "config": true},
            ],
        },
    ]});
    serde_json::from_value(document).unwrap()
}

/// A request, as the API server describes it to policies.
struct Request {
    user: &'static str,
    groups: &'static [&'static str],
    operation: &'static str,
    resource: &'static str,
}

const DEVELOPER: Request =
    Request { user: "joe", groups: &["shop-developers"], operation: "CREATE", resource: "bundledeployments" };

impl Request {
    /// Whether the policies let the object in; those that are not asked about its resource do.
    fn allows(&self, object: &Value) -> bool {
        let all = objects(&policy()).unwrap();
        let policies = all.iter().filter(|policy| policy["kind"] == "ValidatingAdmissionPolicy");
        let asked = policies.filter(|policy| {
            let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap();
            rules.iter().any(|rule| rule["resources"].as_array().unwrap().contains(&json!(self.resource)))
        });
        asked.map(|policy| self.passes(policy, object)).fold((true, 0), |(all, count), one| (all && one, count + 1))
            == (true, 1)
    }

    fn passes(&self, policy: &Value, object: &Value) -> bool {
        let request = json!({"operation": self.operation, "resource": {"resource": self.resource}, "subResource": "",
                             "userInfo": {"username": self.user, "groups": self.groups}});
        let (old, new) = match self.operation {
            "DELETE" => (object.clone(), Value::Null),
            "CREATE" => (Value::Null, object.clone()),
            _ => (object.clone(), object.clone()),
        };
        let mut context = cel::Context::default();
        for (name, value) in [("request", request), ("object", new), ("oldObject", old)] {
            context.add_variable(name, value).unwrap();
        }
        let value = |context: &cel::Context<'_, '_>, expression: &Value| {
            let program = cel::Program::compile(expression.as_str().unwrap()).unwrap();
            program.execute(context)
        };
        let mut variables: HashMap<String, cel::Value> = HashMap::new();
        for variable in policy["spec"]["variables"].as_array().unwrap() {
            // One that cannot be evaluated is an error for who uses it, and for nobody else.
            if let Ok(made) = value(&context, &variable["expression"]) {
                variables.insert(variable["name"].as_str().unwrap().to_owned(), made);
            }
            context.add_variable_from_value("variables", variables.clone());
        }
        let [rule] = policy["spec"]["validations"].as_array().unwrap().as_slice() else { panic!("one rule") };
        // What cannot be evaluated is refused, as failurePolicy says.
        value(&context, &rule["expression"]).is_ok_and(|value| value == cel::Value::Bool(true))
    }
}

fn deployment(name: &str, account: Option<&str>, source: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name}, "spec": {"template": {"spec": {"source": source}}}});
    if let Some(account) = account {
        object["spec"]["serviceAccount"] = json!({"namespace": "shop", "name": account});
    }
    object
}

fn git(repository: &str) -> Value {
    json!({"type": "git", "git": {"repository": repository}})
}

fn http(url: &str) -> Value {
    json!({"type": "http", "http": {"url": url}})
}

fn image(reference: &str) -> Value {
    json!({"type": "image", "image": {"ref": reference}})
}

#[test]
fn tenants_install_what_their_rule_allows() {
    let good = image("registry.example.com/shop/web:v1");
    let account = Some("installer");
    let of = |source: &Value| deployment("shop-web", account, source);
    for (object, expected) in [
        (of(&good), true),
        (of(&json!({"type": "git", "git": {"repository": "https://git.example.com/shop/team/web.git"}})), true),
        (of(&json!({"type": "upload", "upload": {}})), true),
        (of(&json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "shop-a"}}]})), true),
        (
            of(&json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "shop-a"}, "kind": "Secret"}]})),
            false,
        ),
        (
            of(
                &json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "shop-a"}}, {"configMap": {"name": "b"}}]}),
            ),
            false,
        ),
        (of(&image("registry.example.com/shopping/web:v1")), false),
        (of(&image("registryXexample.com/shop/web:v1")), false),
        (of(&image("evil.example.com/registry.example.com/shop/web:v1")), false),
        (of(&image("registry.example.com/shop/../web:v1")), false),
        (of(&http("https://files.example.com/web.tgz")), true),
        // Another place than the text says at first sight.
        (of(&git("https://git.example.com/shop/../other/repo.git")), false),
        (of(&git("https://git.example.com/shop/%2e%2e/other/repo.git")), false),
        (of(&git(r"https://git.example.com/shop/..\other\repo.git")), false),
        (of(&git("https://git.example.com/shop/\t../other/repo.git")), false),
        (of(&http(r"https://evil.com\.example.com/x/y.tgz")), false),
        (of(&http("https://evil.com#.example.com/x/y.tgz")), false),
        (of(&http("https://evil.com?.example.com/x/y.tgz")), false),
        (
            of(
                &json!({"type": "git", "git": {"repository": "https://evil.com/x"}, "image": {"ref": "registry.example.com/shop/web:v1"}}),
            ),
            false,
        ),
        (deployment("web", account, &good), false),
        (deployment("shop-web", Some("other"), &good), false),
        (deployment("shop-web", None, &good), false),
    ] {
        assert_eq!(DEVELOPER.allows(&object), expected, "{object}");
        let update = Request { operation: "UPDATE", ..DEVELOPER };
        assert_eq!(update.allows(&object), expected, "update: {object}");
        let ci = Request { user: "system:serviceaccount:shop:ci", groups: &[], ..DEVELOPER };
        assert_eq!(ci.allows(&object), expected, "by a ServiceAccount: {object}");
        let other = Request { user: "admin", groups: &["system:masters"], ..DEVELOPER };
        assert!(other.allows(&object), "whom no rule names RBAC alone limits: {object}");
    }
    let delete = Request { operation: "DELETE", ..DEVELOPER };
    assert!(delete.allows(&deployment("shop-web", None, &image("x"))), "their own, whatever it became");
    assert!(!delete.allows(&deployment("web", account, &good)), "somebody else's");
    let bundle = Request { resource: "bundles", ..DEVELOPER };
    assert!(!bundle.allows(&json!({"metadata": {"name": "shop-web"}, "spec": {"source": good}})));
}

const NAME: &str = "pump-operator";

fn jane(resource: &'static str) -> Request {
    Request { user: "jane", groups: &[], operation: "CREATE", resource }
}

fn operator(package: &Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"package": package}})
}

/// A ClusterExtension that the policy allows, as API servers complete it, with changes to its spec.
fn extension(changes: &[(&str, Value)]) -> Value {
    let catalog = json!({"packageName": NAME, "channels": ["stable"], "version": "1.2.3", "upgradeConstraintPolicy": "CatalogProvided"});
    let source = json!({"sourceType": "Catalog", "catalog": catalog});
    let mut object = json!({"metadata": {"name": "a"}, "spec": {"namespace": "pumps-1", "source": source}});
    for (path, value) in changes {
        let (parent, field) = path.rsplit_once('/').unwrap();
        object["spec"].pointer_mut(parent).unwrap()[field] = value.clone();
    }
    object
}

#[test]
fn packages_are_asked_for_by_channel_and_version() {
    for (package, expected) in [
        (json!({"name": NAME, "channel": "stable", "version": "1.2.3"}), true),
        (json!({"name": "hello-operator"}), true),
        (json!({"name": NAME, "channel": "stable"}), false),
        (json!({"name": NAME, "channel": "beta", "version": "1.2.3"}), false),
        (json!({"name": NAME, "channel": "stable", "version": "1.2.3 || >=2"}), false),
        (json!({"name": "other"}), false),
        (json!({"name": "hello-operator", "catalog": "mine"}), false),
        (json!({"name": "valve-operator", "catalog": "valves"}), true),
        (json!({"name": "valve-operator", "catalog": "mine"}), false),
        (json!({"name": "valve-operator"}), false),
        (json!({"name": "hello-operator", "ofTomorrow": "x"}), false),
    ] {
        let object = operator(&package);
        assert_eq!(jane("platformoperators").allows(&object), expected, "{object}");
        let joe = Request { resource: "platformoperators", ..DEVELOPER };
        assert!(!joe.allows(&object), "no rule for developers has packages: {object}");
    }
    let delete = |resource| Request { operation: "DELETE", ..jane(resource) };
    let deployment = deployment("shop-web", Some("installer"), &image("registry.example.com/shop/web:v1"));
    assert!(!jane("bundledeployments").allows(&deployment));
    assert!(!delete("bundledeployments").allows(&deployment), "no rule for her has sources");
    assert!(delete("clusterextensions").allows(&extension(&[])));
}

#[test]
fn extensions_are_bounded_in_all_that_decides_what_runs() {
    let volume = json!({"deploymentConfig": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}});
    let config = json!({"configType": "Inline", "inline": volume});
    let safety = |enforcement: &str| json!({"preflight": {"crdUpgradeSafety": {"enforcement": enforcement}}});
    let selector = |labels: Value| json!({"matchLabels": labels});
    let of_valves = selector(json!({"olm.operatorframework.io/metadata.name": "valves"}));
    let valves = vec![
        ("/source/catalog/packageName", json!("valve-operator")),
        ("/namespace", json!("valves")),
        ("/source/catalog/selector", of_valves),
    ];
    let with = |mut all: Vec<(&'static str, Value)>, more: &[(&'static str, Value)]| {
        all.extend(more.iter().cloned());
        all
    };
    for (changes, expected) in [
        (vec![], true),
        (vec![("/install", safety("Strict"))], true),
        (vec![("/serviceAccount", json!({"name": "ignored"}))], true),
        (vec![("/progressDeadlineMinutes", json!(10))], true),
        (vec![("/namespace", json!("kube-system"))], false),
        (vec![("/namespace", json!("pumps"))], false),
        (vec![("/config", config.clone())], false),
        (vec![("/install", safety("None"))], false),
        (vec![("/source/catalog/upgradeConstraintPolicy", json!("SelfCertified"))], false),
        (vec![("/source/catalog/selector", selector(json!({"mine": "yes"})))], false),
        (vec![("/source/catalog/channels", json!(["stable", "beta"]))], false),
        (vec![("/source/catalog/channels", json!([]))], false),
        (vec![("/source/catalog/version", json!(">=1"))], false),
        (vec![("/source/catalog/packageName", json!("other"))], false),
        (vec![("/source/catalog/ofTomorrow", json!(true))], false),
        (vec![("/source/ofTomorrow", json!(true))], false),
        (vec![("/ofTomorrow", json!(true))], false),
        (valves.clone(), true),
        (with(valves.clone(), &[("/config", config)]), true),
        (with(valves.clone(), &[("/source/catalog/selector", selector(json!({"mine": "yes"})))]), false),
        (
            with(
                valves.clone(),
                &[("/source/catalog/selector", selector(json!({"olm.operatorframework.io/metadata.name": "mine"})))],
            ),
            false,
        ),
        (with(valves.clone(), &[("/source/catalog/selector", json!({"matchExpressions": []}))]), false),
        (with(valves, &[("/namespace", json!("pumps-1"))]), false),
    ] {
        let object = extension(&changes);
        assert_eq!(jane("clusterextensions").allows(&object), expected, "{object}");
    }
    let mut object = extension(&[]);
    object["spec"].as_object_mut().unwrap().remove("namespace");
    assert!(!jane("clusterextensions").allows(&object), "the bundle would choose the namespace");
}

#[test]
fn what_says_what_packages_are_is_no_tenants() {
    let catalog = json!({"metadata": {"name": "mine"}, "spec": {"priority": 1000, "source": {"type": "Image", "image": {"ref": "x/y"}}}});
    for operation in ["CREATE", "UPDATE", "DELETE"] {
        assert!(!Request { operation, ..jane("clustercatalogs") }.allows(&catalog), "{operation}");
        let policies = Request { operation, resource: "contentpolicies", ..DEVELOPER };
        assert!(!policies.allows(&json!({"metadata": {"name": "shop-x"}, "spec": {}})), "{operation}");
    }
    let set = json!({"metadata": {"name": "shop-x"}, "spec": {"lifecycleState": "Active", "revision": 1}});
    for operation in ["CREATE", "UPDATE", "DELETE"] {
        for somebody in [jane("clusterobjectsets"), DEVELOPER] {
            let sets = Request { operation, resource: "clusterobjectsets", ..somebody };
            assert!(!sets.allows(&set), "{operation}");
        }
    }
    let admin = Request { user: "admin", groups: &["system:masters"], ..jane("clustercatalogs") };
    assert!(admin.allows(&catalog));
}

#[test]
fn each_policy_denies_by_a_binding_behind_it_and_fails_closed() {
    let all = objects(&policy()).unwrap();
    let [deployments, packages, of_deployments, of_packages] = all.as_slice() else { panic!("two policies: {all:?}") };
    for (policy, binding, name) in [
        (deployments, of_deployments, "rukpak-install-policy-shop"),
        (packages, of_packages, "rukpak-install-policy-shop-packages"),
    ] {
        assert_eq!((&policy["metadata"]["name"], &policy["kind"]), (&json!(name), &json!("ValidatingAdmissionPolicy")));
        assert_eq!(policy["spec"]["failurePolicy"], "Fail");
        assert_eq!(binding["spec"], json!({"policyName": name, "validationActions": ["Deny"]}));
    }
}

/// A policy with so many rules like that of developers, for one group each.
fn many(rules: usize) -> InstallPolicy {
    let mut policy = policy();
    let rule = policy.rules.remove(0);
    policy.rules = (0..rules)
        .map(|index| {
            let mut rule = rule.clone();
            rule.subjects = vec![Subject::Group(format!("developers-of-team-{index}"))];
            rule.names = vec![format!("team-{index}-*")];
            rule
        })
        .collect();
    policy
}

#[test]
fn a_policy_that_an_api_server_refuses_is_not_made() {
    let all = objects(&many(179)).unwrap();
    for policy in &all {
        let variables = policy["spec"]["variables"].as_array().into_iter().flatten();
        let longest = variables.map(|variable| variable["expression"].as_str().unwrap().len()).max().unwrap_or(0);
        assert!(longest < 100_000 && policy.to_string().len() < 256 << 10, "{longest}");
    }
    let error = objects(&many(1_000)).unwrap_err().to_string();
    assert!(error.contains("bytes, more than the 260000 that kubectl apply takes"), "{error}");

    let mut policy = policy();
    policy.rules[0].sources = vec![Source::Image(format!("registry.example.com/{}", "x".repeat(100_000)))];
    let error = objects(&policy).unwrap_err().to_string();
    assert!(error.contains("characters, more than the 100000 that the CEL of API servers takes"), "{error}");
}

#[test]
fn a_pattern_that_is_none_is_named_with_its_rule() {
    let mut policy = policy();
    policy.rules[1].names.clear();
    policy.rules[0].sources.push(Source::Git("https://**.example.com/x".to_owned()));
    let error = objects(&policy).unwrap_err().to_string();
    assert!(error.starts_with("rules[0]: pattern \"https://**.example.com/x\": ** stands before the path"), "{error}");
}

#[test]
fn a_policy_for_nobody_is_none() {
    let mut policy = policy();
    policy.rules[0].subjects.clear();
    assert!(objects(&policy).unwrap_err().to_string().contains("rules[0].subjects is empty"));
    policy.rules.clear();
    assert!(objects(&policy).is_err());
    for unknown in
        [json!({"name": "x", "rules": [], "default": "Deny"}), json!({"name": "x", "rules": [{"names": []}]})]
    {
        assert!(serde_json::from_value::<InstallPolicy>(unknown).is_err());
    }
}
