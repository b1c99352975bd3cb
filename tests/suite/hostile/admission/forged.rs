//! Reviews that say what is not so.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::ListParams;
use rukpak_tests::plane::install::WEBHOOK_ACCOUNT;
use rukpak_tests::verbs::{self, unique_name};
use serde_json::{Value, json};

use super::scene::{DEFINITIONS, calm, of_definition};

/// A pattern that asks for one letter of every Secret's token, in a definition of Secrets.
fn spec_of_secrets() -> Value {
    let token = json!({"type": "object", "properties": {"token": {"type": "string", "pattern": "^(.{7}[A-Z])$"}}});
    let schema = json!({"type": "object", "properties": {"data": token}, "required": ["impossible"]});
    json!({"group": "", "scope": "Namespaced", "names": {"plural": "secrets", "kind": "Secret"},
           "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]})
}

#[tokio::test]
async fn a_pod_that_asks_about_secrets_learns_nothing_and_none_are_listed() {
    let (scene, _calm) = calm().await;
    let client = scene.admin().await;
    let (secret, token) = (unique_name("victim"), unique_name("hunter"));
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret, "namespace": "default"},
                        "stringData": {"token": token}});
    verbs::create(&client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    let live = scene.definition(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})).await;

    let mut harmless = spec_of_secrets();
    harmless["versions"][0]["schema"] = json!({"openAPIV3Schema": {"type": "object"}});
    let secrets = |metadata: Value| json!({"metadata": metadata, "spec": harmless});
    let (name, uid) = (&live["metadata"]["name"], &live["metadata"]["uid"]);
    let mut other_plural = live.clone();
    other_plural["spec"]["names"]["plural"] = json!("secrets");
    let forged = [
        secrets(json!({"name": "secrets"})),
        secrets(json!({"name": "secrets.", "uid": uid})),
        secrets(json!({"name": name})),
        secrets(json!({"name": name, "uid": "00000000-0000-0000-0000-000000000000"})),
        // Whoever may read definitions knows this much.
        secrets(json!({"name": name, "uid": uid})),
        other_plural,
        secrets(json!({"name": "../../../api/v1/namespaces/default/secrets"})),
        secrets(json!({"name": "x?watch=true"})),
        secrets(json!({"name": ["secrets"]})),
    ];
    for old in &forged {
        let mut new = old.clone();
        new["spec"] = spec_of_secrets();
        let answer = scene.ask(DEFINITIONS, &of_definition(old, &new)).await;
        assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(409)), "{old}: {answer}");
        let text = answer.to_string();
        assert!(
            !text.contains(&secret) && !text.contains(&token) && !text.contains("existing custom object"),
            "{text}"
        );
    }
    // Nor with the definition as it is: what that defines is listed, and not what the new one says.
    let mut new = live.clone();
    new["spec"] = spec_of_secrets();
    let answer = scene.ask(DEFINITIONS, &of_definition(&live, &new)).await;
    assert!(!answer.to_string().contains(&secret), "{answer}");

    let of_secrets = scene.requests().into_iter().filter(|(_, resource, uri)| {
        resource == "secrets" || uri.contains("/secrets") && !uri.contains("/customresourcedefinitions/")
    });
    for (verb, _, uri) in of_secrets {
        let own = uri.starts_with("/api/v1/namespaces/rukpak-system/secrets");
        assert!(own && uri.contains("rukpak-webhook-certificate"), "{verb} {uri}");
    }
    let account = scene.plane.as_account(WEBHOOK_ACCOUNT).await.expect("the account's kubeconfig");
    let refused = Api::<Secret>::all(account).list(&ListParams::default()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "and it may not");
    scene.assert_unharmed().await;
}

#[tokio::test]
async fn who_knows_a_definition_is_told_one_name_and_no_content() {
    let (scene, _calm) = calm().await;
    let client = scene.admin().await;
    let live = scene.definition(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})).await;
    let api_version = format!("{}/v1", live["spec"]["group"].as_str().expect("it has a group"));
    for name in ["a", "b", "c"] {
        let thing = json!({"apiVersion": api_version, "kind": "Thing", "metadata": {"name": name, "namespace": "default"}, "hidden": "hunter2"});
        verbs::create(&client, &thing).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
    let mut new = live.clone();
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] =
        json!({"hidden": {"type": "string", "pattern": "^hunter[3-9]$"}});
    let mut answer = scene.ask(DEFINITIONS, &of_definition(&live, &new)).await;
    let end = tokio::time::Instant::now() + verbs::PATIENCE;
    // The controller lets the webhook list a kind a moment after its definition is there.
    while answer["status"]["code"] == 500 && tokio::time::Instant::now() < end {
        answer = scene.ask(DEFINITIONS, &of_definition(&live, &new)).await;
    }
    let text = answer["status"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let said = "existing custom object default/a failed validation for new schema version v1, and so did 2 more";
    assert!(text.contains(said), "{text}");
    assert!(!text.contains("hidden") && !text.contains("hunter"), "{text}");
}

#[tokio::test]
async fn a_user_name_in_a_review_opens_nothing() {
    // It says that it is the controller; the cluster does not become another by that.
    let (scene, _calm) = calm().await;
    let bundle = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle",
        "metadata": {"name": "forged", "labels": {"core.rukpak.io/bundle-template-hash": "h"}},
        "spec": {"provisionerClassName": "nobody", "source": {"type": "image", "image": {"ref": "r"}}}});
    let mut review = super::scene::review(["core.rukpak.io", "v1alpha1", "Bundle"], "CREATE", &Value::Null, &bundle);
    review["request"]["userInfo"]["username"] = json!("system:serviceaccount:rukpak-system:core-admin");
    assert_eq!(scene.ask(super::scene::BUNDLES, &review).await["allowed"], true);
    let denial =
        verbs::create_expecting_denial(&scene.admin().await, &bundle).await.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(denial.message.contains("which only the controller may say"), "{denial:?}");
}
