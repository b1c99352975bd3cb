//! What the controller refuses itself: `--require=service-account` in the moments in which the webhook does not ask, and uploads.

use kube::Client;
use kube::api::DynamicObject;
use reqwest::StatusCode;
use rukpak_tests::plane::install::{SYSTEM_NAMESPACE, token};
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, SOON, World, image};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::content::caller::{Caller, archive, manifest};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

static WORLD: OnceCell<World> = OnceCell::const_new();

/// A controller that asks for accounts, and a webhook that does not: as in the moments without its entry.
async fn world() -> &'static World {
    let start = || World::start(vec!["--require=service-account".to_owned()]);
    WORLD.get_or_try_init(start).await.unwrap_or_else(|error| panic!("the world could not be started: {error:#}"))
}

async fn create(client: &Client, object: &Value) {
    verbs::create(client, object).await.unwrap_or_else(|error| panic!("{error:#}"));
}

async fn until(client: &Client, name: &str, expected: Expected<'_>) -> DynamicObject {
    let found = verbs::await_condition(client, &Target::bundle_deployment(name), expected, SOON).await;
    found.unwrap_or_else(|error| panic!("{error:#}"))
}

async fn exists(client: &Client, name: &str) -> bool {
    let target = Target::namespaced("v1", "ConfigMap", "default", name);
    verbs::get(client, &target).await.unwrap_or_else(|error| panic!("{error:#}")).is_some()
}

fn with_account(mut deployment: Value, name: &str) -> Value {
    deployment["spec"]["serviceAccount"] = json!({"name": name, "namespace": "default"});
    deployment
}

#[tokio::test]
async fn nothing_is_installed_without_an_account_where_the_webhook_does_not_ask() {
    let world = world().await;
    let client = world.admin().await;
    let bundle = |name: &str| rukpak_tests::ImageBuilder::of_files([("manifests/object.yaml", manifest(name))]);
    let (plain, forged, named) = (unique_name("plain"), unique_name("forged"), unique_name("named"));
    let mut objects = Vec::new();
    for name in [&plain, &forged, &named] {
        objects.push(world::deployment(name, image(&world.push(name, &bundle(name)).await)));
    }
    // Who owns it is what its author says.
    objects[1]["metadata"]["ownerReferences"] = json!([{"apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
        "name": forged, "uid": "11111111-1111-4111-8111-111111111111", "controller": true}]);
    objects[2] = with_account(objects[2].clone(), &named);
    for object in &objects {
        create(&client, object).await;
    }

    for name in [&plain, &forged] {
        let ready = Expected::is_false("Ready", "ServiceAccountRequired").saying("--require=service-account");
        until(&client, name, ready).await;
        assert!(!exists(&client, name).await, "{name}");
    }
    until(&client, &named, Expected::is_false("Ready", "ServiceAccountNotFound")).await;
}

/// A caller with the role of uploaders, who may write this BundleDeployment and impersonate these accounts.
async fn uploader(world: &World, deployment: &str, impersonates: &[(&str, &str)]) -> Caller {
    let client = world.admin().await;
    let name = unique_name("uploader");
    create(&client, &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE}})).await;
    let mut rules = vec![json!({"nonResourceURLs": ["/uploads/*"], "verbs": ["update"]})];
    if !deployment.is_empty() {
        rules.push(
            json!({"apiGroups": ["core.rukpak.io"], "resources": ["bundledeployments"], "resourceNames": [deployment],
                          "verbs": ["update"]}),
        );
    }
    // Of whatever namespace: their names are of this test alone, but for the controller's.
    let accounts: Vec<&str> = impersonates.iter().map(|(_, name)| *name).collect();
    if !accounts.is_empty() {
        rules.push(json!({"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": accounts, "verbs": ["impersonate"]}));
    }
    create(&client, &json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}))
        .await;
    let binding = json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE}]});
    create(&client, &binding).await;
    let user = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{name}");
    verbs::await_role(&client, &user, &name).await.unwrap_or_else(|error| panic!("{error:#}"));
    Caller::with_token(world, Some(&token(&client, SYSTEM_NAMESPACE, &name).await.expect("a token"))).await
}

/// Makes a BundleDeployment of type upload, and returns the name of its Bundle.
async fn awaiting_upload(client: &Client, deployment: &Value) -> String {
    create(client, deployment).await;
    let name = deployment["metadata"]["name"].as_str().expect("a name");
    let labels = format!("core.rukpak.io/owner-name={name}");
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let bundles = verbs::list(client, "core.rukpak.io/v1alpha1", "Bundle", &labels).await.expect("a list");
        if let Some(bundle) = bundles.first() {
            return bundle.metadata.name.clone().expect("a name");
        }
        assert!(tokio::time::Instant::now() < end, "no Bundle of {name}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_upload_takes_the_right_on_what_it_is_for_and_on_whose_rights_install_it() {
    let world = world().await;
    let client = world.admin().await;
    let upload = || json!({"type": "upload", "upload": {}});
    let (plain, named) = (unique_name("whole"), unique_name("named"));
    let body = |name: &str| archive(&[("manifests/object.yaml", manifest(name))]);
    for (deployment, installer) in [
        (world::deployment(&plain, upload()), (SYSTEM_NAMESPACE, "core-admin")),
        (with_account(world::deployment(&named, upload()), &named), ("default", named.as_str())),
    ] {
        let name = deployment["metadata"]["name"].as_str().expect("a name").to_owned();
        let bundle = awaiting_upload(&client, &deployment).await;
        for (owned, impersonates, expected, text) in [
            ("", &[][..], StatusCode::FORBIDDEN, "cannot update bundledeployments"),
            ("other", &[installer][..], StatusCode::FORBIDDEN, "cannot update bundledeployments"),
            (&name, &[], StatusCode::FORBIDDEN, "cannot impersonate"),
            (&name, &[("default", "other")], StatusCode::FORBIDDEN, "cannot impersonate"),
            (&name, &[installer], StatusCode::CREATED, ""),
        ] {
            let answer = uploader(world, owned, impersonates).await.put(&bundle, body(&name)).await;
            assert_eq!(answer.status, expected, "{owned} {impersonates:?}: {}", answer.text());
            assert!(answer.text().contains(text), "{}", answer.text());
        }
    }
}
