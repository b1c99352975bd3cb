//! Deployments that have failed for so long that only somebody who wakes them explains that they go on.

use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::SOON;
use serde_json::json;

/// In this time after the last failure nothing is tried again by itself.
const ASLEEP: Duration = Duration::from_secs(100);

/// A BundleDeployment that has just failed, and is not tried again by itself for [`ASLEEP`].
pub struct Tired(Instant);

impl Tired {
    /// It has gone on: in time, so that somebody must have woken it.
    pub fn was_woken(&self) {
        assert!(self.0.elapsed() < ASLEEP, "it may have tried again by itself: {:?}", self.0.elapsed());
    }
}

/// Failures in a row after which the next try by itself is two minutes away, whatever failed: the shortest first wait is half
/// a second, and each is twice the one before.
const FAILURES: usize = 9;

/// Has a BundleDeployment that fails tried again, and fail as `expected`, until it would not try again by itself for a while.
#[must_use]
pub async fn tire(client: &Client, name: &str, expected: Expected<'_>) -> Tired {
    let target = Target::bundle_deployment(name);
    let api = target.api(client).await.unwrap_or_else(|error| panic!("{error:#}"));
    // Whoever touches it wants it tried now. A try says which generation it was for: that is how its end is seen.
    let forgotten = Patch::Merge(json!({"status": {"observedGeneration": 0}}));
    let is_tried = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| {
            object.data["status"]["observedGeneration"].as_i64() == object.metadata.generation
                && expected.met_by(object)
        })
    };
    for _ in 0..FAILURES {
        api.patch_status(name, &PatchParams::default(), &forgotten).await.unwrap_or_else(|error| panic!("{error}"));
        let tried = verbs::await_object(client, &target, "another failure", SOON, is_tried).await;
        tried.unwrap_or_else(|error| panic!("{error:#}"));
    }
    Tired(Instant::now())
}
