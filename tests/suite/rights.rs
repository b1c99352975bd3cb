//! RBAC says the truth: each right of the manifests is used, and taking it away shows.
//!
//! The tests change the roles of the one world, so they take turns.

mod accounts;
mod controller;
mod growth;
mod manifests;
mod network;
mod platform;
mod published;
mod reviews;
mod tokens;
mod users;
mod webhook;

use std::time::Duration;

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use rukpak_tests::plane::yaml;
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::{SOON, World};
use rukpak_tests::{ImageBuilder, tools, verbs::PATIENCE};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

/// Between two questions what an account may do: the authoriser's cache cannot be watched.
const INTERVAL: Duration = Duration::from_millis(20);

static TURN: Mutex<()> = Mutex::const_new(());

/// The world with the roles of the manifests, for one test at a time.
struct Turn {
    world: &'static World,
    client: Client,
    _alone: MutexGuard<'static, ()>,
}

/// A bundle that is installed under its own name, and a namespace for its objects.
struct Scene {
    turn: Turn,
    name: String,
    namespace: String,
}

/// A question to the API server.
#[derive(Clone, Copy, Debug)]
struct Access<'a> {
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl Turn {
    /// Waits for its turn and undoes what a failed test has left.
    async fn take() -> Self {
        let world = World::shared().await;
        let turn = TURN.lock().await;
        let client = world.admin().await;
        for object in installed("ClusterRole").into_iter().chain(installed("Role")) {
            let value = serde_json::to_value(object).expect("JSON");
            verbs::apply(&client, &value).await.expect("the administrator may");
        }
        Self { world, client, _alone: turn }
    }

    /// Gives a role other rules and waits until `account` notices at `access`.
    async fn set(&self, role: &Target, rules: &[Value], account: &str, access: Access<'_>, allowed: bool) {
        let mut object = json!({
            "apiVersion": role.api_version, "kind": role.kind, "metadata": {"name": role.name}, "rules": rules,
        });
        if let Some(namespace) = &role.namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        verbs::apply(&self.client, &object).await.expect("the administrator may");
        let client = self.world.plane.as_account(account).await.expect("the account's kubeconfig is good");
        let end = tokio::time::Instant::now() + SOON;
        while may(&client, access).await != allowed {
            assert!(tokio::time::Instant::now() < end, "{account}: {access:?} is still {}", !allowed);
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

impl Scene {
    async fn set(prefix: &str) -> Self {
        let turn = Turn::take().await;
        let namespace = verbs::namespace(&turn.client, prefix).await.expect("a namespace");
        Self { turn, name: unique_name(prefix), namespace }
    }

    fn config_map(&self, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": self.namespace}})
    }
}

/// Whether the client's account may do that.
async fn may(client: &Client, access: Access<'_>) -> bool {
    let Access { verb, group, resource, namespace, name } = access;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({
        "verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace, "name": name,
    });
    let review = serde_json::from_value(json!({"metadata": {}, "spec": {"resourceAttributes": attributes}}));
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review.expect("a review")).await;
    answer.expect("everybody may ask").status.is_some_and(|status| status.allowed)
}

impl<'a> Access<'a> {
    /// In all namespaces, for all names.
    const fn to(verb: &'a str, group: &'a str, resource: &'a str) -> Self {
        Self { verb, group, resource, namespace: "", name: "" }
    }

    const fn within(self, namespace: &'a str) -> Self {
        Self { namespace, ..self }
    }

    const fn named(self, name: &'a str) -> Self {
        Self { name, ..self }
    }
}

/// An image with a file for each object.
fn bundle(objects: &[Value]) -> ImageBuilder {
    let files = objects.iter().enumerate();
    ImageBuilder::of_files(files.map(|(index, object)| (format!("manifests/{index}.yaml"), object.to_string())))
}

/// The objects of one kind in the manifests.
fn installed(kind: &str) -> Vec<DynamicObject> {
    let file = tools::workspace_folder().join("manifests/install.yaml");
    let mut objects = yaml::objects_of_file(&file).unwrap_or_else(|error| panic!("{error:#}"));
    objects.retain(|object| object.types.as_ref().is_some_and(|types| types.kind == kind));
    objects
}

/// The rules of a role in the manifests.
fn rules(kind: &str, name: &str) -> Vec<Value> {
    let role = installed(kind).into_iter().find(|object| object.metadata.name.as_deref() == Some(name));
    let role = role.unwrap_or_else(|| panic!("there is no {kind} {name} in the manifests"));
    role.data["rules"].as_array().expect("a role has rules").clone()
}

/// The rule without one of its verbs.
fn without(rule: &Value, verb: &str) -> Value {
    let mut rule = rule.clone();
    let verbs = rule["verbs"].as_array_mut().expect("a rule has verbs");
    let before = verbs.len();
    verbs.retain(|other| other != verb);
    assert_eq!(verbs.len() + 1, before, "{verb} is not in {rule}");
    rule
}
