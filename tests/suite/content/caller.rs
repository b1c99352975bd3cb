//! A client of the content service, and what it sends and gets.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt as _;
use kube::Client;
use kube::api::DynamicObject;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use rukpak_tests::plane::install::{SYSTEM_NAMESPACE, token};
use rukpak_tests::process::CONTENT_URL;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, SOON, World};
use serde_json::{Value, json};

/// Between two bytes of a slow upload.
const SLOWLY: Duration = Duration::from_millis(200);
/// The host of [`CONTENT_URL`].
const HOST: &str = "core.rukpak-system.svc";

/// Somebody who talks to the content service of a world by the name that its certificate bears.
pub struct Caller {
    http: reqwest::Client,
    token: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: reqwest::header::HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("headers are text"))
    }
}

/// The authorities of the content service, as clients read them.
pub async fn authorities(client: &Client) -> String {
    let target = Target::namespaced("v1", "Secret", SYSTEM_NAMESPACE, "rukpak-ca");
    let there = |object: Option<&DynamicObject>| object.is_some_and(|object| object.data["data"]["ca.crt"].is_string());
    let found = verbs::await_object(client, &target, "ca.crt", SOON, there).await;
    let secret = found.unwrap_or_else(|error| panic!("{error:#}")).expect("it is there");
    let text = secret.data["data"]["ca.crt"].as_str().expect("it is there");
    String::from_utf8(BASE64_STANDARD.decode(text).expect("base64")).expect("PEM")
}

/// A ServiceAccount with the rights of a ClusterRole, and a token for it.
pub async fn account(client: &Client, role: Option<&str>) -> String {
    let name = unique_name("account");
    let metadata = json!({"name": name, "namespace": SYSTEM_NAMESPACE});
    create(client, &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).await;
    // Whoever uploads writes what the Bundle belongs to, besides.
    let besides = (role == Some("bundle-uploader")).then_some("rukpak-edit");
    for role in role.into_iter().chain(besides) {
        bind(client, role, &json!({"kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE})).await;
        let user = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{name}");
        verbs::await_role(client, &user, role).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
    token(client, SYSTEM_NAMESPACE, &name).await.expect("the API server gives tokens")
}

pub async fn bind(client: &Client, role: &str, subject: &Value) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": unique_name("binding")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    });
    create(client, &binding).await;
}

pub async fn create(client: &Client, object: &Value) {
    verbs::create(client, object).await.unwrap_or_else(|error| panic!("{error:#}"));
}

/// A client that trusts what Secret `rukpak-ca` says.
pub async fn http(world: &World, identity: Option<reqwest::Identity>) -> reqwest::Client {
    let pem = authorities(&world.admin().await).await;
    let certificates = reqwest::Certificate::from_pem_bundle(pem.as_bytes()).expect("ca.crt is PEM");
    let mut builder = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only(certificates)
        .resolve(HOST, address(world))
        // Each call is a connection of its own: the certificate may have changed.
        .pool_max_idle_per_host(0)
        .timeout(Duration::from_mins(1));
    if let Some(identity) = identity {
        builder = builder.identity(identity);
    }
    builder.build().expect("the settings are good")
}

fn address(world: &World) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, world.controller.content_port).into()
}

impl Caller {
    /// With a token of an account that has the role.
    pub async fn with_role(world: &World, role: &str) -> Self {
        let token = account(&world.admin().await, Some(role)).await;
        Self::with_token(world, Some(&token)).await
    }

    /// With whatever token, or none.
    pub async fn with_token(world: &World, token: Option<&str>) -> Self {
        Self { http: http(world, None).await, token: token.map(str::to_owned) }
    }

    /// With a client certificate.
    pub async fn with_identity(world: &World, identity: reqwest::Identity) -> Self {
        Self { http: http(world, Some(identity)).await, token: None }
    }

    pub fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{CONTENT_URL}{path}"));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        sent(self.ask(Method::GET, path)).await
    }

    pub async fn put(&self, name: &str, body: Vec<u8>) -> Answer {
        sent(self.ask(Method::PUT, &format!("/uploads/{name}.tgz")).body(body)).await
    }

    /// One byte now and then, until `enough`.
    pub async fn put_slowly(&self, name: &str, enough: impl Future<Output = ()> + Send + 'static) -> Answer {
        let bytes = futures::stream::unfold(tokio::time::interval(SLOWLY), async |mut ticks| {
            ticks.tick().await;
            Some((Ok::<_, std::io::Error>(vec![b'x']), ticks))
        });
        let body = reqwest::Body::wrap_stream(bytes.take_until(Box::pin(enough)));
        sent(self.ask(Method::PUT, &format!("/uploads/{name}.tgz")).body(body)).await
    }
}

pub async fn sent(request: RequestBuilder) -> Answer {
    let response: Response = request.send().await.unwrap_or_else(|error| panic!("no answer: {error:?}"));
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.bytes().await.unwrap_or_else(|error| panic!("no whole answer: {error:?}")).to_vec();
    Answer { status, headers, body }
}

/// The regular files of a tar.gz.
pub fn files(archive: &[u8]) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("a tar") {
        let mut entry = entry.expect("a tar");
        let path = String::from_utf8(entry.path_bytes().into_owned()).expect("paths are text");
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("files are text");
        if entry.header().entry_type().is_file() {
            files.insert(path, text);
        }
    }
    files
}

/// A tar.gz of files.
pub fn archive<P: AsRef<str>, T: AsRef<str>>(files: &[(P, T)]) -> Vec<u8> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut builder = tar::Builder::new(encoder);
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(text.as_ref().len() as u64);
        builder.append_data(&mut header, path.as_ref(), text.as_ref().as_bytes()).expect("memory takes it");
    }
    builder.into_inner().and_then(flate2::write::GzEncoder::finish).expect("memory takes it")
}

/// A manifest of a ConfigMap called `name`.
pub fn manifest(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\n")
}

/// Creates a Bundle of type upload.
pub async fn upload_bundle(client: &Client, name: &str) {
    create(client, &world::bundle(name, json!({"type": "upload", "upload": {}}))).await;
    let waits = Expected::is_false("Unpacked", "UnpackPending").saying("waiting for bundle to be uploaded");
    assert_eq!(world::until_bundle(client, name, waits).await.data["status"]["phase"], "Pending");
}

/// Waits until the Bundle is unpacked.
pub async fn unpacked(client: &Client, name: &str) -> DynamicObject {
    world::until_bundle(client, name, Expected::is_true("Unpacked", "UnpackSuccessful")).await
}
