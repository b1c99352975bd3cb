//! What callers cannot do to the service: freeze the controller, keep others out, have the API server asked without end, get what
//! was another Bundle's; and what an orderly end does not do to them. In a world of its own, which is loaded and restarted, by one
//! test at a time.

use std::path::Path;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{Shared, join_all};
use kube::Client;
use reqwest::{Method, StatusCode};
use rukpak_tests::metrics;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, SOON, World, WorldOptions, image};
use rukpak_tests::{ImageBuilder, fixtures};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard, OnceCell, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::content::caller::{Caller, account, create, manifest, unpacked, upload_bundle};

/// More than the process has threads for the disk.
const SLOW: usize = 40;
/// More than twice the connections that the service takes: where each were waited for, a call would wait for the second lot.
const SILENT: usize = 600;
/// More connections than probes and metrics take.
const SILENT_AT_PROBES: usize = 100;
/// Far less than a silent connection may live.
const AT_ONCE: Duration = Duration::from_secs(8);
/// More than sockets and buffers on the way can hold.
const LARGE_BYTES: usize = 48 << 20;

static WORLD: OnceCell<World> = OnceCell::const_new();
static TURN: Mutex<()> = Mutex::const_new(());

/// The loaded world, for one test at a time.
struct Turn {
    world: &'static World,
    _turn: MutexGuard<'static, ()>,
}

impl Turn {
    async fn take() -> Self {
        let turn = TURN.lock().await;
        let arguments = vec![format!("--limit=uploads={SLOW}"), "--limit=upload-bytes-per-second=0".to_owned()];
        let options = WorldOptions { arguments, audit: true, ..WorldOptions::default() };
        let world = WORLD.get_or_try_init(|| World::start_with(options)).await.expect("the world starts");
        if world.controller.pid().is_none() {
            world.controller.restart().await.expect("it starts again");
        }
        world.controller.wait_ready().await.expect("it is ready");
        Self { world, _turn: turn }
    }
}

/// M1: uploads of a byte now and then, more than there are threads.
#[tokio::test]
async fn slow_uploads_stop_neither_unpacking_nor_rendering_nor_readiness() {
    let turn = Turn::take().await;
    let world = turn.world;
    let client = world.admin().await;
    let names: Vec<String> = (0..SLOW).map(|_| unique_name("slow")).collect();
    join_all(names.iter().map(|name| upload_bundle(&client, name))).await;
    let token = account(&client, Some("bundle-uploader")).await;
    let (enough, end) = oneshot::channel::<()>();
    let end: Shared<_> = end.map(|_| ()).boxed().shared();
    let mut uploads = JoinSet::new();
    for name in names.clone() {
        let caller = Caller::with_token(world, Some(&token)).await;
        let end = end.clone();
        uploads.spawn(async move { caller.put_slowly(&name, end).await });
    }
    until_received(&world.controller.storage.join("uploads"), SLOW).await;

    ready(world).await;
    let name = unique_name("meanwhile");
    let reference = world.push(&name, &fixtures::renamed_image("registry/mill/v1", &name).unwrap()).await;
    let mut bundle = world::bundle(&name, image(&reference));
    bundle["spec"]["provisionerClassName"] = serde_json::json!("core-rukpak-io-registry");
    create(&client, &bundle).await;
    unpacked(&client, &name).await;
    let reader = Caller::with_role(world, "bundle-reader").await;
    let rendered = reader.get(&format!("/bundles/{name}.tgz")).await;
    assert_eq!(rendered.status, StatusCode::OK, "{}", rendered.text());

    let caller = Caller::with_token(world, Some(&token)).await;
    let other = unique_name("other");
    upload_bundle(&client, &other).await;
    for (name, text) in [
        (&other, "40 uploads are under way, and more are not taken at once (--limit=uploads=40); try again later"),
        (&names[0], "another upload for this bundle is under way; try again when it has ended"),
    ] {
        let refused = caller.put(name, b"x".to_vec()).await;
        assert_eq!((refused.status, refused.text().trim_end()), (StatusCode::SERVICE_UNAVAILABLE, text));
        assert_eq!(refused.header("retry-after"), "10");
    }
    ready(world).await;

    assert_eq!(receiving(&world.controller.storage.join("uploads")), SLOW, "all of them are still under way");
    enough.send(()).unwrap();
    while let Some(answer) = uploads.join_next().await {
        let answer = answer.unwrap();
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
    }
    assert_eq!(caller.put(&other, b"x".to_vec()).await.status, StatusCode::CREATED);
}

async fn ready(world: &World) {
    let asked = Instant::now();
    let answer = reqwest::get(format!("{}/readyz", world.controller.health_url)).await.expect("there is an answer");
    let status = answer.status();
    let text = answer.text().await.expect("there is an answer");
    assert_eq!(status, StatusCode::OK, "{text}");
    assert!(text.contains("[+]content ok\n") && text.contains("[+]store ok\n"), "{text}");
    assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
}

fn receiving(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it is readable"));
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".receiving-")).count()
}

async fn until_received(folder: &Path, wanted: usize) {
    let end = Instant::now() + SOON;
    while receiving(folder) < wanted {
        assert!(Instant::now() < end, "only {} of {wanted} uploads are received", receiving(folder));
        sleep(Duration::from_millis(20)).await;
    }
}

/// M5: more connections than the service takes, of somebody who says nothing.
#[tokio::test]
async fn silent_connections_keep_nobody_out() {
    let turn = Turn::take().await;
    let world = turn.world;
    let reader = Caller::with_role(world, "bundle-reader").await;
    let mut silent = Vec::new();
    for (port, count) in [
        (world.controller.content_port, SILENT),
        (port_of(&world.controller.health_url), SILENT_AT_PROBES),
        (port_of(&world.controller.http_url), SILENT_AT_PROBES),
    ] {
        for _ in 0..count {
            silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
    }
    let answer = timeout(AT_ONCE, reader.get("/bundles/none.tgz")).await.expect("the service is not kept busy");
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    timeout(AT_ONCE, ready(world)).await.expect("probes are not kept busy");
    let url = format!("{}/metrics", world.controller.http_url);
    let answer = timeout(AT_ONCE, reqwest::get(url)).await.expect("metrics are not kept busy").unwrap();
    assert!(answer.text().await.unwrap().contains("rukpak_build_info{"));
    drop(silent);
}

fn port_of(url: &str) -> u16 {
    url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("the harness writes ports")
}

/// M5: what cannot be a token is never asked about, and what was refused just now is not asked about again.
#[tokio::test]
async fn junk_tokens_are_asked_about_once() {
    let turn = Turn::take().await;
    let world = turn.world;
    let before = token_reviews(world);
    let junk = unique_name("junk");
    for token in [junk.as_str(), "a.b.c", "e30.e30.AAAA"] {
        let caller = Caller::with_token(world, Some(token)).await;
        for _ in 0..10 {
            assert_eq!(caller.get("/bundles/none.tgz").await.status, StatusCode::UNAUTHORIZED);
        }
    }
    // The log is written in order, and this token is the last that is reviewed.
    let reader = Caller::with_role(world, "bundle-reader").await;
    assert_eq!(reader.get("/bundles/none.tgz").await.status, StatusCode::NOT_FOUND);
    let end = Instant::now() + SOON;
    while token_reviews(world) < before + 2 {
        assert!(Instant::now() < end, "the audit log shows no review");
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(token_reviews(world), before + 2, "one for the junk, one for the reader");
}

fn token_reviews(world: &World) -> usize {
    let log = std::fs::read_to_string(world.plane.audit_log()).expect("the audit log");
    let is_ours =
        |line: &&str| line.contains("/tokenreviews") && line.contains("serviceaccount:rukpak-system:core-admin");
    log.lines().filter(is_ours).count()
}

async fn plain(world: &World, client: &Client, name: &str, object: &str) {
    let files = [("manifests/a.yaml".to_owned(), manifest(object))];
    let reference = world.push(&unique_name("replaced"), &ImageBuilder::of_files(files)).await;
    create(client, &world::bundle(name, image(&reference))).await;
}

/// L2: the old one went, and the new one came, while nobody looked.
#[tokio::test]
async fn a_new_bundle_of_an_old_name_has_not_its_content() {
    let turn = Turn::take().await;
    let world = turn.world;
    let client = world.admin().await;
    let name = unique_name("replaced");
    plain(world, &client, &name, "old").await;
    unpacked(&client, &name).await;
    world.controller.terminate().await.unwrap();
    verbs::delete(&client, &Target::bundle(&name)).await.unwrap();
    verbs::await_deleted(&client, &Target::bundle(&name), SOON).await.unwrap();
    create(&client, &world::bundle(&name, image("localhost:1/nowhere:v1"))).await;
    world.controller.restart().await.unwrap();
    world.controller.wait_ready().await.unwrap();
    // Ready means that callers are answered, at the first try.
    let reader = Caller::with_role(world, "bundle-reader").await;
    let path = format!("/bundles/{name}.tgz");
    assert_eq!(reader.get(&path).await.status, StatusCode::NOT_FOUND, "it is not unpacked");
    // Deleted and made again at once: as soon as it is there it is another one.
    for object in ["first", "second"] {
        verbs::delete(&client, &Target::bundle(&name)).await.unwrap();
        verbs::await_deleted(&client, &Target::bundle(&name), SOON).await.unwrap();
        plain(world, &client, &name, object).await;
        let end = Instant::now() + SOON;
        loop {
            let answer = reader.get(&path).await;
            if answer.status == StatusCode::OK {
                let files = crate::content::caller::files(&answer.body);
                assert_eq!(files["manifests/a.yaml"], manifest(object));
                break;
            }
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{}", answer.text());
            assert!(Instant::now() < end, "it is never served");
        }
    }
}

/// Who downloads gets all of it, and the process ends in good order; who uploads is told to try again.
#[tokio::test]
async fn a_download_survives_the_end_of_the_process_and_an_upload_is_told_to_try_again() {
    let turn = Turn::take().await;
    let world = turn.world;
    let client = world.admin().await;
    let names = ["large", "late"].map(unique_name);
    for name in &names {
        upload_bundle(&client, name).await;
    }
    let caller = Caller::with_role(world, "bundle-uploader").await;
    assert_eq!(caller.put(&names[0], vec![7; LARGE_BYTES]).await.status, StatusCode::CREATED);
    let request = caller.ask(Method::GET, &format!("/uploads/{}.tgz", names[0]));
    let mut download = request.send().await.unwrap();
    let mut bytes = download.chunk().await.unwrap().expect("a first part").len();
    let slow = Caller::with_role(world, "bundle-uploader").await;
    let late = names[1].clone();
    let upload = tokio::spawn(async move { slow.put_slowly(&late, futures::future::pending()).await });
    until_received(&world.controller.storage.join("uploads"), 1).await;

    let (ended, ()) = tokio::join!(world.controller.terminate(), async {
        // The process knows of its end when it takes no more calls.
        let end = Instant::now() + SOON;
        while TcpStream::connect(("127.0.0.1", world.controller.content_port)).await.is_ok() {
            assert!(Instant::now() < end, "it goes on");
            sleep(Duration::from_millis(20)).await;
        }
        while let Some(chunk) = download.chunk().await.expect("the download goes on") {
            bytes += chunk.len();
        }
    });
    assert_eq!(bytes, LARGE_BYTES);
    assert_eq!(ended.unwrap(), "exit status: 0");
    let refused = upload.await.unwrap();
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.text().trim_end(), "the server is shutting down; try again");
}

/// What was never counted once.
#[tokio::test]
async fn reconciles_of_both_kinds_are_counted() {
    let turn = Turn::take().await;
    let world = turn.world;
    let name = unique_name("counted");
    let files = [("manifests/a.yaml".to_owned(), manifest(&name))];
    let reference = world.push(&name, &ImageBuilder::of_files(files)).await;
    let client = world.admin().await;
    create(&client, &world::deployment(&name, image(&reference))).await;
    world::until(&client, &name, Expected::is_true("Ready", "Succeeded")).await;
    let url = format!("{}/metrics", world.controller.http_url);
    let succeeded = async |kind: &str| {
        let text = reqwest::get(&url).await.expect("there is an answer").text().await.expect("it is text");
        let series = format!("rukpak_reconcile_total{{kind=\"{kind}\",outcome=\"succeeded\"}} ");
        text.lines()
            .find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok())
            .unwrap_or_else(|| panic!("{text}"))
    };
    // The status is written a moment before it is counted.
    let end = Instant::now() + SOON;
    while succeeded("Bundle").await == 0 || succeeded("BundleDeployment").await == 0 {
        assert!(Instant::now() < end, "they are not counted");
        sleep(Duration::from_millis(20)).await;
    }
    metrics::until_as_documented(&world.controller, "controller").await.unwrap_or_else(|error| panic!("{error:#}"));
    verbs::delete(&client, &Target::bundle_deployment(&name)).await.unwrap();
}
