//! The webhook for ConfigMaps, which registers itself: in another namespace than usual, and while nobody answers.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use anyhow::Result;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::plane::install::{InstallOptions, WEBHOOK_ACCOUNT};
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::SOON;
use rukpak_tests::{Plane, Process, WebhookOptions, tools};
use serde_json::{Value, json};

use super::config_maps::{config_map, made_of, until_asked};
use super::helpers::{create, refused};
use super::private::configuration;

const NAMESPACE: &str = "elsewhere";
const WEBHOOK: &str = "vconfigmaps.core.rukpak.io";
const LABEL: &str = "kubernetes.io/metadata.name";

struct Elsewhere {
    plane: Plane,
    client: Client,
    webhook: Process,
    options: InstallOptions,
    _folder: tempfile::TempDir,
}

impl Elsewhere {
    async fn start() -> Result<Self> {
        let folder = tools::temp_folder("elsewhere")?;
        let file = folder.path().join("install.yaml");
        let text = std::fs::read_to_string(tools::workspace_folder().join("manifests/install.yaml"))?;
        std::fs::write(&file, text.replace("rukpak-system", NAMESPACE))?;
        let options = InstallOptions { files: vec![file], accounts: Vec::new(), ..InstallOptions::default() };
        let plane = Plane::start().await?;
        plane.install(&options).await?;
        let client = plane.admin().await?;
        plane.write_account_kubeconfig(&client, NAMESPACE, WEBHOOK_ACCOUNT).await?;
        assert_eq!(entry(&verbs::get(&client, &configuration()).await?.expect("it is installed")), None);
        let arguments = vec![format!("--system-namespace={NAMESPACE}")];
        let webhook = plane.start_webhook(WebhookOptions { arguments, ..WebhookOptions::default() }).await?;
        webhook.wait_ready().await?;
        Ok(Self { plane, client, webhook, options, _folder: folder })
    }

    /// Waits until the entry is there and as `wanted`.
    async fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let holds = |object: Option<&DynamicObject>| object.and_then(entry).is_some_and(|entry| wanted(&entry));
        let found = verbs::await_object(&self.client, &configuration(), what, SOON, holds).await;
        entry(&found.unwrap_or_else(|error| panic!("{error:#}")).expect("it was there")).expect("it was there")
    }

    async fn change(&self, operations: Value) {
        let api = configuration().api(&self.client).await.unwrap();
        let patch: Patch<Value> = Patch::Json(serde_json::from_value(operations).unwrap());
        api.patch(&configuration().name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the webhook has written it anew, and it is as before.
    async fn restored(&self, before: &Value) {
        self.until("its restoration", |entry| entry == before).await;
    }
}

fn entry(configuration: &DynamicObject) -> Option<Value> {
    configuration.data["webhooks"].as_array()?.iter().find(|webhook| webhook["name"] == WEBHOOK).cloned()
}

fn published(name: &str) -> Target {
    Target::namespaced("v1", "ConfigMap", NAMESPACE, name)
}

async fn follows_the_namespace(elsewhere: &Elsewhere) -> Value {
    let entry = elsewhere.until("a caBundle", |entry| entry["clientConfig"].get("caBundle").is_some()).await;
    assert_eq!(entry["namespaceSelector"], json!({"matchLabels": {LABEL: NAMESPACE}}));
    assert_eq!(entry["rules"][0]["operations"], json!(["CREATE", "DELETE"]));
    assert_eq!(entry["rules"][0]["resources"], json!(["configmaps"]));
    assert_eq!(entry["clientConfig"]["service"]["path"], "/validate-core-v1-configmap");
    assert_eq!(entry["failurePolicy"], "Fail");
    assert!(entry.get("matchConditions").is_some());

    let client = &elsewhere.client;
    until_asked(client, NAMESPACE).await;
    let name = unique_name("follow");
    create(client, &made_of(&name, &[&name])).await;
    let denial = refused(client, &config_map(NAMESPACE, &name, None)).await;
    assert!(denial.message.starts_with(&format!("admission webhook \"{WEBHOOK}\" denied the request: ")), "{denial:?}");
    // The usual namespace is one like any other here.
    let usual = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rukpak-system"}});
    create(client, &usual).await;
    create(client, &config_map("rukpak-system", &name, None)).await;
    entry
}

async fn keeps_its_entry(elsewhere: &Elsewhere, before: &Value) {
    let webhooks = verbs::get(&elsewhere.client, &configuration()).await.unwrap().unwrap().data["webhooks"].clone();
    let position = webhooks.as_array().unwrap().iter().position(|webhook| webhook["name"] == WEBHOOK).unwrap();
    let path = format!("/webhooks/{position}");
    elsewhere.change(json!([{"op": "remove", "path": path}])).await;
    elsewhere.restored(before).await;
    let selector = json!({"matchLabels": {LABEL: NAMESPACE, "a": "b"}});
    elsewhere.change(json!([{"op": "replace", "path": format!("{path}/namespaceSelector"), "value": selector}])).await;
    elsewhere.restored(before).await;
    // Who applies the manifests again leaves it alone.
    elsewhere.plane.install(&elsewhere.options).await.unwrap();
    let after = verbs::get(&elsewhere.client, &configuration()).await.unwrap().unwrap();
    assert_eq!(entry(&after).as_ref(), Some(before));
}

/// What the cluster publishes never waits for the webhook: Pods mount it, and the webhook runs in one.
async fn does_not_hold_up_the_cluster(elsewhere: &Elsewhere) {
    let client = &elsewhere.client;
    let root = published("kube-root-ca.crt");
    let there = |object: Option<&DynamicObject>| object.is_some();
    let before = verbs::await_object(client, &root, "its publication", SOON, there).await.unwrap().unwrap();
    elsewhere.webhook.kill().await.unwrap();
    verbs::delete(client, &root).await.unwrap();
    let anew = |object: Option<&DynamicObject>| object.is_some_and(|object| object.metadata.uid != before.metadata.uid);
    verbs::await_object(client, &root, "another one", SOON, anew).await.unwrap();
    create(client, &config_map(NAMESPACE, "openshift-service-ca.crt", None)).await;
    verbs::delete(client, &published("openshift-service-ca.crt")).await.unwrap();
    let other = config_map(NAMESPACE, &unique_name("other"), None);
    refused(client, &other).await;
}

/// What was removed while no process was there is written by the next.
async fn writes_it_again_after_a_restart(elsewhere: &Elsewhere, before: &Value) {
    elsewhere.change(json!([{"op": "remove", "path": "/webhooks/2"}])).await;
    elsewhere.webhook.restart().await.unwrap();
    elsewhere.webhook.wait_ready().await.unwrap();
    elsewhere.restored(before).await;
}

#[tokio::test]
async fn the_webhook_for_config_maps_registers_itself() {
    let elsewhere = Elsewhere::start().await.unwrap_or_else(|error| panic!("{error:#}"));
    let entry = follows_the_namespace(&elsewhere).await;
    keeps_its_entry(&elsewhere, &entry).await;
    does_not_hold_up_the_cluster(&elsewhere).await;
    writes_it_again_after_a_restart(&elsewhere, &entry).await;
}
