//! The entry for ConfigMaps, as it should be. Pure.

use serde_json::{Value, json};

use crate::{BUNDLE_PATH, BUNDLE_WEBHOOK, CONFIG_MAP_PATH, CONFIG_MAP_WEBHOOK};

/// ConfigMaps that Kubernetes, or OpenShift, publishes into every namespace. Pods mount them, the webhook's own included.
pub const PUBLISHED: [&str; 2] = ["kube-root-ca.crt", "openshift-service-ca.crt"];
/// The label with a Namespace's own name. Since 1.21 the API server sees to it.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// How the published ConfigMaps are kept from waiting for a webhook that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// They do not match; all others fail closed.
    Conditions,
    /// The API server knows no conditions: nothing waits.
    FailOpen,
}

/// The entry that should be among `webhooks`; `None` where the entry for Bundles is missing, so that nobody says where the
/// webhook is.
pub fn wanted(webhooks: &[Value], namespace: &str, exclusion: Exclusion) -> Option<Value> {
    let mut client = find(webhooks, BUNDLE_WEBHOOK)?["clientConfig"].clone();
    if let Some(service) = client.get_mut("service") {
        service["path"] = json!(CONFIG_MAP_PATH);
    } else if let Some(url) = client["url"].as_str() {
        client["url"] = json!(url.replace(BUNDLE_PATH, CONFIG_MAP_PATH));
    }
    // Somebody else fills an emptied bundle, in both entries.
    let own = find(webhooks, CONFIG_MAP_WEBHOOK).and_then(|own| own["clientConfig"].get("caBundle"));
    if let Some(own) = own.filter(|_| client.get("caBundle").is_none()) {
        client["caBundle"] = own.clone();
    }
    let mut entry = json!({
        "name": CONFIG_MAP_WEBHOOK,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchLabels": {NAME_LABEL: namespace}},
        "objectSelector": {},
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"],
            "resources": ["configmaps"], "scope": "Namespaced",
        }],
        "sideEffects": "None",
        "timeoutSeconds": 10,
    });
    if exclusion == Exclusion::Conditions {
        let names = PUBLISHED.map(|name| format!("'{name}'")).join(", ");
        // Where a collection is deleted the request has no name.
        let object = "(request.operation == 'DELETE' ? oldObject : object)";
        entry["failurePolicy"] = json!("Fail");
        entry["matchConditions"] = json!([{
            "name": "not-published-by-the-cluster",
            "expression": format!("!({object}.metadata.name in [{names}])"),
        }]);
    }
    Some(entry)
}

/// Whether the entry is there with all that it should say. Further fields are of API servers that know more than we.
pub fn is_there(webhooks: &[Value], wanted: &Value) -> bool {
    let found = find(webhooks, CONFIG_MAP_WEBHOOK);
    let mut fields = wanted.as_object().into_iter().flatten();
    found.is_some_and(|found| fields.all(|(name, value)| found.get(name) == Some(value)))
}

/// A merge patch that puts the entry in its place, or at the end.
pub fn patch(webhooks: &[Value], wanted: &Value, resource_version: Option<&str>) -> Value {
    let mut webhooks = webhooks.to_vec();
    match webhooks.iter_mut().find(|webhook| webhook["name"] == CONFIG_MAP_WEBHOOK) {
        Some(webhook) => *webhook = wanted.clone(),
        None => webhooks.push(wanted.clone()),
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

    #[test]
    fn it_leads_where_the_entry_for_bundles_leads() {
        assert_eq!(wanted(&[], "ns", Exclusion::Conditions), None);
        let entry = wanted(&[bundles(Some("Y2E="))], "ns", Exclusion::Conditions).unwrap();
        let service = json!({"name": "s", "namespace": "there", "path": "/validate-core-v1-configmap", "port": 443});
        assert_eq!(entry["clientConfig"], json!({"service": service, "caBundle": "Y2E="}));
        assert_eq!(entry["namespaceSelector"], json!({"matchLabels": {"kubernetes.io/metadata.name": "ns"}}));
        assert_eq!(entry["rules"][0]["operations"], json!(["CREATE", "DELETE"]));
        let outside = json!({"name": BUNDLE_WEBHOOK, "clientConfig": {"url": format!("https://h:1{BUNDLE_PATH}")}});
        let entry = wanted(&[outside], "ns", Exclusion::Conditions).unwrap();
        assert_eq!(entry["clientConfig"], json!({"url": "https://h:1/validate-core-v1-configmap"}));
    }

    #[test]
    fn published_config_maps_never_wait() {
        let entry = wanted(&[bundles(None)], "ns", Exclusion::Conditions).unwrap();
        assert_eq!(entry["failurePolicy"], "Fail");
        let entry = wanted(&[bundles(None)], "ns", Exclusion::FailOpen).unwrap();
        assert_eq!((entry["failurePolicy"].as_str(), entry.get("matchConditions")), (Some("Ignore"), None));
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

    #[test]
    fn the_condition_is_cel_and_leaves_out_what_is_published() {
        let entry = wanted(&[bundles(None)], "ns", Exclusion::Conditions).unwrap();
        let conditions = entry["matchConditions"].as_array().unwrap();
        let [condition] = conditions.as_slice() else { panic!("one condition: {conditions:?}") };
        let program = cel::Program::compile(condition["expression"].as_str().unwrap()).unwrap();
        let is_asked = |variables: [(&'static str, Value); 3]| {
            let mut context = cel::Context::default();
            for (name, value) in variables {
                context.add_variable(name, value).unwrap();
            }
            program.execute(&context).unwrap()
        };
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
        let own = wanted(&[bundles(Some("Y2E="))], "ns", Exclusion::Conditions).unwrap();
        let emptied = [bundles(None), own.clone()];
        assert_eq!(wanted(&emptied, "ns", Exclusion::Conditions), Some(own));
    }

    #[test]
    fn it_is_put_in_its_place_and_others_stay() {
        let other = json!({"name": "other", "matchConditions": [1]});
        let entry = wanted(&[bundles(None)], "ns", Exclusion::Conditions).unwrap();
        let before = [bundles(None), other.clone()];
        assert!(!is_there(&before, &entry));
        let after = patch(&before, &entry, Some("7"));
        assert_eq!(after["metadata"]["resourceVersion"], "7");
        assert_eq!(after["webhooks"], json!([bundles(None), other, entry]));
        let webhooks = after["webhooks"].as_array().unwrap().clone();
        assert!(is_there(&webhooks, &entry));

        let mut more = webhooks.clone();
        more[2]["ofTomorrow"] = json!("x");
        assert!(is_there(&more, &entry));
        for (field, value) in [
            ("failurePolicy", json!("Ignore")),
            ("objectSelector", json!({"matchLabels": {"a": "b"}})),
            ("matchConditions", json!([])),
            ("namespaceSelector", json!({})),
        ] {
            let mut changed = webhooks.clone();
            changed[2][field] = value;
            assert!(!is_there(&changed, &entry), "{field}");
            let restored = patch(&changed, &entry, None);
            assert_eq!(restored["webhooks"], after["webhooks"]);
        }
        // What the API server drops is not there.
        let mut dropped = webhooks;
        dropped[2].as_object_mut().unwrap().remove("matchConditions");
        assert!(!is_there(&dropped, &entry));
    }
}
