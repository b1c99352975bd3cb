//! What the controller does in child processes, and what it does about Bundles that end it: each of them fails alone.

mod confinement;
mod zstd;

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use rukpak_content::Limits;
use rukpak_sandbox::{Attempts, Findings};
use rukpak_source::git::{Auth, Fetcher, FetcherOptions, Reference, Request};
use rukpak_tests::faulty::{Fault, Rule};
use rukpak_tests::registry::TarEntry;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, image};
use rukpak_tests::{
    ControllerOptions, FaultyServer, ImageBuilder, InstallOptions, Layer, Plane, PlaneOptions, Process, Registry,
    RegistryOptions, TestCa, tools,
};
use serde_json::json;

const PATIENCE: Duration = Duration::from_mins(1);
/// Less than the 40 seconds after which a download that drips is given up, and others have its place.
const AT_ONCE: Duration = Duration::from_secs(30);
const MIB: usize = 1024 * 1024;

/// A plane without webhooks, a registry, a server in front of it that stalls on request, and a controller of the test's own.
struct Scene {
    plane: Plane,
    registry: Registry,
    slow: FaultyServer,
    controller: Process,
    client: Client,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn start(flags: &[&str]) -> Self {
        Self::try_start(flags).await.unwrap_or_else(|error| panic!("the scene cannot be set: {error:#}"))
    }

    async fn try_start(flags: &[&str]) -> anyhow::Result<Self> {
        let plane = Plane::start_with(PlaneOptions::default()).await?;
        plane.install(&InstallOptions { without_webhooks: true, ..InstallOptions::default() }).await?;
        let registry = Registry::start(RegistryOptions::default()).await?;
        let (ca, folder) = (TestCa::new("slow-ca")?, tools::temp_folder("children")?);
        let slow = FaultyServer::before(&ca, &registry.url(), &registry.ca_pem())?;
        let ca_file = folder.path().join("servers.pem");
        std::fs::write(&ca_file, registry.ca_pem() + slow.ca_pem())?;
        let mut arguments = vec![format!("--source-ca-file={}", ca_file.display())];
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let controller =
            plane.start_controller(ControllerOptions { arguments, ..ControllerOptions::default() }).await?;
        controller.wait_ready().await?;
        let client = plane.admin().await?;
        Ok(Self { plane, registry, slow, controller, client, _folder: folder })
    }

    /// Pushes an image and makes a Bundle of it, fetched from `host`.
    async fn bundle(&self, name: &str, host: &str, builder: &ImageBuilder) {
        self.registry.push(name, "v1", builder).await.expect("the registry takes it");
        let object = world::bundle(name, image(&format!("{host}/{name}:v1")));
        verbs::create(&self.client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// A good Bundle from the registry itself, under the name that the slow server does not have.
    async fn good_elsewhere(&self) -> String {
        let name = unique_name("good");
        self.bundle(&name, &self.registry_by_address(), &good(&name)).await;
        name
    }

    fn registry_by_address(&self) -> String {
        let url = self.registry.url();
        let (_, port) = url.rsplit_once(':').expect("the registry has a port");
        format!("127.0.0.1:{port}")
    }

    async fn until(&self, name: &str, expected: Expected<'_>) -> DynamicObject {
        let found = verbs::await_condition(&self.client, &Target::bundle(name), expected, PATIENCE).await;
        found.unwrap_or_else(|error| panic!("{error:#}\n{}", self.controller.log_tail(40)))
    }

    async fn until_unpacked(&self, name: &str) {
        self.until(name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    }

    async fn until_asked(&self, path: &str, count: usize) {
        let end = tokio::time::Instant::now() + PATIENCE;
        while self.slow.count(path) < count {
            assert!(tokio::time::Instant::now() < end, "{path}: {} of {count} requests", self.slow.count(path));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The controller tries what a child may do beside its start, and tells it then.
    async fn until_confined(&self) {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let metrics = reqwest::get(format!("{}/metrics", self.controller.http_url)).await;
            let metrics = metrics.expect("metrics are served").text().await.expect("metrics are text");
            let told = |what| metrics.contains(&format!("rukpak_child_confined{{from=\"{what}\"}} 1\n"));
            if ["files", "memory", "ports", "programs"].into_iter().all(told) {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "{metrics}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn attempt(&self, object: &DynamicObject) -> PathBuf {
        self.controller.storage.join("attempts").join(object.metadata.uid.as_deref().expect("a UID"))
    }

    async fn get(&self, name: &str) -> DynamicObject {
        let found = verbs::get(&self.client, &Target::bundle(name)).await;
        found.unwrap_or_else(|error| panic!("{error:#}")).unwrap_or_else(|| panic!("Bundle {name} is gone"))
    }
}

fn good(name: &str) -> ImageBuilder {
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\n");
    of_manifest(text)
}

fn of_manifest(text: String) -> ImageBuilder {
    ImageBuilder::new([Layer::new([TarEntry::file("manifests/objects.yaml", text)])])
}

fn message(object: &DynamicObject, kind: &str) -> String {
    let condition = verbs::condition(object, kind).unwrap_or_else(|| panic!("no condition {kind}: {}", object.data));
    condition["message"].as_str().expect("a message is text").to_owned()
}

/// Documents that say little and mean much: each stays below what one document may hold.
fn aliases(documents: usize) -> String {
    let document = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\na: &a [{}]\nb: &b [{}]\nc: [{}]\n",
        ["0"; 90].join(","),
        ["*a"; 90].join(","),
        ["*b"; 90].join(",")
    );
    vec![document; documents].join("---\n")
}

/// The token file, the API server's port, another process' memory and programs: each possible in this process, and not in the
/// child, which is the real one, started as for a fetch.
#[tokio::test]
async fn a_git_child_reads_no_token_connects_nowhere_else_sees_no_memory_and_starts_no_program() {
    let folder = tools::temp_folder("probe").unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "secret").unwrap();
    let (server, elsewhere) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let fetcher = Fetcher::new(FetcherOptions {
        program: tools::workspace_binary("rukpak-controller").unwrap(),
        arguments: vec!["git-child".to_owned()],
        limits: Limits::default(),
        stage_dir: folder.path().to_owned(),
        extra_ca_pem: None,
        egress: rukpak_source::Egress::anywhere(),
    });
    let request = || Request {
        repository: format!("https://127.0.0.1:{}/r", server.local_addr().unwrap().port()),
        reference: Reference::DefaultBranch,
        directory: None,
        auth: Auth::None,
        insecure_skip_verify: false,
        strict_host_keys: false,
    };
    let attempts = Attempts { file: token.clone(), address: elsewhere.local_addr().unwrap() };
    assert!(File::open(format!("/proc/{}/mem", std::process::id())).is_ok(), "root may look at it");
    let free = attempts.run();
    assert!(!free.files && !free.ports && !free.programs, "nothing forbids it here: {free:?}");
    let found = fetcher.probe(request(), attempts.clone()).await.unwrap();
    assert!(found.is_all_refused(), "{found:?}");
    // What it was started for is not refused, so that the refusals above mean something.
    let own = Attempts { address: server.local_addr().unwrap(), ..attempts.clone() };
    assert_eq!(fetcher.probe(request(), own).await.unwrap(), Findings { ports: false, ..found });
    if let Some(hosts) = Some(PathBuf::from("/etc/hosts")).filter(|hosts| hosts.exists()) {
        let hosts = Attempts { file: hosts, ..attempts };
        assert_eq!(fetcher.probe(request(), hosts).await.unwrap(), Findings { files: false, ..found });
    }
}

#[tokio::test]
async fn a_bundle_that_takes_too_much_memory_to_check_fails_alone() {
    let scene = Scene::start(&["--limit=child-bytes=67108864"]).await;
    scene.until_confined().await;
    let pid = scene.controller.pid();
    let (bomb, large) = (unique_name("aliases"), unique_name("large"));
    // Expanded, gigabytes; packed, less than two kilobytes.
    let (host, text) = (scene.registry_by_address(), aliases(200));
    scene.bundle(&bomb, &host, &of_manifest(text)).await;
    // Within every limit on content; only the memory of the check is too small for it.
    let value = (0..50 * MIB / 16).map(|number| format!("{number:015}")).collect::<Vec<_>>().join(" ");
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{key: {value}}}\n");
    scene.bundle(&large, &host, &of_manifest(text)).await;
    for name in [&bomb, &large] {
        let object = scene.until(name, Expected::is_false("Unpacked", "UnpackFailed")).await;
        assert!(message(&object, "Unpacked").contains("(--limit="), "{}", message(&object, "Unpacked"));
    }
    let object = scene.get(&large).await;
    assert!(message(&object, "Stalled").contains("67108864 bytes of memory of a child process (--limit=child-bytes)"));
    let other = scene.good_elsewhere().await;
    scene.until_unpacked(&other).await;
    assert_eq!(scene.controller.pid(), pid);
    assert_eq!(scene.controller.exit_status().unwrap(), None, "it was not killed");
    let resident = scene.controller.resident_bytes().unwrap();
    assert!(resident < 200 << 20, "{resident} bytes: what the check took is not the controller's");
}

#[tokio::test]
async fn a_bundle_during_which_the_controller_is_killed_twice_is_put_aside_and_the_others_go_on() {
    let scene = Scene::start(&[]).await;
    scene.slow.add(Rule::on("/blobs/", Fault::StallAfter(100)));
    let name = unique_name("killer");
    scene.bundle(&name, &scene.slow.host(), &good(&name)).await;
    let attempt = scene.attempt(&scene.get(&name).await);
    // To be stopped is not to be killed, however often.
    for round in 1..=3 {
        scene.until_asked("/blobs/", round).await;
        assert!(attempt.exists(), "the attempt is noted while it is under way");
        scene.controller.terminate().await.unwrap();
        assert!(!attempt.exists(), "it has ended");
        scene.controller.restart().await.unwrap();
    }
    for round in 4..=5 {
        scene.until_asked("/blobs/", round).await;
        scene.controller.kill().await.unwrap();
        assert!(attempt.exists(), "nobody could take it away");
        scene.controller.restart().await.unwrap();
    }
    let object = scene.until(&name, Expected::is_true("Stalled", "UnpackFailed").saying("2 times in a row")).await;
    assert!(message(&object, "Unpacked").contains("core.rukpak.io/reconcile-requested-at"));
    let other = scene.good_elsewhere().await;
    scene.until_unpacked(&other).await;
    assert_eq!(scene.slow.count("/blobs/"), 5, "it is left alone");
    scene.controller.restart().await.unwrap();
    let other = scene.good_elsewhere().await;
    scene.until_unpacked(&other).await;
    assert_eq!(scene.slow.count("/blobs/"), 5, "after a restart too");
    // The way out.
    scene.slow.mend();
    let patch = json!({"metadata": {"annotations": {"core.rukpak.io/reconcile-requested-at": "now"}}});
    verbs::merge(&scene.client, &Target::bundle(&name), &patch).await.unwrap();
    scene.until_unpacked(&name).await;
    assert!(!attempt.exists());
    drop(scene.plane);
}

#[tokio::test]
async fn eight_bundles_on_a_dripping_server_do_not_delay_one_from_another_server() {
    let scene = Scene::start(&[]).await;
    scene.slow.add(Rule::on("/blobs/", Fault::Slow(1, Duration::from_secs(20))));
    let names: Vec<String> = (0..8).map(|_| unique_name("dripping")).collect();
    for name in &names {
        scene.bundle(name, &scene.slow.host(), &good(name)).await;
    }
    scene.until_asked("/blobs/", 6).await;
    for name in &names {
        scene.until(name, Expected::is_true("Reconciling", "Progressing")).await;
    }
    let start = std::time::Instant::now();
    let other = scene.good_elsewhere().await;
    scene.until_unpacked(&other).await;
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    assert_eq!(scene.slow.count("/blobs/"), 6, "two of eight permits are for others");
}

#[tokio::test]
async fn a_login_that_names_no_hosts_is_sent_nowhere_and_its_secret_is_told_of() {
    let scene = Scene::start(&["--require=secret-hosts"]).await;
    let (secret, name) = (unique_name("login"), unique_name("asks"));
    let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth",
                        "metadata": {"name": secret, "namespace": "rukpak-system"},
                        "stringData": {"username": "u", "password": "p"}});
    verbs::create(&scene.client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    let http = json!({"url": format!("{}/a.tgz", scene.slow.url()), "auth": {"secret": {"name": secret}}});
    let object = world::bundle(&name, json!({"type": "http", "http": http}));
    verbs::create(&scene.client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    let refused = Expected { kind: "Unpacked", status: "False", reason: None, message: "it names no hosts" };
    scene.until(&name, refused).await;
    assert_eq!(scene.slow.count("/a.tgz"), 0);

    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let events = verbs::list(&scene.client, "v1", "Event", "").await.expect("they can be listed");
        let is_told = |event: &DynamicObject| {
            event.data["reason"] == "SecretNamesNoHosts" && event.data["involvedObject"]["name"] == secret.as_str()
        };
        if events.iter().any(is_told) {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "{events:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Everybody who may create Bundles has one owner's part of the permits, whatever the hosts are called.
#[tokio::test]
async fn a_deployment_does_not_wait_for_bundles_that_name_a_dripping_server_in_two_ways() {
    let scene = Scene::start(&[]).await;
    scene.slow.add(Rule::on("/blobs/", Fault::Slow(1, Duration::from_secs(20))));
    let by_name = scene.slow.host();
    let hosts = [by_name.replace("localhost", "127.0.0.1"), by_name];
    for number in 0..8 {
        let name = unique_name("dripping");
        scene.bundle(&name, &hosts[number % 2], &good(&name)).await;
    }
    scene.until_asked("/blobs/", 7).await;

    let start = std::time::Instant::now();
    let name = unique_name("shop");
    scene.registry.push(&name, "v1", &good(&name)).await.expect("the registry takes it");
    let source = image(&format!("{}/{name}:v1", scene.registry_by_address()));
    let object = world::deployment(&name, source);
    verbs::create(&scene.client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    let installed = Expected::is_true("Installed", "InstallationSucceeded");
    let target = Target::bundle_deployment(&name);
    let found = verbs::await_condition(&scene.client, &target, installed, PATIENCE).await;
    found.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
}

/// For the limits in the manifests: the most memory that the controller and its children take together, with as much of the worst
/// content under way as there may be. `cargo test --workspace --test suites children:: -- --ignored --nocapture`
#[tokio::test]
#[ignore = "measures, for manifests/README.md"]
async fn memory_at_its_worst() {
    let scene = Scene::start(&["--limit=yaml-nodes=2000000"]).await;
    // The most memory for each node, mappings of one key; as many as the check just lets pass.
    let nodes = "- {a: {b: {c: {d: 1}}}}\n".repeat(130_000);
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: default}}\nx:\n{nodes}");
    let names: Vec<String> = (0..8).map(|_| unique_name("worst")).collect();
    for name in &names {
        scene.registry.push(name, "v1", &of_manifest(text.clone())).await.expect("the registry takes it");
        let source = image(&format!("{}/{name}:v1", scene.registry_by_address()));
        verbs::create(&scene.client, &world::deployment(name, source)).await.unwrap();
    }
    let pid = scene.controller.pid().expect("it runs");
    let (mut controller, mut together) = (0, 0);
    let end = tokio::time::Instant::now() + 2 * PATIENCE;
    while tokio::time::Instant::now() < end {
        let own = resident(pid);
        controller = controller.max(own);
        together = together.max(own + children(pid).into_iter().map(resident).sum::<u64>());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let bundles = verbs::list(&scene.client, "core.rukpak.io/v1alpha1", "Bundle", "").await.unwrap();
    let unpacked = bundles.iter().filter(|object| object.data["status"]["phase"] == "Unpacked").count();
    println!(
        "{unpacked} of {} unpacked; controller {} MiB, with its children {} MiB",
        names.len(),
        controller >> 10,
        together >> 10
    );
}

/// Kibibytes.
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse().unwrap_or_default()
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}
