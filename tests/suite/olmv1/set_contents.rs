//! The Secrets with what the phases of a ClusterObjectSet hold.

use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::verbs::Expected;
use rukpak_tests::world::{deployment, image};
use serde_json::{Value, json};

use super::case::{Case, retrying};
use super::object_sets::{config_map, inline, object, of_secret, secret, set, until_there};
use super::rights::MANAGER;

/// Names of those of the case's set.
pub async fn contents(case: &Case<'_>) -> Vec<String> {
    let secrets: Api<Secret> = Api::namespaced(case.client.clone(), SYSTEM_NAMESPACE);
    let all = secrets.list_metadata(&ListParams::default()).await.expect("the API server agrees");
    let start = format!("{}.", case.name);
    all.items.iter().map(ResourceExt::name_any).filter(|name| name.starts_with(&start)).collect()
}

/// How often the manager has written them.
fn writes(case: &Case<'_>) -> usize {
    let log = std::fs::read_to_string(case.world.plane.audit_log()).expect("the log can be read");
    let start = format!("{}.", case.name);
    let is_write = |event: &Value| {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        text("/stage") == "ResponseComplete"
            && text("/user/username") == MANAGER
            && text("/verb") == "patch"
            && text("/objectRef/resource") == "secrets"
            && text("/objectRef/name").starts_with(&start)
    };
    log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(is_write).count()
}

#[tokio::test]
async fn what_a_phase_holds_is_written_once_and_goes_with_the_archive() {
    let case = Case::new("contents").await;
    case.make_space().await;
    case.create(&secret(&case, &[config_map(&case, "settings", &json!({}))], true)).await;
    case.create(&of_secret(&case, &["settings"])).await;
    until_there(&case).await;
    let written = contents(&case).await;
    assert_eq!((written.len(), writes(&case)), (1, 1), "{written:?}");

    case.merge_into(&set(&case), &json!({"spec": {"lifecycleState": "Archived"}})).await;
    case.until_at(&set(&case), Expected::is_false("Progressing", "Archived")).await;
    let left = contents(&case).await;
    assert!(left.is_empty(), "{left:?}");
}

/// The BundleDeployment of its second phase is somebody else's, so that nothing is observed of it.
#[tokio::test]
async fn what_the_phases_of_a_set_that_got_stuck_hold_goes_with_the_archive() {
    let case = Case::new("begun").await;
    case.make_space().await;
    case.create(&deployment(&format!("{}.second", case.name), image("registry.invalid/none:v1"))).await;
    let phases = ["first", "second"].map(|name| (name, vec![inline(&config_map(&case, name, &json!({})))]));
    case.create(&object(&case, phases.to_vec(), &json!({}))).await;
    case.until_at(&set(&case), retrying("was not made for this ClusterObjectSet")).await;
    let begun = contents(&case).await;
    assert_eq!(begun.len(), 1, "{begun:?}");

    case.merge_into(&set(&case), &json!({"spec": {"lifecycleState": "Archived"}})).await;
    case.until_at(&set(&case), Expected::is_false("Progressing", "Archived")).await;
    let left = contents(&case).await;
    assert!(left.is_empty(), "{left:?}");
}
