//! The manager is killed at any moment, and there may be two of them.

use std::time::{Duration, Instant};

use futures::future::join_all;
use kube::api::DeleteParams;
use rukpak_tests::PlatformOptions;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::verbs::{Expected, Target};

use super::case::{Case, Remains, image_of, installed, version_of};
use super::recording::images;
use super::world::{Platform, default_catalog_source};

/// Versions of the package that is upgraded.
const VERSIONS: [&str; 5] = ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"];

/// Killed in a loop, it goes on where it was: no version is left out, none comes twice, nobody's edit is seen where none is.
#[tokio::test]
async fn an_upgrade_goes_on_after_the_manager_is_killed_at_any_moment() {
    let world = Platform::alone().await;
    world.open().await;
    let case = Case::within(&world, "killed").await;
    let (all, built) = case.chain(&VERSIONS).await;
    case.install(&VERSIONS[..1], Some("Automatic")).await;
    let deployments = case.record(&case.deployment()).await;
    let operators = case.record(&case.target()).await;
    world.manager.kill().await.expect("killed");
    let start = Instant::now();
    world.manager.restart().await.expect("restarted");
    world.manager.wait_ready().await.expect("ready");
    let step = (start.elapsed() / 20).max(Duration::from_millis(25));
    world.manager.kill().await.expect("killed");
    case.publish(all).await;
    for moment in 0.. {
        world.manager.restart().await.expect("restarted");
        // Later and later after its start, so that every write is once the last one.
        let life = Duration::from_millis(60) + step * moment;
        let end = tokio::time::timeout(life, deployments.until("the end", |seen| image_of(&seen.object) == built[4]));
        if end.await.is_ok() || moment == 40 {
            break;
        }
        world.manager.kill().await.expect("killed");
    }
    case.until_version("1.4.0").await;
    let mut found = images(&deployments.so_far());
    found.retain(|image| *image != built[0]);
    assert_eq!(found, built[1..]);
    let edited = |seen: &super::recording::Seen| super::case::message(&seen.object, "Ready").contains("was edited");
    assert!(!operators.so_far().iter().any(edited), "its own step was taken for an edit");
    world.manager.wait_ready().await.expect("ready");
    let remains = case.leave().await;
    drop(world);
    remains.until_gone().await;
}

/// What was said of a BundleDeployment that went while nobody looked is not said of the version that comes after it.
#[tokio::test]
async fn a_version_that_is_only_chosen_is_not_said_to_be_ready() {
    let world = Platform::alone().await;
    world.open().await;
    let case = Case::within(&world, "chosen").await;
    case.install(&["1.0.0"], None).await;
    case.until_version("1.0.0").await;
    world.manager.kill().await.expect("killed");
    case.publish(case.chain(&["1.0.0", "1.1.0"]).await.0).await;
    case.delete_as(&case.deployment(), &DeleteParams::foreground()).await;
    case.until_gone(&case.deployment()).await;
    let recording = case.record(&case.target()).await;
    world.manager.restart().await.expect("restarted");
    let seen = recording.until("the new version", |seen| version_of(&seen.object) == "1.1.0").await;
    let noted = seen.iter().find(|seen| version_of(&seen.object) == "1.1.0").expect("it was there a moment ago");
    let pending = Expected { kind: "Ready", status: "Unknown", reason: None, message: "" };
    assert!(pending.met_by(&noted.object), "{:#}", noted.object.data);
    assert!(Expected::is_false("Installed", "InstallPending").met_by(&noted.object), "{:#}", noted.object.data);
    case.until_version("1.1.0").await;
    let remains = case.leave().await;
    drop(world);
    remains.until_gone().await;
}

#[tokio::test]
async fn of_two_managers_one_writes_and_the_other_takes_over() {
    const TIMES: [&str; 2] = ["--leader-elect", "--leader-elect-lease-duration=8s"];
    let world = Platform::alone().await;
    world.open().await;
    world.manager.end();
    let mut replicas = Vec::new();
    for pod in ["one", "two"] {
        let environment = vec![("POD_NAME".to_owned(), pod.to_owned())];
        let arguments = TIMES.map(str::to_owned).into_iter().chain([default_catalog_source()]).collect();
        let options = PlatformOptions { arguments, environment, ..PlatformOptions::default() };
        let replica = world.plane.start_platform(options).await.expect("the replica starts");
        replica.wait_ready().await.expect("who stands by is ready too");
        replicas.push(replica);
    }
    let case = Case::within(&world, "led").await;
    let lease = Target::namespaced("coordination.k8s.io/v1", "Lease", SYSTEM_NAMESPACE, "ffdf93bc.openshift.io");
    let held_by = async |pod: &str| {
        case.until_object(&lease, pod, |lease| lease.data["spec"]["holderIdentity"] == pod).await;
    };
    held_by("one").await;
    case.install(&["1.0.0"], None).await;
    replicas[0].kill().await.expect("killed");
    held_by("two").await;
    let other = Case::within(&world, "led").await;
    other.install(&["1.0.0"], None).await;
    let operator = case.get(&case.target()).await;
    assert!(installed().met_by(&operator) && version_of(&operator) == "1.0.0");
    assert_eq!(replicas[1].terminate().await.expect("ended"), "exit status: 0");
    held_by("").await;
    world.manager.restart().await.expect("started");
    world.manager.wait_ready().await.expect("ready");
    let remains = [case.leave().await, other.leave().await];
    drop(world);
    join_all(remains.map(Remains::until_gone)).await;
}
