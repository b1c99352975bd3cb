//! InstallPolicies, and the CEL that is made of them, evaluated: API servers of the tests may be too old for it.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::HashMap;

use rukpak_rights::policy::{InstallPolicy, objects};
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
                {"configMaps": "shop-*"},
                "upload",
            ],
        },
        {
            "subjects": [{"user": "jane"}],
            "names": ["*"],
            "packages": [
                {"name": "pump-operator", "channels": ["stable"], "versions": ["1.*"]},
                {"name": "hello-operator"},
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
        let request = json!({"operation": self.operation, "resource": {"resource": self.resource},
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
            let made = value(&context, &variable["expression"]).unwrap();
            variables.insert(variable["name"].as_str().unwrap().to_owned(), made);
        }
        context.add_variable_from_value("variables", variables);
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
            of(
                &json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "shop-a"}}, {"configMap": {"name": "b"}}]}),
            ),
            false,
        ),
        (of(&image("registry.example.com/shopping/web:v1")), false),
        (of(&image("registryXexample.com/shop/web:v1")), false),
        (of(&image("evil.example.com/registry.example.com/shop/web:v1")), false),
        (of(&image("registry.example.com/shop/../web:v1")), false),
        (of(&json!({"type": "http", "http": {"url": "https://files.example.com/web.tgz"}})), false),
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

#[test]
fn packages_are_asked_for_by_channel_and_version() {
    let operator = |package: Value| json!({"metadata": {"name": "a"}, "spec": {"package": package}});
    let extension = |catalog: Value| json!({"metadata": {"name": "a"}, "spec": {"source": {"catalog": catalog}}});
    let name = "pump-operator";
    for (object, resource, expected) in [
        (operator(json!({"name": name, "channel": "stable", "version": "1.2.3"})), "platformoperators", true),
        (operator(json!({"name": "hello-operator"})), "platformoperators", true),
        (operator(json!({"name": name, "channel": "stable"})), "platformoperators", false),
        (operator(json!({"name": name, "channel": "beta", "version": "1.2.3"})), "platformoperators", false),
        (operator(json!({"name": name, "channel": "stable", "version": "1.2.3 || >=2"})), "platformoperators", false),
        (operator(json!({"name": "other"})), "platformoperators", false),
        (
            extension(json!({"packageName": name, "channels": ["stable"], "version": "1.2.3"})),
            "clusterextensions",
            true,
        ),
        (
            extension(json!({"packageName": name, "channels": ["stable", "beta"], "version": "1.2.3"})),
            "clusterextensions",
            false,
        ),
        (extension(json!({"packageName": name, "channels": [], "version": "1.2.3"})), "clusterextensions", false),
        (extension(json!({"packageName": name, "version": "1.2.3"})), "clusterextensions", false),
    ] {
        let jane = Request { user: "jane", groups: &[], operation: "CREATE", resource };
        assert_eq!(jane.allows(&object), expected, "{object}");
        let joe = Request { resource, ..DEVELOPER };
        assert!(!joe.allows(&object), "no rule for developers has packages: {object}");
    }
    let jane = Request { user: "jane", groups: &[], ..DEVELOPER };
    assert!(!jane.allows(&deployment("shop-web", Some("installer"), &image("registry.example.com/shop/web:v1"))));
}

#[test]
fn each_policy_denies_by_a_binding_and_fails_closed() {
    let all = objects(&policy()).unwrap();
    let [deployments, binding, packages, _] = all.as_slice() else { panic!("two policies: {all:?}") };
    assert_eq!(deployments["metadata"]["name"], "rukpak-install-policy-shop");
    assert_eq!(packages["metadata"]["name"], "rukpak-install-policy-shop-packages");
    assert_eq!(binding["spec"], json!({"policyName": "rukpak-install-policy-shop", "validationActions": ["Deny"]}));
    for policy in [deployments, packages] {
        assert_eq!(policy["spec"]["failurePolicy"], "Fail");
    }
}

#[test]
fn a_policy_for_nobody_is_none() {
    let mut policy = policy();
    policy.rules[0].subjects.clear();
    assert!(objects(&policy).unwrap_err().to_string().contains("no subjects"));
    policy.rules.clear();
    assert!(objects(&policy).is_err());
    for unknown in
        [json!({"name": "x", "rules": [], "default": "Deny"}), json!({"name": "x", "rules": [{"names": []}]})]
    {
        assert!(serde_json::from_value::<InstallPolicy>(unknown).is_err());
    }
}
