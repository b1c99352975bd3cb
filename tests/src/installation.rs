//! What the suites do with one BundleDeployment and with what it brought. Whatever goes wrong ends the test and says why.

use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::verbs::{self, Expected, Target};
use crate::world::{SOON, until};

/// Longest wait for garbage collection, while other tests make and remove kinds.
const COLLECTED: Duration = Duration::from_mins(3);

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
        verbs::merge(&self.client, &self.target(), patch).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Creates any object.
    pub async fn create(&self, object: &Value) -> DynamicObject {
        verbs::create(&self.client, object).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Deletes any object in the background.
    pub async fn delete(&self, target: &Target) {
        verbs::delete(&self.client, target).await.unwrap_or_else(|error| panic!("{error:#}"));
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
        until(&self.client, &self.name, expected).await
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
            Err(error) => panic!("{error:#}\n{}", verbs::diagnose(&self.client, &self.target()).await),
        }
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, target: &Target) {
        verbs::await_deleted(&self.client, target, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until garbage collection has taken an object. It learns new kinds every 30 s, and stands still meanwhile.
    pub async fn until_collected(&self, target: &Target) {
        verbs::await_deleted(&self.client, target, COLLECTED).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
}
