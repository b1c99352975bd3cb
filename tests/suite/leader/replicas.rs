//! Replicas that share a bucket: each serves and takes uploads, and a leader whose machine is lost takes nothing with it.

use std::io::Write as _;
use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use reqwest::{Method, StatusCode};
use rukpak_tests::plane::install::CONTROLLER_ACCOUNT;
use rukpak_tests::registry::{TarEntry, tarball};
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, bundle, deployment, image, until, until_bundle};
use rukpak_tests::{
    BucketServer, ControllerOptions, Fault, FaultyServer, GitServer, ImageBuilder, Process, Registry, RegistryOptions,
    Rule, TestCa,
};
use serde_json::{Value, json};

use crate::leader::Stage;
use crate::leader::clients::{BRIEF, Caller, account, create};

/// From the moment when the next one leads to the moment when what somebody deleted is there again: less than the 30 seconds that a
/// server which does not answer is waited for.
const REPAIRED: Duration = Duration::from_secs(20);

/// Two controllers on machines of their own, who share nothing but a bucket.
struct Scene {
    stage: Stage,
    bucket: BucketServer,
    registry: Registry,
    git: GitServer,
    /// Between the first controller and the API server.
    proxy: FaultyServer,
    folder: tempfile::TempDir,
    prefix: String,
}

impl Scene {
    async fn set() -> Self {
        let stage = Stage::set().await;
        let plane = &stage.cluster.plane;
        let ca = std::fs::read_to_string(plane.certificate_authority_path()).expect("the API server's CA");
        let proxy = FaultyServer::before(&TestCa::new("proxy").expect("an authority"), plane.server(), &ca);
        let registry = Registry::start(RegistryOptions::default()).await.expect("the registry starts");
        let git = GitServer::start().expect("the git server starts");
        let folder = rukpak_tests::tools::temp_folder("replicas").expect("a folder");
        std::fs::write(folder.path().join("ca.pem"), [registry.ca_pem(), git.ca_pem()].concat()).expect("a CA file");
        let bucket = BucketServer::start().await.expect("SeaweedFS starts");
        let proxy = proxy.expect("a proxy");
        Self { stage, bucket, registry, git, proxy, folder, prefix: unique_name("cluster") }
    }

    /// A controller in the Pod of this name.
    async fn start(&self, pod: &str, kubeconfig: Option<std::path::PathBuf>) -> Process {
        self.start_before(pod, kubeconfig, &self.bucket.url(), Vec::new()).await
    }

    /// The same, which reaches the bucket at `endpoint`.
    async fn start_before(
        &self,
        pod: &str,
        kubeconfig: Option<std::path::PathBuf>,
        endpoint: &str,
        mut arguments: Vec<String>,
    ) -> Process {
        arguments.extend([BRIEF, "--leader-elect"].map(str::to_owned));
        arguments.push(format!("--source-ca-file={}", self.folder.path().join("ca.pem").display()));
        arguments.push(format!("--store=s3://{}/{}", BucketServer::BUCKET, self.prefix));
        let mut environment = BucketServer::environment(endpoint);
        environment.push(("POD_NAME".to_owned(), pod.to_owned()));
        let options = ControllerOptions { arguments, environment, kubeconfig, ..ControllerOptions::default() };
        let process = self.stage.cluster.plane.start_controller(options).await.expect("the controller starts");
        process.wait_ready().await.unwrap_or_else(|error| panic!("{pod}: {error:#}"));
        process
    }

    /// The first leads, and reaches the API server by the proxy; the second stands by.
    async fn pair(&self) -> [Process; 2] {
        let plane = &self.stage.cluster.plane;
        let through = plane.kubeconfig_through(CONTROLLER_ACCOUNT, &self.proxy.url(), self.proxy.ca_pem()).await;
        let first = self.start("first", Some(through.expect("a kubeconfig"))).await;
        self.stage.held_by("first").await;
        [first, self.start("second", None).await]
    }

    async fn callers(&self, processes: &[Process; 2]) -> [Caller; 2] {
        let (client, token) = (&self.stage.client, account(&self.stage.client).await);
        [Caller::new(client, &processes[0], &token).await, Caller::new(client, &processes[1], &token).await]
    }

    async fn push(&self, name: &str, tag: &str, files: Vec<(String, String)>) -> String {
        let pushed =
            self.registry.push(name, tag, &ImageBuilder::of_files(files)).await.expect("the registry takes it");
        pushed.reference
    }

    /// Installs objects named `name` from the git server.
    async fn install_from_git(&self, name: &str) {
        let repository = self.git.repository(name).expect("a repository");
        repository.write(&[("manifests/a.yaml", config_map(name, "git"))]).expect("written");
        repository.commit("first").expect("committed");
        let source = json!({"type": "git", "git": {"repository": self.git.url(name), "ref": {"branch": "main"}}});
        create(&self.stage.client, &deployment(name, source)).await;
        until(&self.stage.client, name, Expected::is_true("Installed", "InstallationSucceeded")).await;
    }
}

pub fn config_map(name: &str, text: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\ndata:\n  text: {text}\n")
}

pub fn target(name: &str) -> Target {
    Target::namespaced("v1", "ConfigMap", "default", name)
}

pub fn archive(manifest: &str) -> Vec<u8> {
    let tar = tarball(&[TarEntry::file("manifests/a.yaml", manifest)]).expect("an archive");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&tar).and_then(|()| encoder.finish()).expect("memory takes it")
}

/// Waits until the ConfigMap is there, with this text.
async fn until_text(scene: &Scene, name: &str, text: &str) {
    let is_so = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| object.metadata.deletion_timestamp.is_none() && object.data["data"]["text"] == text)
    };
    let found = verbs::await_object(&scene.stage.client, &target(name), text, SOON, is_so).await;
    found.unwrap_or_else(|error| panic!("{error:#}"));
}

pub async fn put(caller: &Caller, name: &str, body: Vec<u8>) {
    let answer = caller.ask(Method::PUT, &format!("/uploads/{name}.tgz")).body(body).send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::CREATED, "{:?}", answer.text().await);
}

/// SIGKILL, and the disk with it.
pub async fn lose(process: &Process) {
    process.kill().await.expect("it runs");
    std::fs::remove_dir_all(&process.storage).expect("its folder is there");
}

#[tokio::test]
async fn every_replica_serves_and_takes_uploads() {
    let scene = Scene::set().await;
    let processes = scene.pair().await;
    let callers = scene.callers(&processes).await;
    let client = &scene.stage.client;
    // By whom an upload is taken does not matter: who leads unpacks it, and each serves it.
    for (number, caller) in callers.iter().enumerate() {
        let name = unique_name("upload");
        create(client, &bundle(&name, json!({"type": "upload", "upload": {}}))).await;
        until_bundle(client, &name, Expected::is_false("Unpacked", "UnpackPending")).await;
        let body = archive(&config_map(&name, &number.to_string()));
        put(caller, &name, body.clone()).await;
        until_bundle(client, &name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
        let mut served = Vec::new();
        for caller in &callers {
            assert_eq!(caller.until_served(&format!("/uploads/{name}.tgz")).await, body);
            served.push(caller.until_served(&format!("/bundles/{name}.tgz")).await);
            let again = caller.ask(Method::PUT, &format!("/uploads/{name}.tgz")).body(body.clone());
            assert_eq!(again.send().await.expect("an answer").status(), StatusCode::NO_CONTENT);
            let other = caller.ask(Method::PUT, &format!("/uploads/{name}.tgz")).body("other");
            assert_eq!(other.send().await.expect("an answer").status(), StatusCode::CONFLICT);
        }
        assert_eq!(served[0], served[1]);
        verbs::delete(client, &Target::bundle(&name)).await.expect("deleted");
    }
    // What was uploaded goes with its Bundle, whoever took it.
    let end = Instant::now() + SOON;
    while !scene.bucket.keys(&format!("{}/v1/uploads/", scene.prefix)).await.expect("the server lists").is_empty() {
        assert!(Instant::now() < end, "uploads of Bundles that are gone are still there");
        tokio::time::sleep(Duration::from_millis(50)).await; // the bucket cannot be watched
    }
}

/// A policy keeps the leader from unpacking what has come first.
#[tokio::test]
async fn of_uploads_to_several_replicas_the_last_counts_and_is_whole() {
    let scene = Scene::set().await;
    let processes = scene.pair().await;
    let callers = scene.callers(&processes).await;
    let (client, name) = (&scene.stage.client, unique_name("twice"));
    let rule = json!({"name": "none", "scopes": ["*"], "sources": ["upload"], "action": "Refuse"});
    let policy = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "ContentPolicy",
                        "metadata": {"name": name}, "spec": {"rules": [rule]}});
    create(client, &policy).await;
    create(client, &bundle(&name, json!({"type": "upload", "upload": {}}))).await;
    until_bundle(client, &name, Expected::is_false("Verified", "RefusedByPolicy")).await;
    // What does not compress is sent in parts.
    let noise = || (0..4096).map(|_| unique_name("")).collect::<String>();
    let bodies = ["one", "two", "last"].map(|text| archive(&config_map(&name, &format!("{text}{}", noise()))));
    let [one, two, last] = &bodies;
    tokio::join!(put(&callers[0], &name, one.clone()), put(&callers[1], &name, two.clone()));
    let kept = callers[0].until_served(&format!("/uploads/{name}.tgz")).await;
    assert!(&kept == one || &kept == two, "neither of the two: {} bytes", kept.len());
    assert_eq!(callers[1].until_served(&format!("/uploads/{name}.tgz")).await, kept);
    put(&callers[1], &name, last.clone()).await;
    verbs::delete(client, &Target::of(&policy).expect("an object")).await.expect("deleted");
    let unpacked = until_bundle(client, &name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    let digest = rukpak_content::Digest::sha256(last).to_string();
    assert_eq!(unpacked.data["status"]["pin"]["archiveDigest"], digest, "{}", unpacked.data["status"]);
    let mut served = Vec::new();
    for caller in &callers {
        assert_eq!(&caller.until_served(&format!("/uploads/{name}.tgz")).await, last);
        served.push(caller.until_served(&format!("/bundles/{name}.tgz")).await);
    }
    assert_eq!(served[0], served[1]);
    // What a replica writes that learns too late that another upload was unpacked is nobody's.
    let key = format!("{}/v1/uploads/{}.tgz", scene.prefix, unpacked.metadata.uid.expect("it is in the cluster"));
    scene.bucket.overwrite(&key, one.clone()).await.expect("the server takes it");
    for caller in &callers {
        let answer = caller.ask(Method::GET, &format!("/uploads/{name}.tgz")).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn a_leader_whose_machine_is_lost_takes_nothing_with_it() {
    let mut scene = Scene::set().await;
    let processes = scene.pair().await;
    let callers = scene.callers(&processes).await;
    let client = scene.stage.client.clone();
    let [drifting, upgraded, uploaded] = ["drifting", "upgraded", "uploaded"].map(unique_name);
    scene.install_from_git(&drifting).await;
    let both = |text: &str| {
        let second = format!("{upgraded}-2");
        vec![
            ("manifests/a.yaml".to_owned(), config_map(&upgraded, text)),
            ("manifests/b.yaml".to_owned(), config_map(&second, text)),
        ]
    };
    let (old, new) = (scene.push(&upgraded, "v1", both("old")).await, scene.push(&upgraded, "v2", both("new")).await);
    create(&client, &deployment(&upgraded, image(&old))).await;
    until(&client, &upgraded, Expected::is_true("Installed", "InstallationSucceeded")).await;

    // An upgrade that is half done: one object is written, the write of the other never ends.
    let write = Rule::on(&format!("/configmaps/{upgraded}-2?"), Fault::Hang).method(Method::PATCH);
    scene.proxy.add(Rule { skip: 1, ..write });
    set_source(&scene, &upgraded, &image(&new)).await;
    until_text(&scene, &upgraded, "new").await;
    // An upload that is answered, and nothing more.
    create(&client, &deployment(&uploaded, json!({"type": "upload", "upload": {}}))).await;
    let generated = generated_bundle(&client, &uploaded).await;
    put(&callers[0], &generated, archive(&config_map(&uploaded, "uploaded"))).await;

    lose(&processes[0]).await;
    let lost = Instant::now();
    // No source is there any more, and somebody deletes an object.
    scene = Scene { registry: Registry::start(RegistryOptions::default()).await.expect("another registry"), ..scene };
    scene = Scene { git: GitServer::start().expect("another git server"), ..scene };
    verbs::delete(&client, &target(&drifting)).await.expect("deleted");
    scene.stage.held_by("second").await;
    let led = Instant::now();
    until_text(&scene, &drifting, "git").await;
    let repaired = led.elapsed();
    until_text(&scene, &format!("{upgraded}-2"), "new").await;
    let (upgrade, after) = (led.elapsed(), led.duration_since(lost));
    until_text(&scene, &uploaded, "uploaded").await;
    eprintln!(
        "the next one leads {after:?} after SIGKILL; then drift is repaired after {repaired:?}, the upgrade done after {upgrade:?}, \
         the upload installed after {:?}",
        led.elapsed()
    );
    assert!(repaired < REPAIRED, "{repaired:?}");
    for name in [&drifting, &upgraded, &uploaded] {
        until(&client, name, Expected::is_true("Installed", "InstallationSucceeded")).await;
        until(&client, name, Expected::is_true("Healthy", "Healthy")).await;
    }
}

/// A bucket takes minutes for what a thousand deployments have left there, or does not answer. Whoever tells of deployments goes on.
#[tokio::test]
async fn a_bucket_that_does_not_answer_holds_up_no_news_of_deployments() {
    let scene = Scene::set().await;
    let (client, ca) = (&scene.stage.client, TestCa::new("bucket").expect("an authority"));
    let bucket = FaultyServer::before_signed(&ca, &scene.bucket.url(), &ca.pem()).expect("a proxy");
    let file = scene.folder.path().join("bucket.pem");
    std::fs::write(&file, bucket.ca_pem()).expect("a CA file");
    let trust = vec![format!("--source-ca-file={}", file.display())];
    let _controller = scene.start_before("alone", None, &bucket.url(), trust).await;
    let [gone, stays] = ["gone", "stays"].map(unique_name);
    scene.install_from_git(&gone).await;
    scene.install_from_git(&stays).await;

    let refs = format!("refs%2Fdeployments%2F{gone}");
    bucket.forget();
    bucket.add(Rule::on(&refs, Fault::Hang));
    verbs::delete(client, &Target::bundle_deployment(&gone)).await.expect("the administrator may");
    bucket.asked(&refs, 1, SOON).await.expect("its content is let go");
    let target = Target::bundle_deployment(&stays);
    verbs::merge(client, &target, &json!({"spec": {"suspend": true}})).await.expect("the administrator may");
    let told = verbs::await_condition(client, &target, Expected::is_true("Suspended", "Suspended"), REPAIRED).await;
    bucket.mend();
    told.unwrap_or_else(|error| panic!("{error:#}"));
}

async fn set_source(scene: &Scene, name: &str, source: &Value) {
    let api = Target::bundle_deployment(name).api(&scene.stage.client).await.expect("served");
    let patch = json!({"spec": {"template": {"spec": {"source": source}}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("written");
}

/// The name of the Bundle that was generated for a BundleDeployment, once it waits for an upload.
pub async fn generated_bundle(client: &kube::Client, deployment: &str) -> String {
    until(client, deployment, Expected::is_true("HasValidBundle", "UnpackPending")).await;
    let api = Target::bundle("").api(client).await.expect("served");
    let labels = format!("core.rukpak.io/owner-name={deployment}");
    let found = api.list(&kube::api::ListParams::default().labels(&labels)).await.expect("readable");
    let name = found.items.first().and_then(|bundle| bundle.metadata.name.clone()).expect("a Bundle");
    until_bundle(client, &name, Expected::is_false("Unpacked", "UnpackPending")).await;
    name
}
