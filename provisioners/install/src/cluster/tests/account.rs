//! What a ServiceAccount is asked about its rights.

use rukpak_crds::ServiceAccountReference;
use rukpak_plan::rights::{Right, Rights, Scope};
use serde_json::{Value, json};

use super::super::Account;
use super::client;

fn reference() -> ServiceAccountReference {
    ServiceAccountReference { name: "installer".to_owned(), namespace: "shop".to_owned() }
}

fn right(scope: Scope, (group, resource): (&str, &str), name: Option<&str>, verb: &str) -> Right {
    let (group, resource, verb) = (group.to_owned(), resource.to_owned(), verb.to_owned());
    Right::Objects { scope, group, resource, name: name.map(str::to_owned), verb }
}

/// The answer to a question about rules: reading Pods is what can be told.
fn rules(is_incomplete: bool) -> Value {
    let told = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    json!({"spec": {}, "status": {"resourceRules": told, "nonResourceRules": [], "incomplete": is_incomplete}})
}

const RULES: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const ACCESS: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Authorisers that are asked over a webhook, as those of the large clouds, tell no rules.
#[tokio::test]
async fn asks_about_each_right_that_incomplete_rules_do_not_tell() {
    let shop = Scope::Namespace("shop".to_owned());
    let held = right(shop.clone(), ("", "pods"), Some("a"), "get");
    let allowed = right(shop.clone(), ("apps", "deployments/scale"), Some("web"), "update");
    let denied = right(Scope::Cluster, ("example.com", "gadgets"), None, "create");
    let path = Right::Path { path: "/metrics".to_owned(), verb: "get".to_owned() };
    let (own, asked) = client(|asked| match asked.what.as_str() {
        RULES => rules(true),
        _ => {
            json!({"spec": {}, "status": {"allowed": asked.body["spec"]["resourceAttributes"]["verb"] == "update"}})
        }
    });
    let needed = Rights::from([held, allowed, denied.clone(), path.clone()]);
    assert_eq!(Account::new(&own, &reference()).lacks(&needed).await.unwrap(), [denied, path].into());

    let asked = asked.lock().unwrap();
    assert!(asked.iter().all(|asked| asked.user.as_deref() == Some("system:serviceaccount:shop:installer")));
    let reviews = asked.iter().filter(|asked| asked.what == ACCESS).map(|asked| asked.body["spec"].clone());
    let attributes =
        |namespace: &str, group: &str, resource: &str, subresource: &str, name: Option<&str>, verb: &str| {
            json!({"resourceAttributes": {"namespace": namespace, "group": group, "resource": resource,
            "subresource": subresource, "name": name, "verb": verb}})
        };
    let mut gadgets = attributes("", "example.com", "gadgets", "", None, "create");
    gadgets["resourceAttributes"].as_object_mut().unwrap().remove("name");
    let expected = [
        gadgets,
        attributes("shop", "apps", "deployments", "scale", Some("web"), "update"),
        json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
    ];
    assert_eq!(reviews.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn asks_nothing_more_where_the_rules_are_complete() {
    let (own, asked) = client(|_| rules(false));
    let missing = right(Scope::Namespace("shop".to_owned()), ("", "pods"), Some("a"), "delete");
    let lacks = Account::new(&own, &reference()).lacks(&Rights::from([missing.clone()])).await.unwrap();
    assert_eq!(lacks, [missing].into());
    assert_eq!(asked.lock().unwrap().len(), 1);
}
