//! Extensions that name no namespace: the bundle asks for one.

use kube::api::DynamicObject;
use rukpak_tests::Documents;
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

use super::case::{Case, rolled_out, text};
use crate::platform::packages::{ALL, Files, bundle};

/// What Pod security enforces.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// A bundle whose template asks for `namespace`, with `level` enforced.
fn asking_for(case: &Case<'_>, version: &str, (namespace, level): (&str, &str)) -> Files {
    let template = json!({"kind": "Namespace", "metadata": {"name": namespace, "labels": {ENFORCE: level}}});
    let suggested = json!({"operatorframework.io/suggested-namespace": format!("{}-system", case.name)}).to_string();
    let asked = json!({"operatorframework.io/suggested-namespace-template": template.to_string()}).to_string();
    let files = bundle(&case.name, version, ALL);
    assert!(files.iter().any(|(_, body)| body.contains(&suggested)), "{files:?}");
    files.into_iter().map(|(path, body)| (path, body.replace(&suggested, &asked))).collect()
}

/// The object of the extension without a namespace.
fn unplaced(case: &Case<'_>, filter: &Value) -> Value {
    let mut object = case.object(filter, &json!({}));
    object["spec"].as_object_mut().expect("a spec").remove("namespace");
    object
}

fn namespace(name: &str) -> Target {
    Target::cluster("v1", "Namespace", name)
}

fn label<'a>(object: &'a DynamicObject, name: &str) -> &'a str {
    object.metadata.labels.as_ref().and_then(|labels| labels.get(name)).map_or("", String::as_str)
}

#[tokio::test]
async fn an_extension_without_a_namespace_stays_in_the_one_that_its_first_version_asked_for() {
    let case = Case::new("unplaced").await;
    let (first, other) = (format!("{}-first", case.name), format!("{}-other", case.name));
    let old = case.push("1.0.0", asking_for(&case, "1.0.0", (&first, "baseline"))).await;
    let new = case.push("1.1.0", asking_for(&case, "1.1.0", (&other, "restricted"))).await;
    case.serve(Documents::package(&case.name, &[("1.0.0", &old), ("1.1.0", &new)])).await;
    case.create(&unplaced(&case, &json!({"version": "1.0.0"}))).await;
    case.until_version("1.0.0").await;
    let made = case.get(&namespace(&first)).await;
    assert_eq!(label(&made, ENFORCE), "baseline");
    assert_eq!(label(&made, "olm.operatorframework.io/owner-name"), case.name);
    let settings = Target::namespaced("v1", "ConfigMap", &first, "settings");
    assert_eq!(case.get(&settings).await.data["data"]["version"], "1.0.0");

    let change = json!({"spec": {"namespace": first}});
    let denial = verbs::merge_expecting_denial(&case.client, &case.extension(), &change).await.unwrap();
    assert!(denial.message.contains("namespace presence is immutable"), "{denial:?}");

    case.ask(json!({"version": "1.1.0"})).await;
    case.until_version("1.1.0").await;
    assert_eq!(case.get(&settings).await.data["data"]["version"], "1.1.0");
    let kept = case.get(&namespace(&first)).await;
    assert_eq!((kept.metadata.uid.as_ref(), label(&kept, ENFORCE)), (made.metadata.uid.as_ref(), "restricted"));
    assert!(case.find(&namespace(&other)).await.is_none());
    assert_eq!(text(&case.get(&case.target()).await, "/status/inventory/namespace"), first);

    case.delete(&case.extension()).await;
    case.until_gone(&case.extension()).await;
    case.until_gone(&namespace(&first)).await;
}

#[tokio::test]
async fn a_namespace_of_somebody_else_is_used_as_it_is_and_outlives_the_extension() {
    let case = Case::new("borrowed").await;
    let image = case.push("1.0.0", asking_for(&case, "1.0.0", (&case.space(), "restricted"))).await;
    case.serve(Documents::package(&case.name, &[("1.0.0", &image)])).await;
    case.make_space().await;
    case.create(&unplaced(&case, &json!({}))).await;
    case.until_at(&case.extension(), rolled_out()).await;
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0");
    assert_eq!(label(&case.get(&namespace(&case.space())).await, ENFORCE), "");

    case.delete(&case.extension()).await;
    case.until_gone(&case.settings()).await;
    let left = case.get(&namespace(&case.space())).await;
    assert!(left.metadata.deletion_timestamp.is_none() && left.metadata.owner_references.is_none(), "{left:?}");
}
