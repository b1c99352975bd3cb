//! Certificates come and go, and no call is refused.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::verbs::{self, Target, unique_name};
use serde_json::{Value, json};

use super::helpers::{assert_denied, bundle, create, image, patch_refused};
use super::private::{LIFETIME_SECONDS, Private, ca_bundle, configuration, private, probe, secret};

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
async fn expiry(private: &Private) -> String {
    let metrics = reqwest::Client::builder().no_proxy().build().expect("the client is well-formed");
    let metrics = metrics.get(format!("{}/metrics", private.webhook.http_url)).send().await.expect("it answers");
    let text = metrics.text().await.expect("it is text");
    let expiry =
        text.lines().find_map(|line| line.strip_prefix("rukpak_webhook_certificate_expiry_timestamp_seconds "));
    expiry.unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Waits until new connections get another certificate than the one that expires at `seen`, and calls are answered then.
async fn served(private: &Private, seen: &str, answered: &AtomicUsize) -> String {
    let end = tokio::time::Instant::now() + PATIENCE;
    let again = async |what: &str| {
        assert!(tokio::time::Instant::now() < end, "{what} after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await; // neither can be watched
    };
    let mut now = expiry(private).await;
    while now == seen {
        again("the new certificate is not served").await;
        now = expiry(private).await;
    }
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

#[tokio::test]
async fn rotation_refuses_no_call() {
    let private = private().await;
    let client = private.admin().await;
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let rotations = async {
        let mut certificates = BTreeSet::new();
        let mut last = renewed(&client, "").await;
        let mut expires = served(&private, "", &answered).await;
        for _ in 0..2 {
            certificates.insert(last.clone());
            last = renewed(&client, &last).await;
            expires = served(&private, &expires, &answered).await;
        }
        certificates.insert(last.clone());

        // What cannot be used is replaced, while the certificate in memory is served on.
        let corrupt = json!({"data": {"tls.crt": BASE64_STANDARD.encode("garbage")}});
        verbs::merge(&client, &secret(), &corrupt).await.unwrap();
        last = renewed(&client, &last).await;
        certificates.insert(last.clone());
        expires = served(&private, &expires, &answered).await;
        verbs::delete(&client, &secret()).await.unwrap();
        certificates.insert(renewed(&client, &last).await);
        served(&private, &expires, &answered).await;
        stop.store(true, Ordering::Relaxed);
        certificates.len()
    };
    let (one, two, three, certificates) = tokio::join!(
        calls(&client, &stop, &answered),
        calls(&client, &stop, &answered),
        calls(&client, &stop, &answered),
        rotations
    );
    let refused: Vec<String> = [one, two, three].concat();
    let answered = answered.into_inner();
    assert!(refused.is_empty(), "{} of {answered} calls were refused: {refused:#?}", refused.len());
    assert_eq!(certificates, 5);
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
        webhooks.len() == 3 && bundles.all(|bundle| Some(bundle) == first)
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

    let (readyz, text) = probe(&private.webhook, "readyz").await.unwrap();
    assert_eq!(readyz, 200, "{text}");
    for check in ["running", "listener", "certificate", "trust"] {
        assert!(text.contains(&format!("[+]{check} ok\n")), "{text}");
    }
    assert_eq!(probe(&private.webhook, "healthz").await.unwrap(), (200, "ok".to_owned()));
}
