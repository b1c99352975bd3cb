//! The verb ends at any of its writes: run again it finishes, or goes back.

use std::path::PathBuf;

use futures::{StreamExt, stream};
use http::StatusCode;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::verbs;
use rukpak_tests::{Act, Gate, TestCa};
use serde_json::json;

use super::case::{Case, Given};
use super::world::World;

/// So many operators are on their way at once.
const AT_ONCE: usize = 4;
/// No take-over of the small operator has so many writes.
const MOST: usize = 80;
/// What has it where the Subscription stays.
const STAYS: &str = "subscription";
/// A write of everything.
const ANY: &str = "/";

/// What is done after the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Finish,
    GoBack,
    /// The way back ends there, and is gone again.
    GoBackAgain,
}

/// A gate before the API server, and the way of an account through it that may do everything.
async fn gate(world: &World, account: &str) -> (Gate, PathBuf) {
    let ca_pem = std::fs::read_to_string(world.plane.certificate_authority_path()).expect("the API server's CA");
    let ca = TestCa::new("gate-ca").expect("a CA");
    let gate = Gate::before(&ca, world.plane.server(), &ca_pem).expect("the gate starts");
    let client = world.admin().await;
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": SYSTEM_NAMESPACE}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": account},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE}]}),
    ] {
        verbs::create(&client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
    let kubeconfig = world.plane.kubeconfig_through(account, &gate.url(), gate.ca_pem()).await.expect("a kubeconfig");
    (gate, kubeconfig)
}

/// Everything is taken over.
async fn is_over(case: &Case<'_>, to: &str) {
    if to == STAYS { case.is_followed().await } else { case.is_taken_over().await }
}

/// Fails the write of this number, then does what is asked. Whether there was such a write.
async fn at(world: &World, number: usize, then: Then, to: &str) -> bool {
    let (gate, kubeconfig) = gate(world, &format!("takeover-{to}-{number}-{then:?}").to_lowercase()).await;
    let case = Case::new(world, "killed", Given::default()).await;
    let before = case.running().await;
    let object = format!("subscription/{}", case.name);
    let forward = ["--apply", "--to", to];
    let mut arguments = vec![object.as_str(), "-n", case.space()];
    if then == Then::GoBackAgain {
        case.migrated(&forward).await;
        arguments.extend(["--back", "--apply"]);
    } else {
        arguments.extend(forward);
    }
    gate.arm(ANY, number, Act::Answer(StatusCode::INTERNAL_SERVER_ERROR));
    let did = world.migrate_by(&kubeconfig, &arguments).await;
    if gate.writes().len() < number {
        assert_eq!(did.code, Some(0), "{number} {then:?}: {did:?}");
        return false;
    }
    let write = gate.writes()[number - 1].clone();
    let told = format!("{number} {then:?}, {write}: {did:?}");
    assert_ne!(did.code, Some(0), "{told}");
    case.stays().await;
    // Nobody but us comes, and nothing is deleted behind our back.
    assert_eq!(case.running().await, before, "{told}");
    match then {
        Then::Finish => {
            let did = case.migrate(&forward).await;
            let is_done = did.code == Some(0) || did.err.contains("was taken over already");
            assert!(is_done, "{told}\n{did:?}");
            is_over(&case, to).await;
        }
        Then::GoBack if number > 1 => {
            let did = case.migrate(&["--back", "--apply"]).await;
            assert_eq!(did.code, Some(0), "{told}\n{did:?}");
            case.is_olms().await;
        }
        Then::GoBack => {}
        Then::GoBackAgain => {
            let did = case.migrate(&forward).await;
            let is_known = did.err.contains("on its way back") || did.err.contains("taken over already");
            assert!(did.code == Some(1) && is_known, "{told}\n{did:?}");
            let did = case.migrate(&["--back", "--apply"]).await;
            assert_eq!(did.code, Some(0), "{told}\n{did:?}");
            case.is_olms().await;
        }
    }
    assert_eq!(case.running().await, before, "{told}");
    case.end().await;
    true
}

async fn sweep(world: &World, then: Then, to: &str) -> usize {
    let mut tried = 0;
    let mut outcomes = stream::iter(1..=MOST).map(|number| at(world, number, then, to)).buffered(AT_ONCE);
    while let Some(true) = outcomes.next().await {
        tried += 1;
    }
    eprintln!("{to}, {then:?}: {tried} writes");
    assert!((8..MOST).contains(&tried), "{to}, {then:?}: {tried} writes");
    tried
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_at_any_write_it_finishes() {
    sweep(World::shared().await, Then::Finish, "platformoperator").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_at_any_write_it_goes_back() {
    sweep(World::shared().await, Then::GoBack, "platformoperator").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_back_ended_at_any_write_is_gone_again() {
    sweep(World::shared().await, Then::GoBackAgain, "platformoperator").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_subscription_stays_ended_at_any_write_it_finishes() {
    sweep(World::shared().await, Then::Finish, STAYS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_subscription_stays_ended_at_any_write_it_goes_back() {
    sweep(World::shared().await, Then::GoBack, STAYS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_subscription_stays_the_way_back_ended_at_any_write_is_gone_again() {
    sweep(World::shared().await, Then::GoBackAgain, STAYS).await;
}
