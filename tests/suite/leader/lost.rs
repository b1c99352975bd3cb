//! A leader that loses the Lease: it writes no more and stands by, in the same process, and leads again when it can.

use std::time::Duration;

use kube::ResourceExt as _;
use reqwest::StatusCode;
use rukpak_tests::verbs::{self, Expected};
use rukpak_tests::world::until;
use rukpak_tests::{Fault, Process, Rule};
use serde_json::json;

use crate::leader::{LONG, SHORT, Stage, holder, lease, transitions};

/// Of a holder who does not look at the Lease for minutes.
const SELDOM: &str = "--leader-elect-lease-duration=1h";
/// What is left of a Lease of [`SHORT`] when its leader has to stop.
const LEFT: Duration = Duration::from_secs(5);

/// Writes somebody into the Lease, for minutes; the empty name frees it.
async fn hand_to(stage: &Stage, holder: &str) {
    let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 300});
    verbs::merge(&stage.client, &lease(), &json!({ "spec": spec })).await.expect("the administrator may");
}

/// Waits until a process that led is a candidate, by what it has written after `begin` bytes. It has not ended.
pub async fn stands_by_again(process: &Process, begin: usize) {
    process.until_logged(begin, "leading no more; standing by").await.unwrap_or_else(|error| panic!("{error:#}"));
    process.until_logged(begin, "waiting to become leader").await.unwrap_or_else(|error| panic!("{error:#}"));
    runs(process);
}

/// Fails if the process that was started has ended.
fn runs(process: &Process) {
    assert_eq!(process.exit_status().expect("a keeper"), None, "{}", process.log_tail(20));
}

/// Its answer to the question whether it is ready.
async fn readiness(process: &Process) -> (StatusCode, String) {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let answer = http.get(format!("{}/readyz", process.health_url)).send().await.expect("it listens");
    (answer.status(), answer.text().await.expect("text"))
}

#[tokio::test]
async fn a_leader_whose_lease_somebody_takes_writes_no_more_until_that_one_is_gone() {
    let stage = Stage::set().await;
    let process = stage.start("robbed", LONG).await;
    stage.held_by("robbed").await;
    stage.installs(&process).await;
    let begin = process.log().len();

    hand_to(&stage, "robber").await;
    process.until_logged(begin, "robber took the Lease over").await.unwrap();
    stands_by_again(&process, begin).await;
    let name = stage.deploy().await;
    process.wait_ready().await.expect("who stands by is ready");
    let lease = stage.held_by("robber").await;
    assert_eq!(lease.data["spec"]["leaseDurationSeconds"], 300, "nobody else wrote it");

    hand_to(&stage, "").await;
    let lease = stage.held_by("robbed").await;
    until(&stage.client, &name, Expected::is_true("Installed", "InstallationSucceeded")).await;
    let labels = format!("core.rukpak.io/owner-name={name}");
    let bundles = verbs::list(&stage.client, "core.rukpak.io/v1alpha1", "Bundle", &labels).await.expect("a list");
    let created = bundles[0].creation_timestamp().expect("the API server's").0.to_string();
    let led = lease.data["spec"]["acquireTime"].as_str().expect("it says since when");
    // To the second, as creation times are.
    assert!(created[..19] >= led[..19], "created {created} by who leads since {led}");
    runs(&process);
    assert_eq!(process.terminate().await.unwrap(), "exit status: 0");
}

#[tokio::test]
async fn a_leader_without_an_api_server_for_longer_than_its_lease_goes_on_when_there_is_one() {
    let stage = Stage::set().await;
    let proxy = stage.proxy();
    let process = stage.begin("cut-off", SHORT, Some(&proxy)).await;
    process.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
    stage.installs(&process).await;
    let begin = process.log().len();

    proxy.add(Rule::on("/", Fault::Hang));
    process
        .until_logged(begin, "could not be renewed for 10s, two thirds of --leader-elect-lease-duration")
        .await
        .unwrap();
    stands_by_again(&process, begin).await;
    let (status, checks) = readiness(&process).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{checks}");
    let failures = process.log()[begin..].matches("cannot renew the Lease").count();
    assert_eq!(failures, 1, "one line, however often it is tried");
    // Another one could have taken it from then on: there is none.
    tokio::time::sleep(LEFT).await;

    proxy.mend();
    stage.installs(&process).await;
    let lease = stage.held_by("cut-off").await;
    assert_eq!(transitions(&lease), 0, "the same holder");
    runs(&process);
    assert_eq!(process.terminate().await.unwrap(), "exit status: 0");
}

#[tokio::test]
async fn a_leader_that_is_told_to_end_frees_no_lease_of_somebody_else() {
    let stage = Stage::set().await;
    let process = stage.start("robbed", SELDOM).await;
    stage.held_by("robbed").await;

    hand_to(&stage, "robber").await;
    let taken = verbs::get(&stage.client, &lease()).await.expect("readable").expect("it is there");
    assert_eq!(process.terminate().await.unwrap(), "exit status: 0");
    let left = verbs::get(&stage.client, &lease()).await.expect("readable").expect("it is there");
    assert_eq!(holder(&left), "robber");
    assert_eq!(left.resource_version(), taken.resource_version(), "nobody wrote it");
}
