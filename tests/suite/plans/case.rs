//! A deployment whose installation is asked about.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, deployment, image, until};
use serde_json::{Value, json};

use crate::engine::case::Case;

/// What is asked about deployments.
pub trait Asked {
    /// Creates the BundleDeployment with an approval policy; waits for nothing.
    async fn create_asking(&self, policy: &str, objects: &[Value]);
    /// Waits until a Plan waits that is none of these; returns it.
    async fn asked_beside(&self, known: &[&DynamicObject]) -> DynamicObject;
    /// Waits until a Plan waits; returns it.
    async fn asked(&self) -> DynamicObject {
        self.asked_beside(&[]).await
    }
    /// All Plans of the deployment.
    async fn plans(&self) -> Vec<DynamicObject>;
    /// Answers a Plan.
    async fn answer(&self, plan: &DynamicObject, answer: &str);
    /// Waits until the Plan is in the phase; returns it.
    async fn until_phase(&self, plan: &DynamicObject, phase: &str) -> DynamicObject;
    /// Whether the object exists in the cluster, as the API server says.
    async fn exists(&self, name: &str) -> bool;
}

pub fn plan_target(name: &str) -> Target {
    Target::cluster("core.rukpak.io/v1alpha1", "Plan", name)
}

pub fn target_of(plan: &DynamicObject) -> Target {
    plan_target(plan.metadata.name.as_deref().expect("it has a name"))
}

/// The digest of a Plan.
pub fn digest(plan: &DynamicObject) -> String {
    plan.data["spec"]["digest"].as_str().expect("it has one").to_owned()
}

/// The names of a list of a Plan's status.
pub fn names(plan: &DynamicObject, list: &str) -> Vec<String> {
    let items = plan.data["status"][list]["items"].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| item["name"].as_str().map(str::to_owned)).collect()
}

/// What the deployment says while a Plan waits.
const WAITING: Expected<'_> =
    Expected { kind: "Ready", status: "Unknown", reason: Some("WaitingForApproval"), message: "waits for approval" };

impl Asked for Case<'_> {
    async fn create_asking(&self, policy: &str, objects: &[Value]) {
        let reference = self.push("v1", objects).await;
        let mut new = deployment(&self.name, image(&reference));
        new["spec"]["approval"] = json!(policy);
        self.foreign(&new).await;
    }

    async fn asked_beside(&self, known: &[&DynamicObject]) -> DynamicObject {
        let is_new = |object: &DynamicObject| {
            let ready =
                verbs::condition(object, "Ready").and_then(|ready| ready["message"].as_str()).unwrap_or_default();
            let is_known = |plan: &&DynamicObject| ready.contains(plan.metadata.name.as_deref().unwrap_or("?"));
            WAITING.met_by(object) && !known.iter().any(is_known)
        };
        let about = self.until(&self.target(), "a Plan that waits", |object| object.is_some_and(is_new)).await;
        let about = about.expect("it is there");
        let message = verbs::condition(&about, "Ready").expect("it is there")["message"].as_str().unwrap_or_default();
        let name = message.split_whitespace().nth(1).expect("the message names the Plan");
        self.until_value(&plan_target(name), "/status/phase", &json!("Waiting")).await
    }

    async fn plans(&self) -> Vec<DynamicObject> {
        let labels = format!("core.rukpak.io/owner-name={}", self.name);
        verbs::list(&self.client, "core.rukpak.io/v1alpha1", "Plan", &labels).await.expect("the API server agrees")
    }

    async fn answer(&self, plan: &DynamicObject, answer: &str) {
        self.edit("user", &target_of(plan), json!({"spec": {"approval": answer}})).await;
    }

    async fn until_phase(&self, plan: &DynamicObject, phase: &str) -> DynamicObject {
        self.until_value(&target_of(plan), "/status/phase", &json!(phase)).await
    }

    async fn exists(&self, name: &str) -> bool {
        self.get(&self.config_map_target(name)).await.is_some()
    }
}

/// Waits until the deployment says that its Plan was rejected.
pub async fn until_rejected(case: &Case<'_>) -> DynamicObject {
    until(&case.client, &case.name, Expected::is_false("Ready", "PlanRejected")).await
}

/// Waits until what is asked for is installed.
pub async fn until_ready(case: &Case<'_>) -> DynamicObject {
    let ready =
        verbs::await_condition(&case.client, &case.target(), Expected::is_true("Ready", "Succeeded"), SOON).await;
    ready.unwrap_or_else(|error| panic!("{error:#}"))
}
