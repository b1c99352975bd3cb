//! Worlds for what the others must not meet: a controller that is stopped and started, an API server that answers late or never.

use rukpak_tests::world::{World, WorldOptions};
use rukpak_tests::{FaultyServer, verbs};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::engine::case::Case;

static ALONE: OnceCell<World> = OnceCell::const_new();
static TURN: Mutex<()> = Mutex::const_new(());
static TROUBLED: OnceCell<World> = OnceCell::const_new();

/// The right to stop the controller of a world, for one test after the other. It runs, and is ready, at the beginning.
pub struct Alone {
    pub world: &'static World,
    _turn: MutexGuard<'static, ()>,
}

/// The world for tests that stop the controller.
pub async fn alone() -> Alone {
    let turn = TURN.lock().await;
    let world = ALONE.get_or_try_init(|| World::start(Vec::new())).await;
    let world = world.unwrap_or_else(|error| panic!("the world could not be started: {error:#}"));
    let alone = Alone { world, _turn: turn };
    // The test before may have ended in the middle.
    if world.controller.pid().is_none() {
        alone.start().await;
    }
    alone
}

impl Alone {
    pub async fn case(&self, prefix: &str) -> Case<'static> {
        Case::in_world(self.world, prefix).await
    }

    /// Ends the controller in good order.
    pub async fn stop(&self) {
        self.world.controller.terminate().await.expect("the controller obeys");
    }

    /// Starts it again; returns when it is ready.
    pub async fn start(&self) {
        self.world.controller.restart().await.expect("the controller starts");
        self.world.controller.wait_ready().await.expect("the controller is ready");
    }

    /// As a node that dies would.
    pub async fn kill(&self) {
        self.world.controller.kill().await.expect("the controller obeys");
    }
}

/// The world for kinds that cannot be listed and for answers that do not come. Its controller reaches the API server through a proxy.
pub async fn troubled() -> &'static World {
    let start = || World::start_with(WorldOptions { proxied: true, ..WorldOptions::default() });
    TROUBLED.get_or_try_init(start).await.unwrap_or_else(|error| panic!("the world could not be started: {error:#}"))
}

/// Whoever has the proxy of [`troubled`] misbehave: one test after the other.
pub static PROXY: Mutex<()> = Mutex::const_new(());

/// The proxy of [`troubled`].
pub async fn proxy() -> &'static FaultyServer {
    troubled().await.proxy.as_ref().expect("the world has one")
}

/// Asks for the deletion of a BundleDeployment that leaves its objects: `kubectl delete --cascade=orphan`.
pub async fn orphan(case: &Case<'_>) {
    let target = case.target();
    let parameters = kube::api::DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..kube::api::DeleteParams::default()
    };
    let api = target.api(&case.client).await.expect("the kind is served");
    api.delete(&target.name, &parameters).await.expect("the API server agrees");
}

/// Waits until garbage collection has done what it has to do: it takes an object that was made just now for an owner that is gone.
pub async fn until_collected(case: &Case<'_>, owner_name: &str, owner_uid: &str) {
    let mut canary = case.config_map(&verbs::unique_name("canary"), serde_json::json!({}));
    canary["metadata"]["ownerReferences"] = serde_json::json!([{"apiVersion": "core.rukpak.io/v1alpha1",
        "kind": "BundleDeployment", "name": owner_name, "uid": owner_uid}]);
    case.foreign(&canary).await;
    case.until_gone(&verbs::Target::of(&canary).expect("it has a name")).await;
}
