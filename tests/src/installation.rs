//! What the suites do with one BundleDeployment, with what it brought, and with any object beside it. Whatever goes wrong ends
//! the test and says why; the same verbs, for those who go on, are those of [`verbs`](crate::verbs).

use std::time::Duration;

use kube::Client;
use kube::api::{DeleteParams, DynamicObject};
use serde_json::Value;

use crate::verbs::{self, Expected, Target};
use crate::world::SOON;

/// A BundleDeployment, there or to be.
pub struct Installation {
    /// Whoever looks at it.
    pub client: Client,
    /// Its name.
    pub name: String,
}

/// Installed, as the suites of RukPak wait for it.
pub fn installed() -> Expected<'static> {
    Expected::is_true("Installed", "InstallationSucceeded").saying("Instantiated bundle")
}

/// The text of a condition's message.
///
/// # Panics
/// Where there is no such condition.
pub fn message(object: &DynamicObject, condition: &str) -> String {
    let message = verbs::condition(object, condition).and_then(|condition| condition["message"].as_str());
    message.unwrap_or_else(|| panic!("there is no condition {condition}: {:#}", object.data)).to_owned()
}

/// All of them panic with what the API server says, or with the object, its events and the logs where something does not come.
#[expect(clippy::missing_panics_doc, reason = "said once for all")]
impl Installation {
    /// Names the BundleDeployment.
    pub fn target(&self) -> Target {
        Target::bundle_deployment(&self.name)
    }

    /// Merges a patch into the BundleDeployment.
    pub async fn merge(&self, patch: &Value) -> DynamicObject {
        self.merge_into(&self.target(), patch).await
    }

    /// Merges a patch into any object.
    pub async fn merge_into(&self, target: &Target, patch: &Value) -> DynamicObject {
        verbs::merge(&self.client, target, patch).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Creates any object.
    pub async fn create(&self, object: &Value) -> DynamicObject {
        verbs::create(&self.client, object).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Deletes any object in the background; fine if it does not exist.
    pub async fn delete(&self, target: &Target) {
        verbs::delete(&self.client, target).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Deletes an object that exists, in the way that is asked for.
    pub async fn delete_as(&self, target: &Target, parameters: &DeleteParams) {
        let api = target.api(&self.client).await.unwrap_or_else(|error| panic!("{error:#}"));
        api.delete(&target.name, parameters).await.unwrap_or_else(|error| panic!("{target}: {error}"));
    }

    /// An object that exists.
    pub async fn get(&self, target: &Target) -> DynamicObject {
        self.find(target).await.unwrap_or_else(|| panic!("{target} does not exist"))
    }

    /// An object that may exist.
    pub async fn find(&self, target: &Target) -> Option<DynamicObject> {
        verbs::get(&self.client, target).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Objects of a kind with the owner labels of the BundleDeployment.
    pub async fn owned(&self, api_version: &str, kind: &str) -> Vec<DynamicObject> {
        let labels = format!("core.rukpak.io/owner-kind=BundleDeployment,core.rukpak.io/owner-name={}", self.name);
        verbs::list(&self.client, api_version, kind, &labels).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Waits for a condition of the BundleDeployment.
    pub async fn until(&self, expected: Expected<'_>) -> DynamicObject {
        self.until_at(&self.target(), expected).await
    }

    /// Waits for a condition of any object.
    pub async fn until_at(&self, target: &Target, expected: Expected<'_>) -> DynamicObject {
        match verbs::await_condition(&self.client, target, expected, SOON).await {
            Ok(found) => found,
            Err(error) => panic!("{error:#}\n{}", self.story(target).await),
        }
    }

    /// Waits until the BundleDeployment, or any object, is as wanted.
    pub async fn until_object(
        &self,
        target: &Target,
        what: &str,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let found = verbs::await_object(&self.client, target, what, SOON, |object| object.is_some_and(&wanted)).await;
        match found {
            Ok(found) => found.expect("absence is not wanted"),
            Err(error) => panic!("{error:#}\n{}", self.story(target).await),
        }
    }

    /// Watches an object for `period`, in which `allowed` must hold for it, or for its absence.
    pub async fn holds_for(
        &self,
        target: &Target,
        what: &str,
        period: Duration,
        allowed: impl Fn(Option<&DynamicObject>) -> bool,
    ) {
        let held = verbs::holds_for(&self.client, target, what, period, allowed).await;
        held.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until an object is gone, perhaps by garbage collection: that learns new kinds every 30 s, and stands still meanwhile.
    pub async fn until_gone(&self, target: &Target) {
        verbs::await_deleted(&self.client, target, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// What a person wants to see when a wait for `target` was in vain, besides that object.
    async fn story(&self, target: &Target) -> String {
        let mut names = vec![self.name.as_str(), target.name.as_str()];
        names.dedup();
        verbs::story(&self.client, &names).await
    }
}
