//! Certificates come and go, and no call is refused.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::join_all;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::Process;
use rukpak_tests::verbs::{self, Target, unique_name};
use serde_json::{Value, json};

use super::helpers::{assert_denied, bundle, create, image, patch_refused};
use super::pair::{Pair, States, metrics, reviews};
use super::private::{LIFETIME_SECONDS, ca_bundle, configuration, private, probe, secret};

/// Two renewals, and the slow machine.
const PATIENCE: Duration = Duration::from_secs(4 * LIFETIME_SECONDS);

fn entry(secret: &DynamicObject, name: &str) -> String {
    let encoded = secret.data["data"][name].as_str().unwrap_or_default();
    String::from_utf8(BASE64_STANDARD.decode(encoded).expect("it is base64")).unwrap_or_default()
}

/// Waits for another certificate in the Secret than `seen`.
async fn renewed(client: &Client, seen: &str) -> String {
    let wanted = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| {
            let certificate = entry(object, "tls.crt");
            certificate != seen && certificate.starts_with("-----BEGIN CERTIFICATE-----")
        })
    };
    let found = verbs::await_object(client, &secret(), "another certificate", PATIENCE, wanted).await;
    let secret = found.unwrap_or_else(|error| panic!("{error:#}")).expect("it was there");
    let authorities = entry(&secret, "ca.crt").matches("BEGIN CERTIFICATE").count();
    assert!(authorities >= 1, "{secret:#?}");
    assert!(entry(&secret, "tls.key").contains("PRIVATE KEY"));
    entry(&secret, "tls.crt")
}

/// When the certificate expires that new connections get, in the webhook's own words.
async fn expiry(webhook: &Process) -> String {
    let text = metrics(webhook).await;
    let expiry =
        text.lines().find_map(|line| line.strip_prefix("rukpak_webhook_certificate_expiry_timestamp_seconds "));
    expiry.unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Waits until new connections get another certificate than the one that expires at `seen`, the same of both webhooks, and calls
/// are answered then.
async fn served(webhooks: [&Process; 2], seen: &str, answered: &AtomicUsize) -> String {
    let end = tokio::time::Instant::now() + PATIENCE;
    let again = async |what: &str| {
        assert!(tokio::time::Instant::now() < end, "{what} after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await; // neither can be watched
    };
    let now = loop {
        let (first, second) = tokio::join!(expiry(webhooks[0]), expiry(webhooks[1]));
        if first != seen && first == second {
            break first;
        }
        again("the new certificate is not served").await;
    };
    let before = answered.load(Ordering::Relaxed);
    while answered.load(Ordering::Relaxed) == before {
        again("no call is answered").await;
    }
    now
}

/// Updates and creations, one after the other, until told to stop. Returns what was refused.
async fn calls(client: &Client, stop: &AtomicBool, answered: &AtomicUsize) -> Vec<String> {
    let name = unique_name("stream");
    create(client, &bundle(&name, &image())).await;
    let target = Target::bundle(&name);
    let mut refused = Vec::new();
    let mut count = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let label = json!({"metadata": {"labels": {"count": count.to_string()}}});
        if let Err(error) = verbs::merge(client, &target, &label).await {
            refused.push(format!("{error:#}"));
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
    refused
}

/// Two renewals, a certificate that cannot be used, and none at all. Returns how many certificates there were.
async fn rotations(client: &Client, webhooks: [&Process; 2], answered: &AtomicUsize) -> usize {
    let mut certificates = BTreeSet::new();
    let mut last = renewed(client, "").await;
    let mut expires = served(webhooks, "", answered).await;
    for _ in 0..2 {
        certificates.insert(last.clone());
        last = renewed(client, &last).await;
        expires = served(webhooks, &expires, answered).await;
    }
    certificates.insert(last.clone());

    // What cannot be used is replaced, while the certificate in memory is served on.
    let corrupt = json!({"data": {"tls.crt": BASE64_STANDARD.encode("garbage")}});
    verbs::merge(client, &secret(), &corrupt).await.unwrap();
    last = renewed(client, &last).await;
    certificates.insert(last.clone());
    expires = served(webhooks, &expires, answered).await;
    verbs::delete(client, &secret()).await.unwrap();
    certificates.insert(renewed(client, &last).await);
    served(webhooks, &expires, answered).await;
    certificates.len()
}

/// Two webhooks keep one certificate: whoever takes a step, the other follows, and whichever is called answers. The second ends
/// under load too.
#[tokio::test]
async fn rotation_refuses_no_call() {
    let private = private().await;
    let client = private.admin().await;
    let pair = Pair::start(&private, &client).await;
    let webhooks = [&private.webhook, &pair.second];
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (secrets, bundles) = (States::default(), States::default());
    let work = async {
        let before = join_all(webhooks.map(reviews)).await;
        let certificates = rotations(&client, webhooks, &answered).await;
        for (webhook, before) in webhooks.into_iter().zip(before) {
            assert!(reviews(webhook).await > before + 10, "calls reach both");
        }
        pair.end(&client).await;
        stop.store(true, Ordering::Relaxed);
        certificates
    };
    let load = join_all((0..3).map(|_| calls(&client, &stop, &answered)));
    let (secret, configuration) = (secret(), configuration());
    let certificate = |secret: &DynamicObject| entry(secret, "tls.crt");
    let (refused, certificates) = tokio::select! {
        done = async { tokio::join!(load, work) } => done,
        () = secrets.follow(&client, &secret, certificate) => panic!("the watch ended"),
        () = bundles.follow(&client, &configuration, |object| ca_bundle(object).to_owned()) => panic!("the watch ended"),
    };
    let (refused, answered) = (refused.concat(), answered.into_inner());
    assert!(refused.is_empty(), "{} of {answered} calls were refused: {refused:#?}", refused.len());
    assert_eq!(certificates, 5);
    // Each is written once by one of the two, and once more with the next one staged beside it.
    assert_eq!(secrets.assert_none_comes_back(2), certificates + 1, "and the garbage");
    bundles.assert_none_comes_back(4);
}

#[tokio::test]
async fn an_emptied_bundle_is_filled_again() {
    let private = private().await;
    let client = private.admin().await;
    let api = configuration().api(&client).await.unwrap();
    let empty = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let empty: Patch<Value> = Patch::Json(serde_json::from_value(empty).unwrap());
    let emptied = api.patch(&configuration().name, &PatchParams::default(), &empty).await.unwrap();
    assert_eq!(ca_bundle(&emptied), "");
    let wanted = |object: Option<&DynamicObject>| object.is_some_and(|object| !ca_bundle(object).is_empty());
    let repaired = verbs::await_object(&client, &configuration(), "a caBundle", PATIENCE, wanted).await;
    let repaired = repaired.unwrap_or_else(|error| panic!("{error:#}")).unwrap();
    // Nothing else of the configuration is the webhook's.
    assert_eq!(repaired.data["webhooks"][0]["rules"], emptied.data["webhooks"][0]["rules"]);
    // All that lead to the webhook trust the same.
    let wanted = |object: Option<&DynamicObject>| {
        let webhooks =
            object.and_then(|object| object.data["webhooks"].as_array()).map(Vec::as_slice).unwrap_or_default();
        let mut bundles = webhooks.iter().map(|webhook| &webhook["clientConfig"]["caBundle"]);
        let first = bundles.next().filter(|first| first.is_string());
        webhooks.len() == 5 && bundles.all(|bundle| Some(bundle) == first)
    };
    let all = verbs::await_object(&client, &configuration(), "one caBundle in all", PATIENCE, wanted).await;
    all.unwrap_or_else(|error| panic!("{error:#}"));
    private.webhook.wait_ready().await.unwrap();
    let name = unique_name("emptied");
    until_created(&client, &bundle(&name, &image())).await;
    let change = json!({"spec": {"provisionerClassName": "other"}});
    assert_denied(&patch_refused(&client, &Target::bundle(&name), &change).await, "bundle.spec is immutable");
}

/// The API server sees a changed configuration a moment after it is stored, and that moment cannot be watched.
async fn until_created(client: &Client, object: &Value) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while let Err(error) = verbs::create(client, object).await {
        assert!(tokio::time::Instant::now() < end, "{error:#}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn probes_tell_the_truth() {
    let private = private().await;
    let [healthz, (readyz, text)] = &private.before_install;
    assert_eq!(*healthz, (200, "ok".to_owned()));
    assert_eq!(*readyz, 503, "{text}");
    assert!(text.contains("[+]running ok\n") && text.contains("[-]trust failed: "), "{text}");

    // Another test of this webhook empties the caBundle, and the probe tells that truth, too, until it is filled again.
    let end = tokio::time::Instant::now() + PATIENCE;
    let text = loop {
        match probe(&private.webhook, "readyz").await.unwrap() {
            (200, text) => break text,
            (_, text) => assert!(tokio::time::Instant::now() < end, "{text}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await; // nobody watches a probe
    };
    for check in ["running", "listener", "certificate", "trust"] {
        assert!(text.contains(&format!("[+]{check} ok\n")), "{text}");
    }
    assert_eq!(probe(&private.webhook, "healthz").await.unwrap(), (200, "ok".to_owned()));
}
