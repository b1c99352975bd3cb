//! Webhooks of bundles: their certificates, and who trusts them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::SOON;
use rukpak_tests::{tools, verbs::Denial};
use serde_json::{Value, json};

use super::case::{Case, installed, uid};
use super::serving::{Operator, SECRET, SERVICE, handshake, reach, with_free_port};
use super::turn::turn;

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
/// Between two tries of something that no watch shows: whether the API server has caught up.
const AGAIN: Duration = Duration::from_millis(50);

/// The Secret of the fixture.
fn secret(case: &Case<'_>) -> Target {
    case.inside("v1", "Secret", SECRET)
}

/// The three objects that name the authority, and where in them it is.
fn trusting(case: &Case<'_>) -> [(Target, &'static str); 3] {
    let group = case.group();
    let webhook = "/webhooks/0/clientConfig/caBundle";
    [
        (Target::cluster(ADMISSION, "ValidatingWebhookConfiguration", &format!("vmills.{group}")), webhook),
        (Target::cluster(ADMISSION, "MutatingWebhookConfiguration", &format!("mmills.{group}")), webhook),
        (
            Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("mills.{group}")),
            "/spec/conversion/webhook/clientConfig/caBundle",
        ),
    ]
}

/// The entries of a Secret.
fn entries(secret: &DynamicObject) -> BTreeMap<String, Vec<u8>> {
    let data = secret.data["data"].as_object().cloned().unwrap_or_default();
    let decode = |value: &Value| BASE64_STANDARD.decode(value.as_str().unwrap_or_default()).expect("it is base64");
    data.iter().map(|(key, value)| (key.clone(), decode(value))).collect()
}

/// Whether everything trusts what the Secret holds at this moment.
async fn is_trusted(case: &Case<'_>) -> Result<()> {
    let secret = verbs::get(&case.client, &secret(case)).await?.context("there is no Secret")?;
    let entries = entries(&secret);
    let entry = |key: &str| entries.get(key).with_context(|| format!("the Secret has no {key}"));
    let name = format!("{SERVICE}.{}.svc", case.namespace());
    handshake(entry("tls.crt")?, entry("tls.key")?, entry("ca.crt")?, &name).await.context("ca.crt")?;
    for (target, path) in trusting(case) {
        let object = verbs::get(&case.client, &target).await?.with_context(|| format!("there is no {target}"))?;
        let bundle =
            object.data.pointer(path).and_then(Value::as_str).with_context(|| format!("{target}: no caBundle"))?;
        let authorities = BASE64_STANDARD.decode(bundle)?;
        handshake(entry("tls.crt")?, entry("tls.key")?, &authorities, &name)
            .await
            .with_context(|| target.to_string())?;
    }
    Ok(())
}

/// Waits until everything trusts the Secret.
async fn until_trusted(case: &Case<'_>) {
    let end = tokio::time::Instant::now() + SOON;
    while let Err(error) = is_trusted(case).await {
        let is_late = tokio::time::Instant::now() > end;
        assert!(!is_late, "{error:#}\n{}", verbs::diagnose(&case.client, &case.target()).await);
        tokio::time::sleep(AGAIN).await;
    }
}

/// A mill of some version.
fn mill(case: &Case<'_>, version: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{}/{version}", case.group()), "kind": "Mill",
           "metadata": {"name": name, "namespace": case.namespace()}, "spec": spec})
}

/// Waits until the API server calls the webhook: it learns of Services and configurations a moment after they are there.
async fn until_called(case: &Case<'_>) -> Denial {
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let denial = verbs::create_expecting_denial(&case.client, &mill(case, "v1", "groundless", &json!({}))).await;
        match denial {
            Ok(denial) if denial.message.contains("a mill needs ground") => return denial,
            other if tokio::time::Instant::now() > end => panic!("the webhook is not called: {other:?}"),
            _ => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// Installs the fixture with webhooks that this machine can serve, and serves them.
async fn served(case: &Case<'_>) -> Operator {
    let port = tools::free_port().expect("there is a free port");
    case.deploy(with_free_port(case, "mill/v1", port), &Value::Null).await;
    case.until(installed()).await;
    reach(case).await;
    let operator = Operator::start(case, port).await;
    until_called(case).await;
    operator
}

#[tokio::test]
async fn the_api_server_calls_the_webhooks_with_the_certificate_of_the_secret() {
    let case = Case::new("called").await;
    let operator = served(&case).await;
    let created = case.create(&mill(&case, "v1", "windy", &json!({"ground": "hill"}))).await;
    assert_eq!(created.data["spec"], json!({"ground": "hill", "sails": 4}), "the mutating webhook added sails");
    let old = case.get(&case.inside(&format!("{}/v1alpha1", case.group()), "Mill", "windy")).await;
    assert_eq!(old.data["spec"], json!({"ground": "hill", "blades": 4}), "the conversion webhook renamed them");
    for path in ["/validate", "/mutate", "/convert"] {
        assert!(operator.seen().contains(&path), "{:?}", operator.seen());
    }
    // The Service was changed by somebody else, in fields that the bundle does not name: that is no drift.
    let service = case.get(&case.inside("v1", "Service", SERVICE)).await;
    assert_eq!(service.data["spec"]["type"], "ExternalName");
}

#[tokio::test]
async fn everything_trusts_the_secret_and_its_key_is_nowhere_else() {
    let case = Case::new("secret").await;
    case.install("mill/v1").await;
    let found = case.get(&secret(&case)).await;
    assert_eq!(found.data["type"], "kubernetes.io/tls");
    let entries = entries(&found);
    assert_eq!(entries.keys().map(String::as_str).collect::<Vec<_>>(), ["ca.crt", "tls.crt", "tls.key"]);
    is_trusted(&case).await.unwrap();
    let other = format!("{SERVICE}.default.svc");
    let refused = handshake(&entries["tls.crt"], &entries["tls.key"], &entries["ca.crt"], &other).await;
    assert!(refused.is_err(), "the certificate is for one Service alone");
    for suffix in ["", ".svc.cluster.local"] {
        let name = format!("{SERVICE}.{}{suffix}", case.namespace());
        handshake(&entries["tls.crt"], &entries["tls.key"], &entries["ca.crt"], &name).await.unwrap();
    }
    let volumes = &case.get(&case.inside("apps/v1", "Deployment", "mill-manager")).await.data["spec"]["template"]["spec"]
        ["volumes"];
    let mounted = volumes.as_array().unwrap().iter().filter(|volume| volume["secret"]["secretName"] == SECRET);
    assert_eq!(mounted.count(), 2, "{volumes}");

    let mut files = 0;
    search(&case.world.controller.storage, &mut files);
    assert!(files > 0, "the store is not where it was looked for");
    let log = case.world.controller.log();
    assert!(!log.contains("PRIVATE KEY"));
    let status = case.get(&case.target()).await.data.to_string();
    assert!(!status.contains("PRIVATE KEY") && !status.contains("tls.key"), "{status}");
}

/// Asserts that no file of the store holds a key, as it is or packed.
fn search(folder: &Path, files: &mut usize) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            search(&path, files);
            continue;
        }
        // Another test's content may be collected meanwhile.
        let Ok(raw) = std::fs::read(&path) else { continue };
        let mut unpacked = Vec::new();
        let _ = flate2::read::MultiGzDecoder::new(raw.as_slice()).read_to_end(&mut unpacked);
        *files += usize::from(unpacked.windows(6).any(|window| window == b"ustar\0" || window == b"ustar "));
        for bytes in [&raw, &unpacked] {
            assert!(!bytes.windows(11).any(|window| window == b"PRIVATE KEY"), "{}", path.display());
        }
    }
}

#[tokio::test]
async fn a_lost_or_broken_secret_is_made_anew_and_trusted() {
    let case = Case::new("lost").await;
    case.install("mill/v1").await;
    let first = case.get(&secret(&case)).await;
    verbs::delete(&case.client, &secret(&case)).await.unwrap();
    let second =
        case.until_object(&secret(&case), "another UID", |object| object.metadata.uid != first.metadata.uid).await;
    assert_ne!(entries(&first)["tls.key"], entries(&second)["tls.key"], "the key is nowhere to be had back from");
    until_trusted(&case).await;
    case.until(installed()).await;

    let garbage = json!({"data": {"tls.key": BASE64_STANDARD.encode("none")}});
    verbs::merge(&case.client, &secret(&case), &garbage).await.unwrap();
    let is_mended = |object: &DynamicObject| entries(object)["tls.key"].starts_with(b"-----BEGIN PRIVATE KEY");
    let third = case.until_object(&secret(&case), "a key", is_mended).await;
    assert_eq!(uid(&third), uid(&second));
    until_trusted(&case).await;
}

#[tokio::test]
async fn a_foreign_secret_of_that_name_is_not_overwritten() {
    let case = Case::new("foreign").await;
    let metadata = json!({"name": case.namespace()});
    case.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await;
    let metadata = json!({"name": SECRET, "namespace": case.namespace()});
    let data = json!({"tls.crt": "", "tls.key": BASE64_STANDARD.encode("theirs")});
    let foreign =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data});
    let theirs = case.create(&foreign).await;
    case.deploy(case.files("mill/v1"), &Value::Null).await;
    let text = format!("Unable to continue with install: Secret {SECRET:?}");
    case.until(Expected::is_false("Installed", "InstallFailed").saying(&text)).await;
    assert_eq!(case.get(&secret(&case)).await, theirs);

    // Its end is all that was waited for.
    case.delete(&secret(&case)).await;
    case.until(installed()).await;
    is_trusted(&case).await.unwrap();
}

#[tokio::test]
async fn a_foreign_authority_is_taken_out_again() {
    let case = Case::new("tampered").await;
    case.install("mill/v1").await;
    let before = case.get(&secret(&case)).await;
    let foreign = BASE64_STANDARD.encode(rukpak_tests::TestCa::new("foreign").unwrap().pem());
    for (target, path) in trusting(&case) {
        let known = case.get(&target).await.data.pointer(path).cloned();
        let patch = if path.starts_with("/spec") {
            json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": foreign}}}}})
        } else {
            let mut webhooks = case.get(&target).await.data["webhooks"].clone();
            webhooks[0]["clientConfig"]["caBundle"] = json!(foreign);
            json!({ "webhooks": webhooks })
        };
        let tampered = verbs::merge(&case.client, &target, &patch).await.unwrap();
        assert_eq!(tampered.data.pointer(path), Some(&json!(foreign)));
        case.until_object(&target, "our authority", |object| object.data.pointer(path) == known.as_ref()).await;
    }
    is_trusted(&case).await.unwrap();
    assert_eq!(entries(&case.get(&secret(&case)).await), entries(&before), "no reason for another certificate");
}

/// When the certificate of the case is to be renewed, by its status.
async fn due(case: &Case<'_>) -> SystemTime {
    let status = case.get(&case.target()).await.data["status"].clone();
    let due: Time = serde_json::from_value(status["inventory"]["certificatesRenewal"].clone()).expect("it is a time");
    SystemTime::from(due.0)
}

/// Two renewals, with the controller ended and started in between: before the first, and in the middle of it. Whoever looks
/// trusts what is served, and no request is refused. A third of the lifetime is how long everything may stand still on a busy
/// machine: 15 seconds were too few for one that runs all suites at once.
#[tokio::test]
async fn a_renewal_is_noticed_by_nobody() {
    let world = turn(&["--bundle-cert-lifetime=90s"]).await;
    let case = Case::in_world(&world, "renewal").await;
    let operator = served(&case).await;
    let (first, due) = (case.get(&secret(&case)).await, due(&case).await);
    world.controller.terminate().await.unwrap();
    world.controller.restart().await.unwrap();
    world.controller.wait_ready().await.unwrap();

    let watching = watch(&case, &operator);
    let breaking = async {
        let target = secret(&case);
        let until = async |what: &str, wanted: &dyn Fn(&DynamicObject) -> bool| {
            let wanted = |object: Option<&DynamicObject>| object.is_some_and(wanted);
            let found = verbs::await_object(&case.client, &target, what, Duration::from_mins(2), wanted).await;
            found.unwrap_or_else(|error| panic!("{error:#}"));
        };
        until("another Secret", &|object| object.data["data"] != first.data["data"]).await;
        assert!(SystemTime::now() >= due, "a restart is no reason for another certificate");
        until("a staged certificate", &|object| entries(object).contains_key("next-tls.crt")).await;
        world.controller.kill().await.unwrap();
        world.controller.restart().await.unwrap();
        world.controller.wait_ready().await.unwrap();
    };
    tokio::join!(watching, breaking);
    let last = entries(&case.get(&secret(&case)).await);
    assert_ne!(last["tls.crt"], entries(&first)["tls.crt"]);
}

/// Asks for mills of both versions until both were answered with the third certificate; they must have been with the second.
async fn watch(case: &Case<'_>, operator: &Operator) {
    let end = tokio::time::Instant::now() + Duration::from_mins(5);
    let (mut requests, mut answered) = (0, BTreeSet::new());
    while !answered.is_superset(&BTreeSet::from([(3, "v1"), (3, "v1alpha1")])) {
        assert!(tokio::time::Instant::now() < end, "{} certificates after {requests} requests", operator.generations());
        let certificate = operator.generations();
        is_trusted(case).await.unwrap_or_else(|error| panic!("after {requests} requests: {error:#}"));
        let version = if requests % 2 == 0 { "v1" } else { "v1alpha1" };
        let new = mill(case, version, &format!("mill-{requests}"), &json!({"ground": "hill"}));
        create(&case.client, &new).await;
        answered.insert((certificate, version));
        requests += 1;
    }
    assert!(answered.is_superset(&BTreeSet::from([(2, "v1"), (2, "v1alpha1")])), "{answered:?}");
}

async fn create(client: &Client, object: &Value) {
    verbs::create(client, object).await.unwrap_or_else(|error| panic!("{error:#}"));
}
