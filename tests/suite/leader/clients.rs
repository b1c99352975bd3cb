//! Clients of the content service while leaders come and go: what is under way ends well, and the next serves within seconds.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::fs::DirEntry;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::stream;
use kube::Client;
use reqwest::{Method, RequestBuilder, StatusCode};
use rukpak_tests::plane::install::{SYSTEM_NAMESPACE, token};
use rukpak_tests::process::CONTENT_URL;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, SOON};
use rukpak_tests::{ImageBuilder, Process};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::leader::{SHORT, Stage};

/// Promised by a holder that is to be killed; long enough for it not to be late on a busy machine.
pub const BRIEF: &str = "--leader-elect-lease-duration=8s";
/// From SIGTERM to the first download from the next process: the Lease is given back, and the content is fetched anew. Less than the 13
/// seconds that are left of [`SHORT`] at least, were it not given back.
const HAND_OVER: Duration = Duration::from_secs(10);
/// From SIGKILL to the first download from the next process: what was promised has to run out.
const TAKE_OVER: Duration = Duration::from_secs(15 + 10);
/// More than sockets and buffers on the way can hold.
const LARGE_BYTES: usize = 48 << 20;
/// Between two tries where nothing can be watched.
const PAUSE: Duration = Duration::from_millis(20);

/// Somebody who talks to one process by the name that the certificate bears.
pub struct Caller {
    http: reqwest::Client,
    token: String,
}

impl Caller {
    pub async fn new(client: &Client, process: &Process, token: &str) -> Self {
        let target = Target::namespaced("v1", "Secret", SYSTEM_NAMESPACE, "rukpak-ca");
        let there =
            |object: Option<&kube::api::DynamicObject>| object.is_some_and(|it| it.data["data"]["ca.crt"].is_string());
        let found = verbs::await_object(client, &target, "ca.crt", SOON, there).await;
        let secret = found.unwrap_or_else(|error| panic!("{error:#}")).expect("it is there");
        let pem = BASE64_STANDARD.decode(secret.data["data"]["ca.crt"].as_str().expect("text")).expect("base64");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, process.content_port));
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only(reqwest::Certificate::from_pem_bundle(&pem).expect("ca.crt is PEM"))
            .resolve("core.rukpak-system.svc", address)
            .pool_max_idle_per_host(0)
            .timeout(Duration::from_mins(1));
        Self { http: http.build().expect("the settings are good"), token: token.to_owned() }
    }

    pub fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{CONTENT_URL}{path}")).bearer_auth(&self.token)
    }

    async fn download(&self, path: &str) -> Download {
        match self.ask(Method::GET, path).send().await {
            Err(error) if error.is_connect() => Download::Later,
            Err(error) => Download::Unanswered(format!("{error:?}")),
            Ok(answer) if answer.headers().contains_key("retry-after") => Download::Later,
            Ok(answer) if answer.status() != StatusCode::OK => Download::Failed(answer.status().to_string()),
            Ok(answer) => match answer.bytes().await {
                Ok(bytes) => Download::Content(bytes.to_vec()),
                Err(error) => Download::Failed(format!("{error:?}")),
            },
        }
    }

    /// Waits until this process has the content; nothing worse may be answered before than that it is to be tried again.
    pub async fn until_served(&self, path: &str) -> Vec<u8> {
        let end = Instant::now() + SOON;
        loop {
            match self.download(path).await {
                Download::Content(content) => return content,
                Download::Later => {}
                Download::Unanswered(error) | Download::Failed(error) => panic!("{path}: {error}"),
            }
            assert!(Instant::now() < end, "{path} is not served");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// What came of a download.
enum Download {
    Content(Vec<u8>),
    /// Nobody listens, or it is to be tried again.
    Later,
    /// The connection was closed before there was an answer.
    Unanswered(String),
    /// There was an answer, and it was an error or broke off.
    Failed(String),
}

/// A token of an account that may download and upload.
pub async fn account(client: &Client) -> String {
    let name = unique_name("caller");
    let metadata = json!({"name": name, "namespace": SYSTEM_NAMESPACE});
    create(client, &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).await;
    for role in ["bundle-reader", "bundle-uploader", "rukpak-edit"] {
        let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": SYSTEM_NAMESPACE});
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                             "metadata": {"name": unique_name("binding")}, "roleRef": reference, "subjects": [subject]});
        create(client, &binding).await;
        let user = format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{name}");
        verbs::await_role(client, &user, role).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
    token(client, SYSTEM_NAMESPACE, &name).await.expect("the API server gives tokens")
}

pub async fn create(client: &Client, object: &Value) {
    verbs::create(client, object).await.unwrap_or_else(|error| panic!("{error:#}"));
}

/// A Bundle from the registry, and the path of its content.
pub async fn bundle(stage: &Stage) -> String {
    let name = unique_name("served");
    let manifest = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\n");
    let files = ImageBuilder::of_files([("manifests/a.yaml", manifest)]);
    let pushed = stage.cluster.registry.push(&name, "v1", &files).await.expect("the registry takes it");
    create(&stage.client, &world::bundle(&name, world::image(&pushed.reference))).await;
    world::until_bundle(&stage.client, &name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    format!("/bundles/{name}.tgz")
}

/// A Bundle that waits for an upload, and the path of that.
pub async fn upload(stage: &Stage) -> String {
    let name = unique_name("uploaded");
    create(&stage.client, &world::bundle(&name, json!({"type": "upload", "upload": {}}))).await;
    world::until_bundle(&stage.client, &name, Expected::is_false("Unpacked", "UnpackPending")).await;
    format!("/uploads/{name}.tgz")
}

/// Who stands by is ready, for a rollout waits for that, but it does not listen.
async fn stands_by(process: &Process) {
    process.wait_ready().await.unwrap();
    let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, process.content_port)).await;
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

/// Downloads from both, one after the other, until told to stop. Returns those that failed. Only who ends may leave a request
/// unanswered that it has not read when it closes: clients ask again then (RFC 9112, 9.3.1).
async fn downloads([ending, next]: [&Caller; 2], path: &str, stop: &AtomicBool, done: &AtomicUsize) -> Vec<String> {
    let mut failed = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for (caller, may_close) in [(ending, true), (next, false)] {
            match caller.download(path).await {
                Download::Content(_) => drop(done.fetch_add(1, Ordering::Relaxed)),
                Download::Unanswered(error) if !may_close => failed.push(error),
                Download::Later | Download::Unanswered(_) => {}
                Download::Failed(error) => failed.push(error),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    failed
}

/// Waits until an upload is under way.
async fn until_received(process: &Process) {
    let folder = process.storage.join("uploads");
    let end = Instant::now() + SOON;
    let is_received = |entry: std::io::Result<DirEntry>| {
        entry.expect("it is readable").file_name().to_string_lossy().starts_with(".receiving-")
    };
    while !std::fs::read_dir(&folder).expect("the folder is there").any(is_received) {
        assert!(Instant::now() < end, "no upload is received");
        tokio::time::sleep(PAUSE).await; // the folder is the process's own
    }
}

/// SIGTERM: what is under way ends, and the other serves before that.
async fn hands_over(stage: &Stage, processes: [&Process; 2], callers: [&Caller; 2], path: &str) {
    let ([first, _], [before, after]) = (processes, callers);
    let content = before.until_served(path).await;
    let (large, late) = (upload(stage).await, upload(stage).await);
    let put = before.ask(Method::PUT, &large).body(vec![7; LARGE_BYTES]).send().await.unwrap();
    assert_eq!(put.status(), StatusCode::CREATED);
    let mut download = before.ask(Method::GET, &large).send().await.unwrap();
    let mut bytes = download.chunk().await.unwrap().expect("a first part").len();
    // One byte now and then, until somebody answers.
    let slow = stream::unfold(tokio::time::interval(PAUSE), async |mut ticks| {
        ticks.tick().await;
        Some((Ok::<_, std::io::Error>(vec![b'x']), ticks))
    });
    let slow = before.ask(Method::PUT, &late).body(reqwest::Body::wrap_stream(Box::pin(slow)));
    let slow = tokio::spawn(slow.send());
    until_received(first).await;
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));

    let told = Instant::now();
    let work = async {
        assert_eq!(after.until_served(path).await, content, "the same from another store");
        let took = told.elapsed();
        while let Some(chunk) = download.chunk().await.expect("the download goes on") {
            bytes += chunk.len();
        }
        stop.store(true, Ordering::Relaxed);
        took
    };
    let (ended, took, refused, failed) =
        tokio::join!(first.terminate(), work, slow, downloads(callers, path, &stop, &done));
    eprintln!("content {took:?} after SIGTERM");
    assert!(took < HAND_OVER, "{took:?} without content");
    assert_eq!(bytes, LARGE_BYTES);
    assert_eq!(ended.unwrap(), "exit status: 0");
    assert_eq!(failed, Vec::<String>::new());
    assert!(done.into_inner() > 0);
    // The upload is not lost in between either: it is told to try again, and the other takes it.
    assert_eq!(refused.unwrap().unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    let again = after.ask(Method::PUT, &late).body(vec![b'x'; 100]).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn clients_are_served_across_the_end_and_the_death_of_a_leader() {
    let stage = Stage::set().await;
    let first = stage.start("first", SHORT).await;
    stage.held_by("first").await;
    let second = stage.start("second", SHORT).await;
    stands_by(&second).await;
    let token = account(&stage.client).await;
    let callers = [Caller::new(&stage.client, &first, &token).await, Caller::new(&stage.client, &second, &token).await];
    let path = bundle(&stage).await;
    hands_over(&stage, [&first, &second], [&callers[0], &callers[1]], &path).await;

    first.restart().await.unwrap();
    stands_by(&first).await;
    let killed = Instant::now();
    second.kill().await.unwrap();
    callers[0].until_served(&path).await;
    let took = killed.elapsed();
    eprintln!("content {took:?} after SIGKILL");
    assert!(took < TAKE_OVER, "{took:?} without content");
    first.terminate().await.unwrap();
}
