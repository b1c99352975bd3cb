//! CRDs of a bundle: which upgrades are denied, and how that goes together with the controller's own check.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Denial, Target, unique_name};
use rukpak_tests::world::{SOON, World};
use serde_json::{Value, json};

use super::helpers::{create, deployment, image, patch, patch_refused};

const SWITCH: &str = "core.rukpak.io/safe-crd-upgrade-validation";
/// More than the webhook lists at a time.
const MANY: usize = 260;

/// A definition of a group of its own.
pub struct Definition {
    group: String,
}

impl Definition {
    pub fn new() -> Self {
        Self { group: format!("{}.example.test", unique_name("crd")) }
    }

    pub fn name(&self) -> String {
        format!("things.{}", self.group)
    }

    pub fn target(&self) -> Target {
        Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", &self.name())
    }

    /// With these labels and versions.
    pub fn with(&self, labels: &Value, versions: &[Value]) -> Value {
        let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
               "metadata": {"name": self.name(), "labels": labels},
               "spec": {"group": self.group, "names": names, "scope": "Namespaced", "versions": versions}})
    }

    /// In the cluster, with one version, and served.
    async fn installed(&self, client: &Client, labels: &Value) {
        create(client, &self.with(labels, &[version("v1", &[])])).await;
        verbs::await_served(client, &format!("{}/v1", self.group), "Thing", SOON).await.unwrap();
    }

    async fn thing(&self, client: &Client, name: &str, spec: &Value) -> DynamicObject {
        let thing = json!({"apiVersion": format!("{}/v1", self.group), "kind": "Thing",
                           "metadata": {"name": name, "namespace": "default"}, "spec": spec});
        create(client, &thing).await
    }

    /// What the API server puts before the webhook's reason.
    fn start(&self) -> String {
        let name = self.name();
        format!(
            "failed to validate safety of UPDATE for CRD \"{name}\" (NOTE: to disable this validation, set the \"{SWITCH}\" \
             annotation to \"false\" on the CRD): error validating existing CRs against new CRD's schema for \"{name}\": "
        )
    }
}

pub fn owned() -> Value {
    json!({"core.rukpak.io/owner-kind": "BundleDeployment"})
}

/// A version; `v1` is the one that is stored.
pub fn version(name: &str, required: &[&str]) -> Value {
    let properties = json!({"size": {"type": "integer"}, "colour": {"type": "string"}});
    let spec = json!({"type": "object", "properties": properties, "required": required});
    let spec = if required.is_empty() { json!({"type": "object", "properties": properties}) } else { spec };
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({"name": name, "served": true, "storage": name == "v1", "schema": schema})
}

fn versions(versions: &[Value]) -> Value {
    json!({"spec": {"versions": versions}})
}

fn assert_words(denial: &Denial, text: &str) {
    let prefix = "admission webhook \"webhook.crdvalidator.io\" denied the request: ";
    assert_eq!(denial.message, format!("{prefix}{text}"));
    assert_eq!((denial.code, denial.reason.as_str()), (403, text));
}

#[tokio::test]
async fn c1_c2_a_version_that_takes_every_object_is_added() {
    let client = World::shared().await.admin().await;
    for labels in [json!({}), owned()] {
        let definition = Definition::new();
        definition.installed(&client, &json!({})).await;
        definition.thing(&client, "a", &json!({"size": 1})).await;
        let mut change = versions(&[version("v1", &[]), version("v2", &["size"])]);
        change["metadata"] = json!({"labels": labels});
        patch(&client, &definition.target(), &change).await;
    }
}

#[tokio::test]
async fn c3_an_object_that_would_be_broken_refuses_the_change() {
    let client = World::shared().await.admin().await;
    let required = versions(&[version("v1", &["size"])]);
    let definition = Definition::new();
    definition.installed(&client, &owned()).await;
    definition.thing(&client, "good", &json!({"size": 1})).await;
    patch(&client, &definition.target(), &required).await;

    let definition = Definition::new();
    definition.installed(&client, &owned()).await;
    definition.thing(&client, "good", &json!({"size": 1})).await;
    definition.thing(&client, "bad", &json!({"colour": "red"})).await;
    let denial = patch_refused(&client, &definition.target(), &required).await;
    let broken = "existing custom object default/bad failed validation for new schema version v1 \
                  (the log of rukpak-webhook says why)";
    assert_words(&denial, &format!("{}{broken}", definition.start()));
    // So does one in a version that is added.
    let added = versions(&[version("v1", &[]), version("v2", &["size"])]);
    let denial = patch_refused(&client, &definition.target(), &added).await;
    assert_words(&denial, &format!("{}{}", definition.start(), broken.replace("v1", "v2")));
    let log = World::shared().await.webhook.log();
    assert!(log.contains("spec.size: Required value"), "the log says why");
    let live = verbs::get(&client, &definition.target()).await.unwrap().unwrap();
    assert_eq!(live.data["spec"]["versions"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn every_object_is_looked_at() {
    let client = World::shared().await.admin().await;
    let definition = Definition::new();
    definition.installed(&client, &owned()).await;
    for index in 0..MANY {
        definition.thing(&client, &format!("good-{index}"), &json!({"size": index})).await;
    }
    definition.thing(&client, "the-last", &json!({})).await;
    let denial = patch_refused(&client, &definition.target(), &versions(&[version("v1", &["size"])])).await;
    assert!(denial.message.contains("existing custom object default/the-last failed"), "{denial:?}");
}

#[tokio::test]
async fn c4_c5_whoever_says_so_is_not_held_up() {
    let client = World::shared().await.admin().await;
    let required = versions(&[version("v1", &["size"])]);
    for first in [
        json!({"metadata": {"labels": {"core.rukpak.io/owner-kind": null}}}),
        json!({"metadata": {"annotations": {SWITCH: "false"}}}),
    ] {
        let definition = Definition::new();
        definition.installed(&client, &owned()).await;
        definition.thing(&client, "bad", &json!({})).await;
        patch(&client, &definition.target(), &first).await;
        patch(&client, &definition.target(), &required).await;
    }
    // The text decides, and in the definition that comes in.
    let definition = Definition::new();
    definition.installed(&client, &owned()).await;
    definition.thing(&client, "bad", &json!({})).await;
    let mut change = required;
    change["metadata"] = json!({"annotations": {SWITCH: "False"}});
    patch_refused(&client, &definition.target(), &change).await;
    change["metadata"] = json!({"annotations": {SWITCH: "false"}});
    patch(&client, &definition.target(), &change).await;
}

/// The controller does not check where the BundleDeployment says so; the webhook must not hold it up then.
#[tokio::test]
async fn the_owner_can_switch_it_off_for_its_definitions() {
    let client = World::shared().await.admin().await;
    let required = versions(&[version("v1", &["size"])]);
    let (definition, owner) = (Definition::new(), unique_name("owner"));
    let labels = json!({"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": owner});
    definition.installed(&client, &labels).await;
    definition.thing(&client, "bad", &json!({})).await;
    // Nobody of that name, and somebody who says nothing.
    patch_refused(&client, &definition.target(), &required).await;
    create(&client, &deployment(&owner, &image())).await;
    patch_refused(&client, &definition.target(), &required).await;
    let said = json!({"metadata": {"annotations": {SWITCH: "false"}}});
    patch(&client, &Target::bundle_deployment(&owner), &said).await;
    patch(&client, &definition.target(), &required).await;
}

/// The API server is first with its own refusal.
#[tokio::test]
async fn c6_a_stored_version_stays() {
    let client = World::shared().await.admin().await;
    let definition = Definition::new();
    definition.installed(&client, &owned()).await;
    let mut other = version("v2", &[]);
    other["storage"] = json!(true);
    let denial = patch_refused(&client, &definition.target(), &versions(&[other])).await;
    assert_eq!(denial.code, 422, "{denial:?}");
    assert!(denial.message.contains("status.storedVersions[0]: Invalid value: \"v1\""), "{denial:?}");
}
