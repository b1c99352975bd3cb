//! Two processes keep one certificate: whichever is called, and whoever renews it, what is served is trusted.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::Client;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::{SOON, World};
use rukpak_tests::{Process, WebhookOptions, tools};
use serde_json::{Value, json};

use super::direct::review;
use super::helpers::{bundle, image};

/// A renewal every 14 seconds.
const LIFETIME: &str = "20s";
/// A call that takes longer than a twentieth of that, from what the API server trusts to the handshake, may meet a later certificate.
const LATE: Duration = Duration::from_secs(1);
const RENEWALS: usize = 2;

struct Replica {
    process: Process,
    address: SocketAddr,
    answered: AtomicUsize,
}

/// A configuration that leads nobody here: only its `caBundle` is looked at.
fn configuration(name: &str) -> Value {
    let service = json!({"name": "rukpak-webhook-service", "namespace": name, "port": 443,
                         "path": "/validate-core-rukpak-io-v1alpha1-bundle"});
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
           "webhooks": [{"name": "vbundles.core.rukpak.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                         "failurePolicy": "Ignore", "clientConfig": {"service": service},
                         "rules": [{"apiGroups": ["nobody.example.test"], "apiVersions": ["v1"], "operations": ["CREATE"],
                                    "resources": ["nothings"]}]}]})
}

async fn start(world: &World, name: &str) -> Replica {
    let port = tools::free_port().expect("a port is free");
    let arguments = [
        format!("--system-namespace={name}"),
        format!("--webhook-configuration={name}"),
        format!("--webhook-bind-address=127.0.0.1:{port}"),
        format!("--certificate-lifetime={LIFETIME}"),
    ];
    let kubeconfig = Some(world.plane.kubeconfig_path().to_owned());
    let options = WebhookOptions { arguments: arguments.into(), kubeconfig, ..WebhookOptions::default() };
    let process = world.plane.start_webhook(options).await.unwrap_or_else(|error| panic!("{error:#}"));
    process.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
    Replica { process, address: SocketAddr::from(([127, 0, 0, 1], port)), answered: AtomicUsize::new(0) }
}

/// What the API server trusts, and how a new connection to the replica is answered by that.
async fn call(client: &Client, replica: &Replica, name: &str) -> Result<(), String> {
    let target = Target::cluster("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", name);
    let configuration = verbs::get(client, &target).await.expect("it can be read").expect("it exists");
    let bundle_of = configuration.data["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default();
    let pem = BASE64_STANDARD.decode(bundle_of).expect("caBundle is base64");
    let authorities = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string())?;
    let host = format!("rukpak-webhook-service.{name}.svc");
    let http = reqwest::Client::builder().tls_certs_only(authorities).resolve(&host, replica.address).no_proxy();
    let url = format!("https://{host}:{}/validate-core-rukpak-io-v1alpha1-bundle", replica.address.port());
    let question = review("CREATE", &Value::Null, &bundle("b", &image()));
    let answer = http.build().expect("a client").post(url).json(&question).send().await;
    let answer = answer.map_err(|error| format!("{error:?}"))?;
    if answer.status().as_u16() == 200 { Ok(()) } else { Err(answer.status().to_string()) }
}

async fn calls(client: &Client, replica: &Replica, name: &str, stop: &AtomicBool) -> Vec<String> {
    let mut refused = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let since = Instant::now();
        match call(client, replica, name).await {
            Ok(()) => {
                replica.answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) if since.elapsed() > LATE => {}
            Err(error) => refused.push(error),
        }
    }
    refused
}

async fn certificate(client: &Client, name: &str) -> String {
    let target = Target::namespaced("v1", "Secret", name, "rukpak-webhook-certificate");
    let secret = verbs::get(client, &target).await.expect("it can be read").expect("it exists");
    secret.data["data"]["tls.crt"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn two_replicas_renew_one_certificate_and_no_call_is_refused() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = verbs::namespace(&client, "replicas").await.expect("a namespace can be made");
    verbs::create(&client, &configuration(&name)).await.unwrap_or_else(|error| panic!("{error:#}"));
    let replicas = [start(world, &name).await, start(world, &name).await];
    let stop = AtomicBool::new(false);
    let renewals = async {
        let end = tokio::time::Instant::now() + SOON;
        let (mut renewals, mut seen) = (0, certificate(&client, &name).await);
        while renewals < RENEWALS {
            let now = certificate(&client, &name).await;
            renewals += usize::from(now != seen);
            seen = now;
            assert!(tokio::time::Instant::now() < end, "only {renewals} renewals");
            tokio::time::sleep(Duration::from_millis(50)).await; // who calls reads the API server as well
        }
        stop.store(true, Ordering::Relaxed);
    };
    let [one, two] = &replicas;
    let (first, second, ()) =
        tokio::join!(calls(&client, one, &name, &stop), calls(&client, two, &name, &stop), renewals);
    assert_eq!((first, second), (Vec::new(), Vec::new()));
    for replica in &replicas {
        assert!(replica.answered.load(Ordering::Relaxed) > 10);
        assert!(replica.process.exit_status().expect("nobody panicked").is_none());
    }
    let target = Target::of(&configuration(&name)).expect("it has a name");
    verbs::delete(&client, &target).await.expect("the administrator may");
}
