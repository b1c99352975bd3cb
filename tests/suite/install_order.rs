//! OpenShift's manifests, applied in any order, converge: as the installer's bootstrap creates them, and as the
//! cluster-version operator applies them, object by object, again and again until each is taken.
//!
//! The seeds of the orders are printed; `INSTALL_ORDER_SEEDS=7,8` runs these. The service CA of OpenShift, which makes
//! certificates for annotated Services and fills in `caBundle`, is played by the test.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod apply;
mod converged;
mod programs;
mod service_ca;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apply::{How, all_at_once, in_passes, shuffled};
use rukpak_tests::plane::yaml;
use rukpak_tests::{Plane, tools};
use serde_json::{Value, json};
use service_ca::ServiceCa;

const NAMESPACE: &str = "openshift-platform-operators";
const CONFIGURATION: &str = "platform-operators-rukpak-validating-webhook-configuration";
const WEBHOOK_SERVICE: &str = "platform-operators-rukpak-webhook-service";
/// Longest way to convergence. Upstream's script allows ten minutes, Pods included.
const DEADLINE: Duration = Duration::from_mins(2);

/// Everything there is to apply: our manifests, the examples, and the definitions that OpenShift brings itself.
fn objects(webhook_port: u16) -> Vec<Value> {
    let folders = ["manifests/openshift", "manifests/overlays/openshift/examples", "tests/fixtures/openshift"];
    let mut objects = Vec::new();
    for folder in folders.map(|folder| tools::workspace_folder().join(folder)) {
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let read = yaml::objects_of_file(&file).unwrap_or_else(|error| panic!("{error:#}"));
            objects.extend(read.iter().map(|object| adapted(serde_json::to_value(object).unwrap(), webhook_port)));
        }
    }
    objects
}

/// What a plane without a network for Services needs: the API server calls the webhook on this machine.
fn adapted(mut object: Value, webhook_port: u16) -> Value {
    if object["kind"] == "Service" && object["metadata"]["name"] == WEBHOOK_SERVICE {
        object["spec"] = json!({"type": "ExternalName", "externalName": "localhost"});
    }
    if object["kind"] == "ValidatingWebhookConfiguration" {
        for webhook in object["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]["service"]["port"] = json!(webhook_port);
        }
    }
    object
}

/// The seeds of this run: those of the environment, else a fixed and a fresh one.
fn seeds() -> Vec<u64> {
    if let Ok(text) = std::env::var("INSTALL_ORDER_SEEDS") {
        return text.split(',').map(|seed| seed.trim().parse().expect("INSTALL_ORDER_SEEDS=1,2,3")).collect();
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    vec![1, now.as_secs()]
}

#[tokio::test]
async fn any_order_converges() {
    for seed in seeds() {
        println!("INSTALL_ORDER_SEEDS={seed}");
        let plane = Plane::start().await.unwrap_or_else(|error| panic!("{error:#}"));
        let (client, port) = (plane.admin().await.unwrap(), tools::free_port().unwrap());
        let objects = objects(port);
        let refusals = in_passes(&client, &shuffled(&objects, seed), How::Apply, DEADLINE).await;
        let refusals = refusals.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
        println!("seed {seed}: something was refused in {refusals} passes");
        converged::check(&client, &objects).await;
        let service_ca = ServiceCa::new();
        let works = programs::run(&plane, &client, &objects, &service_ca, port).await;

        // The cluster-version operator never stops applying, and breaks nothing of what has happened since.
        let again = in_passes(&client, &shuffled(&objects, seed + 1), How::Apply, DEADLINE).await;
        assert_eq!(again.unwrap_or_else(|error| panic!("seed {seed}: {error:#}")), 0, "everything has its place now");
        converged::check(&client, &objects).await;
        works.still(&client).await;
        plane.end();
    }
}

/// Worst first: nothing that another object needs is there before it.
#[tokio::test]
async fn the_wrong_way_round_converges() {
    let plane = Plane::start().await.unwrap_or_else(|error| panic!("{error:#}"));
    let client = plane.admin().await.unwrap();
    let mut objects = objects(tools::free_port().unwrap());
    objects.reverse();
    let refusals = in_passes(&client, &objects, How::Create, DEADLINE).await;
    let refusals = refusals.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(refusals > 0, "this order needs more than one pass, or it shows nothing");
    converged::check(&client, &objects).await;
    plane.end();
}

/// As at the start of an installation: everybody applies, and nobody answers yet.
#[tokio::test]
async fn all_at_once_while_the_api_server_starts() {
    let plane = Plane::start().await.unwrap_or_else(|error| panic!("{error:#}"));
    let (client, port) = (plane.admin().await.unwrap(), tools::free_port().unwrap());
    plane.stop_apiserver().await.unwrap();
    let objects = objects(port);
    let refused: Vec<AtomicBool> = objects.iter().map(|_| AtomicBool::new(false)).collect();
    let start = async {
        while !refused.iter().all(|refused| refused.load(Ordering::Relaxed)) {
            tokio::time::sleep(Duration::from_millis(20)).await; // whoever tries tells by a flag
        }
        plane.start_apiserver().await
    };
    let applied = all_at_once(&client, &objects, How::Create, DEADLINE * 2, &refused);
    tokio::try_join!(applied, start).unwrap_or_else(|error| panic!("{error:#}"));
    converged::check(&client, &objects).await;
    programs::run(&plane, &client, &objects, &ServiceCa::new(), port).await.still(&client).await;
    plane.end();
}
