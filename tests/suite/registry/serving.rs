//! The operator of the fixture `mill`, played by the test: it serves the webhooks with the certificate that the Secret holds,
//! to the API server itself.

use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use rukpak_tests::{Leaf, tls, tools, verbs};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};

use super::case::{Case, Files};

/// The Deployment, Service and Secret of the fixture.
pub const SERVICE: &str = "mill-manager-service";
/// The Secret with the certificate.
pub const SECRET: &str = "mill-manager-service-cert";
/// Names the Secret whose authority an object trusts.
const CA_ANNOTATION: &str = "core.rukpak.io/inject-ca-from";
/// The port in the fixture, which a test replaces by one that is free.
const PORT: &str = "4443";

/// An operator that serves.
pub struct Operator {
    _served: tls::Served,
    reading: tokio::task::JoinHandle<()>,
    seen: Seen,
    certificates: Arc<Served>,
}

/// The paths that were asked for, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<&'static str>>>);

/// The certificate that is served now, and how often it changed.
#[derive(Debug, Default)]
struct Served(Mutex<(Option<Arc<CertifiedKey>>, usize)>);

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.lock().ok()?.0.clone()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// The files of the fixture with a port of this machine, and the port.
pub fn with_free_port(case: &Case<'_>, fixture: &str, port: u16) -> Files {
    let mut files = case.files(fixture);
    for (_, text) in &mut files {
        *text = text.replace(PORT, &port.to_string());
    }
    files
}

/// Has the API server find the Service on this machine, as `Plane::install` does for the system's own.
pub async fn reach(case: &Case<'_>) {
    let target = case.inside("v1", "Service", SERVICE);
    let patch = json!({"spec": {"type": "ExternalName", "externalName": "localhost", "clusterIP": null}});
    verbs::merge(&case.client, &target, &patch).await.unwrap_or_else(|error| panic!("{error:#}"));
}

impl Operator {
    /// Serves on `port` with what the Secret holds, read anew whenever it changes.
    pub async fn start(case: &Case<'_>, port: u16) -> Self {
        let certificates = Arc::new(Served::default());
        let (seen, router) = router();
        let served = tls::serve_with(router, port, Arc::clone(&certificates) as Arc<dyn ResolvesServerCert>)
            .unwrap_or_else(|error| panic!("{error:#}"));
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let reading = tokio::spawn(read(case.client.clone(), case.namespace(), Arc::clone(&certificates), sender));
        receiver.await.expect("the Secret is read");
        Self { _served: served, reading, seen, certificates }
    }

    /// The paths that were asked for so far.
    pub fn seen(&self) -> Vec<&'static str> {
        self.seen.0.lock().map(|seen| seen.clone()).unwrap_or_default()
    }

    /// How many certificates it has served with.
    pub fn generations(&self) -> usize {
        self.certificates.0.lock().map_or(0, |served| served.1)
    }
}

/// Serves with what the Secret holds, for as long as it is watched.
async fn read(client: Client, namespace: String, served: Arc<Served>, first: tokio::sync::oneshot::Sender<()>) {
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let mut first = Some(first);
    let mut stream = std::pin::pin!(watcher::watch_object(secrets, SECRET).default_backoff());
    while let Some(step) = stream.next().await {
        let Ok(Some(secret)) = step else { continue };
        let data = secret.data.unwrap_or_default();
        let text = |key: &str| data.get(key).map(|value| value.0.clone()).unwrap_or_default();
        let Ok(key) = certified(&text("tls.crt"), &text("tls.key")) else { continue };
        if let Ok(mut served) = served.0.lock()
            && served.0.as_ref().is_none_or(|now| now.cert != key.cert)
        {
            *served = (Some(Arc::new(key)), served.1 + 1);
        }
        if let Some(first) = first.take() {
            // The receiver is gone only when the test is.
            let _ = first.send(());
        }
    }
}

fn certified(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let key = rustls::crypto::ring::sign::any_supported_type(&key)?;
    Ok(CertifiedKey::new(chain, key))
}

fn router() -> (Seen, Router) {
    let seen = Seen::default();
    let router = Router::new()
        .route("/validate", post(validate))
        .route("/mutate", post(mutate))
        .route("/convert", post(convert))
        .route("/apis/{group}/v1", get(list_resources))
        .route("/apis/{group}/v1/namespaces/{namespace}/pumps", get(list_pumps))
        .with_state(seen.clone());
    (seen, router)
}

impl Seen {
    fn note(&self, path: &'static str) {
        if let Ok(mut seen) = self.0.lock() {
            seen.push(path);
        }
    }
}

fn answer(review: &Value, response: Value) -> Json<Value> {
    let mut response = response;
    response["uid"] = review["request"]["uid"].clone();
    Json(json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}))
}

/// Refuses a mill without ground under it.
async fn validate(State(seen): State<Seen>, Json(review): Json<Value>) -> Json<Value> {
    seen.note("/validate");
    let is_sound = review["request"]["object"]["spec"]["ground"].is_string();
    answer(&review, json!({"allowed": is_sound, "status": {"message": "a mill needs ground"}}))
}

/// Gives a mill four sails.
async fn mutate(State(seen): State<Seen>, Json(review): Json<Value>) -> Json<Value> {
    seen.note("/mutate");
    let spec = &review["request"]["object"]["spec"];
    if !spec["sails"].is_null() || !spec["blades"].is_null() {
        return answer(&review, json!({"allowed": true}));
    }
    let patch = json!([{"op": "add", "path": "/spec/sails", "value": 4}]).to_string();
    answer(&review, json!({"allowed": true, "patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(patch)}))
}

/// `sails` of v1 are `blades` of v1alpha1.
async fn convert(State(seen): State<Seen>, Json(review): Json<Value>) -> Json<Value> {
    seen.note("/convert");
    let wanted = review["request"]["desiredAPIVersion"].clone();
    let objects = review["request"]["objects"].as_array().cloned().unwrap_or_default();
    let is_new = wanted.as_str().is_some_and(|version| version.ends_with("/v1"));
    let (from, to) = if is_new { ("blades", "sails") } else { ("sails", "blades") };
    let convert = |mut object: Value| {
        object["apiVersion"] = wanted.clone();
        if let Some(count) = object["spec"].as_object_mut().and_then(|spec| spec.remove(from)) {
            object["spec"][to] = count;
        }
        object
    };
    let converted: Vec<Value> = objects.into_iter().map(convert).collect();
    answer(&review, json!({"result": {"status": "Success"}, "convertedObjects": converted}))
}

/// What an extension API server answers to discovery.
async fn list_resources(Path(group): Path<String>) -> Json<Value> {
    let pumps = json!({"name": "pumps", "singularName": "pump", "namespaced": true, "kind": "Pump", "verbs": ["list"]});
    Json(
        json!({"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": format!("{group}/v1"), "resources": [pumps]}),
    )
}

async fn list_pumps(Path((group, namespace)): Path<(String, String)>) -> Json<Value> {
    let pump = json!({"metadata": {"name": "first", "namespace": namespace}});
    Json(json!({"apiVersion": format!("{group}/v1"), "kind": "PumpList", "metadata": {}, "items": [pump]}))
}

/// A handshake in memory between a server with this certificate and key and a client that trusts `authorities` alone and
/// wants `name`.
pub async fn handshake(certificate: &[u8], key: &[u8], authorities: &[u8], name: &str) -> Result<()> {
    tools::use_ring();
    let leaf = Leaf { cert_pem: String::from_utf8(certificate.to_vec())?, key_pem: String::from_utf8(key.to_vec())? };
    let mut roots = rustls::RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities) {
        roots.add(authority?)?;
    }
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let acceptor = tls::acceptor(&leaf)?;
    let (near, far) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from(name.to_owned())?;
    let (connected, accepted) = tokio::join!(connector.connect(name, near), acceptor.accept(far));
    connected.context("the client does not trust it")?;
    accepted.context("the server cannot serve it")?;
    Ok(())
}

/// How many of the object's clients call a Service with a certificate that we made. Each must be trusted with what its object
/// says: whatever the Secret holds that the object is annotated with.
pub async fn is_trusted_by(client: &Client, object: &DynamicObject) -> Result<usize> {
    let annotations = object.metadata.annotations.clone().unwrap_or_default();
    let Some((namespace, name)) = annotations.get(CA_ANNOTATION).and_then(|secret| secret.split_once('/')) else {
        return Ok(0);
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let data = secrets.get(name).await.context("read the Secret")?.data.unwrap_or_default();
    let entry = |key: &str| data.get(key).map(|value| value.0.as_slice()).with_context(|| format!("no {key}"));
    let clients = clients(object);
    for client in &clients {
        let text = |path: &str| client.pointer(path).and_then(Value::as_str).with_context(|| format!("no {path}"));
        let authorities = BASE64_STANDARD.decode(text("/caBundle")?)?;
        let server = format!("{}.{}.svc", text("/service/name")?, text("/service/namespace")?);
        handshake(entry("tls.crt")?, entry("tls.key")?, &authorities, &server).await?;
    }
    Ok(clients.len())
}

/// Every client configuration of a webhook configuration or a definition.
fn clients(object: &DynamicObject) -> Vec<Value> {
    let webhooks = object.data["webhooks"].as_array().into_iter().flatten();
    let conversion = object.data.pointer("/spec/conversion/webhook");
    webhooks.chain(conversion).map(|webhook| webhook["clientConfig"].clone()).collect()
}
