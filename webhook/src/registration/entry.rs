//! The entries for ConfigMaps, BundleDeployments and what others need, as they should be. Pure.

use rukpak_crds::names::{IGNORE_DEPENDENTS, NEEDED_BY};
use rukpak_crds::olmv0::NAMESPACE_LABEL;
use serde_json::{Value, json};

use crate::rules::needed::COLLECTORS;
use crate::{
    BUNDLE_PATH, BUNDLE_WEBHOOK, CONFIG_MAP_PATH, CONFIG_MAP_WEBHOOK, DEPLOYMENT_PATH, DEPLOYMENT_WEBHOOK, NEEDED_PATH,
    NEEDED_WEBHOOK,
};

/// ConfigMaps that Kubernetes, or OpenShift, publishes into every namespace. Pods mount them, the webhook's own included.
pub const PUBLISHED: [&str; 2] = ["kube-root-ca.crt", "openshift-service-ca.crt"];
/// The label with a Namespace's own name, which the API server sees to.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// What is asked of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Whose ConfigMaps are checked.
    pub namespace: String,
    /// Whether BundleDeployments without a ServiceAccount are checked as well.
    pub every_deployment: bool,
    /// The user name of the controller, which does not wait for the webhook to write a status.
    pub controller: String,
}

/// The entries that should be among `webhooks`; none where the entry for Bundles is missing, so that nobody says where the
/// webhook is.
pub fn wanted(webhooks: &[Value], asked: &Asked) -> Vec<Value> {
    let config_maps =
        client(webhooks, CONFIG_MAP_WEBHOOK, CONFIG_MAP_PATH).map(|client| of_config_maps(&client, &asked.namespace));
    let deployments =
        client(webhooks, DEPLOYMENT_WEBHOOK, DEPLOYMENT_PATH).map(|client| of_deployments(&client, asked));
    let needed = client(webhooks, NEEDED_WEBHOOK, NEEDED_PATH).map(|client| of_needed(&client));
    config_maps.into_iter().chain(deployments).chain(needed).collect()
}

/// The way to the webhook is that of the entry for Bundles.
fn client(webhooks: &[Value], name: &str, path: &str) -> Option<Value> {
    let mut client = find(webhooks, BUNDLE_WEBHOOK)?["clientConfig"].clone();
    if let Some(service) = client.get_mut("service") {
        service["path"] = json!(path);
    } else if let Some(url) = client["url"].as_str() {
        client["url"] = json!(url.replace(BUNDLE_PATH, path));
    }
    // Somebody else fills an emptied bundle, in all entries.
    let own = find(webhooks, name).and_then(|own| own["clientConfig"].get("caBundle"));
    if let Some(own) = own.filter(|_| client.get("caBundle").is_none()) {
        client["caBundle"] = own.clone();
    }
    Some(client)
}

/// Published ConfigMaps do not match, and all others fail closed.
fn of_config_maps(client: &Value, namespace: &str) -> Value {
    let names = PUBLISHED.map(|name| format!("'{name}'")).join(", ");
    // Where a collection is deleted the request has no name.
    let object = "(request.operation == 'DELETE' ? oldObject : object)";
    let conditions = json!([{
        "name": "not-published-by-the-cluster",
        "expression": format!("!({object}.metadata.name in [{names}])"),
    }]);
    let rules = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"],
        "resources": ["configmaps"], "scope": "Namespaced",
    }]);
    let mut entry = entry(CONFIG_MAP_WEBHOOK, client, &conditions, &rules);
    entry["namespaceSelector"] = json!({"matchLabels": {NAME_LABEL: namespace}});
    entry
}

/// An entry that fails closed.
fn entry(name: &str, client: &Value, conditions: &Value, rules: &Value) -> Value {
    json!({
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "matchConditions": conditions,
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "rules": rules,
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 10,
    })
}

/// Fails closed: who could keep the webhook from answering could install with the rights of others. BundleDeployments that name no
/// ServiceAccount do not wait for it, unless all have to name one.
///
/// A status is checked unless the controller itself writes it: those writes are many, and must not wait.
fn of_deployments(client: &Value, asked: &Asked) -> Value {
    let names = |object: &str| format!("{object} != null && has({object}.spec) && has({object}.spec.serviceAccount)");
    let marked = |object: &str| {
        format!(
            "{object} != null && has({object}.metadata.labels) && {} in {object}.metadata.labels",
            json!(NAMESPACE_LABEL)
        )
    };
    let is_asked = if asked.every_deployment {
        "true".to_owned()
    } else {
        let all = [names("object"), names("oldObject"), marked("object"), marked("oldObject")];
        all.map(|condition| format!("({condition})")).join(" || ")
    };
    let is_other = format!("request.userInfo.username != {}", json!(asked.controller));

    // API servers leave an empty subresource out of the request.
    let conditions = json!([{
        "name": "decides-what-is-installed",
        "expression": format!("has(request.subResource) && request.subResource == 'status' ? {is_other} : ({is_asked})"),
    }]);
    let rules = json!([{
        "apiGroups": ["core.rukpak.io"], "apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["bundledeployments", "bundledeployments/status"], "scope": "Cluster",
    }]);
    entry(DEPLOYMENT_WEBHOOK, client, &conditions, &rules)
}

/// Fails closed, and asks about nothing but what somebody needs: all else is deleted without the webhook, and so is what has lost its
/// owner, or has an owner who says that the others can do without it.
fn of_needed(client: &Value) -> Value {
    let annotations = "oldObject.metadata.annotations";
    let is_needed = format!("oldObject != null && has({annotations}) && '{NEEDED_BY}' in {annotations}");
    let is_said = format!("'{IGNORE_DEPENDENTS}' in {annotations} && {annotations}['{IGNORE_DEPENDENTS}'] == 'true'");
    let collectors = COLLECTORS.map(|name| format!("'{name}'")).join(", ");
    let rule = |group: &str, version: &str, resource: &str| {
        json!({
            "apiGroups": [group], "apiVersions": [version], "operations": ["DELETE"], "resources": [resource], "scope": "Cluster",
        })
    };
    let conditions = json!([
        {"name": "is-needed", "expression": format!("{is_needed} && !({is_said})")},
        {"name": "has-an-owner", "expression": format!("!(request.userInfo.username in [{collectors}])")},
    ]);
    let rules = json!([
        rule("core.rukpak.io", "v1alpha1", "bundledeployments"),
        rule("platform.openshift.io", "v1alpha1", "platformoperators"),
        rule("olm.operatorframework.io", "v1", "clusterextensions"),
    ]);
    entry(NEEDED_WEBHOOK, client, &conditions, &rules)
}

/// Whether the entries are there with all that they should say. Further fields are of API servers that know more than we.
pub fn are_there(webhooks: &[Value], wanted: &[Value]) -> bool {
    wanted.iter().all(|wanted| {
        let found = wanted["name"].as_str().and_then(|name| find(webhooks, name));
        let mut fields = wanted.as_object().into_iter().flatten();
        found.is_some_and(|found| {
            let is_unconditional = |entry: &Value| entry["matchConditions"].as_array().is_none_or(Vec::is_empty);
            (is_unconditional(found) || !is_unconditional(wanted))
                && fields.all(|(name, value)| found.get(name) == Some(value))
        })
    })
}

/// A merge patch that puts the entries in their places, or at the end.
pub fn patch(webhooks: &[Value], wanted: &[Value], resource_version: Option<&str>) -> Value {
    let mut webhooks = webhooks.to_vec();
    for wanted in wanted {
        match webhooks.iter_mut().find(|webhook| webhook["name"] == wanted["name"]) {
            Some(webhook) => *webhook = wanted.clone(),
            None => webhooks.push(wanted.clone()),
        }
    }
    json!({"metadata": {"resourceVersion": resource_version}, "webhooks": webhooks})
}

fn find<'a>(webhooks: &'a [Value], name: &str) -> Option<&'a Value> {
    webhooks.iter().find(|webhook| webhook["name"] == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundles(bundle: Option<&str>) -> Value {
        let service = json!({"name": "s", "namespace": "there", "path": BUNDLE_PATH, "port": 443});
        let mut entry = json!({"name": BUNDLE_WEBHOOK, "clientConfig": {"service": service}, "failurePolicy": "Fail"});
        if let Some(bundle) = bundle {
            entry["clientConfig"]["caBundle"] = json!(bundle);
        }
        entry
    }

    fn asked() -> Asked {
        Asked { namespace: "ns".to_owned(), every_deployment: false, controller: "controller".to_owned() }
    }

    fn config_maps(webhooks: &[Value]) -> Value {
        wanted(webhooks, &asked())[0].clone()
    }

    #[test]
    fn it_leads_where_the_entry_for_bundles_leads() {
        assert_eq!(wanted(&[], &asked()), Vec::<Value>::new());
        let entry = config_maps(&[bundles(Some("Y2E="))]);
        let service = json!({"name": "s", "namespace": "there", "path": "/validate-core-v1-configmap", "port": 443});
        assert_eq!(entry["clientConfig"], json!({"service": service, "caBundle": "Y2E="}));
        assert_eq!(entry["namespaceSelector"], json!({"matchLabels": {"kubernetes.io/metadata.name": "ns"}}));
        assert_eq!(entry["rules"][0]["operations"], json!(["CREATE", "DELETE"]));
        let outside = json!({"name": BUNDLE_WEBHOOK, "clientConfig": {"url": format!("https://h:1{BUNDLE_PATH}")}});
        let entry = config_maps(&[outside]);
        assert_eq!(entry["clientConfig"], json!({"url": "https://h:1/validate-core-v1-configmap"}));
    }

    #[test]
    fn published_config_maps_never_wait() {
        let entry = config_maps(&[bundles(None)]);
        assert_eq!(entry["failurePolicy"], "Fail");
    }

    /// An object of the namespace, with the metadata that decides.
    fn object(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": {"a": "b"}})
    }

    /// What the API server evaluates conditions over: `object` is null where something is deleted, `oldObject` where it is
    /// created, and a collection's deletion is asked about object by object, in a request without a name.
    fn request(operation: &str, name: &str, before: Option<&str>, after: Option<&str>) -> [(&'static str, Value); 3] {
        let request = json!({
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": operation, "name": name, "namespace": "ns",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "subResource": "",
            "userInfo": {"username": "system:serviceaccount:kube-system:root-ca-cert-publisher"}, "dryRun": false,
        });
        let value = |name: Option<&str>| name.map_or(Value::Null, object);
        [("request", request), ("oldObject", value(before)), ("object", value(after))]
    }

    /// What the one condition of an entry comes to.
    fn condition(entry: &Value, variables: [(&'static str, Value); 3]) -> cel::Value {
        let conditions = entry["matchConditions"].as_array().unwrap();
        let [condition] = conditions.as_slice() else { panic!("one condition: {conditions:?}") };
        evaluated(condition, variables)
    }

    fn evaluated(condition: &Value, variables: [(&'static str, Value); 3]) -> cel::Value {
        let program = cel::Program::compile(condition["expression"].as_str().unwrap()).unwrap();
        let mut context = cel::Context::default();
        for (name, value) in variables {
            context.add_variable(name, value).unwrap();
        }
        program.execute(&context).unwrap()
    }

    #[test]
    fn bundle_deployments_without_account_and_marks_wait_only_where_an_account_is_asked_for() {
        let of = |is_every| {
            let asked = Asked { every_deployment: is_every, ..asked() };
            wanted(&[bundles(Some("Y2E="))], &asked)[1].clone()
        };
        let entry = of(false);
        assert_eq!(entry["name"], "vbundledeployments.core.rukpak.io");
        assert_eq!(entry["clientConfig"]["service"]["path"], "/validate-core-rukpak-io-v1alpha1-bundledeployment");
        let with = json!({"metadata": {}, "spec": {"serviceAccount": {"name": "a", "namespace": "b"}}});
        let without = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"template": {}}});
        let marked = json!({"metadata": {"labels": {NAMESPACE_LABEL: "ns"}}, "spec": {"template": {}}});
        for (old, new, expected) in [
            (Value::Null, &with, true),
            (Value::Null, &without, false),
            (without.clone(), &without, false),
            (without.clone(), &with, true),
            (with.clone(), &without, true),
            (Value::Null, &marked, true),
            (marked.clone(), &without, true),
        ] {
            let text = format!("{old} {new}");
            let request = json!({"userInfo": {"username": "controller"}});
            let found = condition(&entry, [("request", request), ("oldObject", old), ("object", new.clone())]);
            assert_eq!(found, cel::Value::Bool(expected), "{text}");
        }
        for (user, is_asked) in [("controller", false), ("eve", true)] {
            let request = json!({"subResource": "status", "userInfo": {"username": user}});
            for entry in [&entry, &of(true)] {
                let variables =
                    [("request", request.clone()), ("oldObject", without.clone()), ("object", without.clone())];
                assert_eq!(condition(entry, variables), cel::Value::Bool(is_asked), "the status, by {user}");
            }
        }
        assert_eq!(entry["failurePolicy"], "Fail");
        assert_eq!(of(true)["failurePolicy"], "Fail");
        let mut conditional = of(true);
        conditional["matchConditions"] = json!([{"name": "x", "expression": "false"}]);
        let found = [bundles(None), conditional];
        assert!(!are_there(&found, &[of(true)]), "a condition of somebody else lets requests pass");
    }

    #[test]
    fn nothing_but_what_others_need_waits_for_the_webhook() {
        let entry = wanted(&[bundles(None)], &asked())[2].clone();
        assert_eq!((&entry["name"], &entry["failurePolicy"]), (&json!("vneeded.core.rukpak.io"), &json!("Fail")));
        let is_asked = |annotations: &Value, user: &str| {
            let old = json!({"metadata": {"name": "wells", "annotations": annotations}});
            let request = json!({"userInfo": {"username": user}});
            let holds = |index: usize| {
                let variables = [("request", request.clone()), ("oldObject", old.clone()), ("object", Value::Null)];
                evaluated(&entry["matchConditions"][index], variables) == cel::Value::Bool(true)
            };
            holds(0) && holds(1)
        };
        let needed = json!({NEEDED_BY: "ClusterExtension/p"});
        assert!(is_asked(&needed, "alice"));
        assert!(!is_asked(&json!({}), "alice"), "nobody needs it");
        assert!(is_asked(&json!({NEEDED_BY: "ClusterExtension/p", IGNORE_DEPENDENTS: "false"}), "alice"));
        assert!(!is_asked(&json!({NEEDED_BY: "ClusterExtension/p", IGNORE_DEPENDENTS: "true"}), "alice"));
        assert!(COLLECTORS.iter().all(|collector| !is_asked(&needed, collector)), "its owner was asked about");
    }

    #[test]
    fn the_condition_is_cel_and_leaves_out_what_is_published() {
        let entry = config_maps(&[bundles(None)]);
        let is_asked = |variables| condition(&entry, variables);
        let asked =
            [("kube-root-ca.crt", false), ("openshift-service-ca.crt", false), ("kube-root-ca", true), ("mine", true)];
        for (name, expected) in asked {
            for request in [
                request("CREATE", name, None, Some(name)),
                // `generateName`: the request need not have the name that the object has by then.
                request("CREATE", "", None, Some(name)),
                request("UPDATE", name, Some(name), Some(name)),
                request("DELETE", name, Some(name), None),
                request("DELETE", "", Some(name), None),
            ] {
                let text = format!("{request:?}");
                assert_eq!(is_asked(request), cel::Value::Bool(expected), "{text}");
            }
        }
    }

    #[test]
    fn an_emptied_bundle_is_left_to_whoever_fills_it() {
        let own = config_maps(&[bundles(Some("Y2E="))]);
        let emptied = [bundles(None), own.clone()];
        assert_eq!(config_maps(&emptied), own);
    }

    #[test]
    fn it_is_put_in_its_place_and_others_stay() {
        let other = json!({"name": "other", "matchConditions": [1]});
        let entry = config_maps(&[bundles(None)]);
        let before = [bundles(None), other.clone()];
        assert!(!are_there(&before, std::slice::from_ref(&entry)));
        let after = patch(&before, std::slice::from_ref(&entry), Some("7"));
        assert_eq!(after["metadata"]["resourceVersion"], "7");
        assert_eq!(after["webhooks"], json!([bundles(None), other, entry]));
        let webhooks = after["webhooks"].as_array().unwrap().clone();
        assert!(are_there(&webhooks, std::slice::from_ref(&entry)));

        let mut more = webhooks.clone();
        more[2]["ofTomorrow"] = json!("x");
        assert!(are_there(&more, std::slice::from_ref(&entry)));
        for (field, value) in [
            ("failurePolicy", json!("Ignore")),
            ("objectSelector", json!({"matchLabels": {"a": "b"}})),
            ("matchConditions", json!([])),
            ("namespaceSelector", json!({})),
        ] {
            let mut changed = webhooks.clone();
            changed[2][field] = value;
            assert!(!are_there(&changed, std::slice::from_ref(&entry)), "{field}");
            let restored = patch(&changed, std::slice::from_ref(&entry), None);
            assert_eq!(restored["webhooks"], after["webhooks"]);
        }
        // What the API server drops is not there.
        let mut dropped = webhooks;
        dropped[2].as_object_mut().unwrap().remove("matchConditions");
        assert!(!are_there(&dropped, std::slice::from_ref(&entry)));
    }
}
