//! Leader election: of several controllers one writes and serves, and the next goes on where it was.

mod alone;
mod clients;
mod endpoints;
mod lost;
mod replicas;
mod shards;

use std::time::{Duration, Instant};

use axum::http::Method;
use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::plane::install::{CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE};
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{deployment, image, until};
use rukpak_tests::{
    ControllerOptions, Fault, FaultyServer, ImageBuilder, InstallOptions, Plane, Process, Registry, RegistryOptions,
    Rule, TestCa,
};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Promised by a holder that is to be replaced when it falls silent; long enough for it not to on a busy machine.
const SHORT: &str = "--leader-elect-lease-duration=15s";
/// Promised by a holder whose Lease no test waits to see expire. It renews every 24 seconds, which a test does wait for.
const LONG: &str = "--leader-elect-lease-duration=3m";
/// Shorter than the long promise, longer than any handover on a busy machine.
const AT_ONCE: Duration = Duration::from_mins(2);

/// What all tests share. There is one Lease, so they take turns.
struct Cluster {
    plane: Plane,
    registry: Registry,
    folder: tempfile::TempDir,
}

struct Stage {
    cluster: MutexGuard<'static, Cluster>,
    client: Client,
}

static CLUSTER: OnceCell<Mutex<Cluster>> = OnceCell::const_new();

impl Cluster {
    async fn start() -> Mutex<Self> {
        let plane = Plane::start().await.expect("the plane starts");
        let options = InstallOptions { without_webhooks: true, ..InstallOptions::default() };
        plane.install(&options).await.expect("the manifests apply");
        let registry = Registry::start(RegistryOptions::default()).await.expect("the registry starts");
        let folder = rukpak_tests::tools::temp_folder("leader").expect("a folder");
        std::fs::write(folder.path().join("ca.pem"), registry.ca_pem()).expect("the CA file");
        Mutex::new(Self { plane, registry, folder })
    }
}

fn lease() -> Target {
    Target::namespaced("coordination.k8s.io/v1", "Lease", SYSTEM_NAMESPACE, "core.rukpak.io")
}

impl Stage {
    /// A cluster where nobody has led.
    async fn set() -> Self {
        let cluster = CLUSTER.get_or_init(Cluster::start).await.lock().await;
        let client = cluster.plane.admin().await.expect("the admin kubeconfig is good");
        if verbs::get(&client, &lease()).await.expect("it can be read").is_some() {
            verbs::delete(&client, &lease()).await.expect("the administrator may");
        }
        Self { cluster, client }
    }

    /// A server before the API server, whose faults are ours to set.
    fn proxy(&self) -> FaultyServer {
        let plane = &self.cluster.plane;
        let authority = std::fs::read_to_string(plane.certificate_authority_path()).expect("the API server's CA");
        let proxy = FaultyServer::before(&TestCa::new("proxy").expect("an authority"), plane.server(), &authority);
        proxy.expect("a proxy")
    }

    /// A controller in the Pod of this name, which promises by this flag for how long it leads.
    async fn start(&self, pod: &str, promise: &str) -> Process {
        let process = self.begin(pod, promise, None).await;
        process.wait_ready().await.unwrap_or_else(|error| panic!("{pod}: {error:#}"));
        process
    }

    /// The same, which may not be ready yet, and reaches the API server by way of a proxy.
    async fn begin(&self, pod: &str, promise: &str, proxy: Option<&FaultyServer>) -> Process {
        let plane = &self.cluster.plane;
        let mut arguments = vec!["--leader-elect".to_owned()];
        arguments.push(format!("--source-ca-file={}", self.cluster.folder.path().join("ca.pem").display()));
        arguments.push(promise.to_owned());
        let environment = vec![("POD_NAME".to_owned(), pod.to_owned())];
        let mut kubeconfig = None;
        if let Some(proxy) = proxy {
            let through = plane.kubeconfig_through(CONTROLLER_ACCOUNT, &proxy.url(), proxy.ca_pem()).await;
            kubeconfig = Some(through.expect("a kubeconfig"));
        }
        let options = ControllerOptions { arguments, environment, kubeconfig, ..ControllerOptions::default() };
        plane.start_controller(options).await.expect("the controller starts")
    }

    /// Waits until the Lease names the Pod; returns the Lease.
    async fn held_by(&self, pod: &str) -> DynamicObject {
        let held = |object: Option<&DynamicObject>| object.is_some_and(|lease| holder(lease) == pod);
        let found = verbs::await_object(&self.client, &lease(), &format!("holder {pod:?}"), AT_ONCE, held).await;
        found.unwrap_or_else(|error| panic!("{error:#}")).expect("held")
    }

    /// Installs a bundle and checks in whose store its content is.
    async fn installs(&self, by: &Process) {
        let before = contents(by);
        let name = self.deploy().await;
        until(&self.client, &name, Expected::is_true("Installed", "InstallationSucceeded")).await;
        assert!(contents(by) > before, "another process has unpacked {name}");
    }

    /// Creates a BundleDeployment of one Namespace, and returns its name.
    async fn deploy(&self) -> String {
        let name = unique_name("led");
        let manifest = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n");
        let bundle = ImageBuilder::of_files([("manifests/namespace.yaml", manifest)]);
        let pushed = self.cluster.registry.push(&name, "v1", &bundle).await.expect("the registry takes it");
        verbs::create(&self.client, &deployment(&name, image(&pushed.reference))).await.expect("created");
        name
    }
}

fn holder(lease: &DynamicObject) -> &str {
    lease.data["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// How often the Lease has changed hands.
fn transitions(lease: &DynamicObject) -> i64 {
    lease.data["spec"]["leaseTransitions"].as_i64().expect("the holder counts")
}

/// How many contents a store holds.
fn contents(process: &Process) -> usize {
    let refs = process.storage.join("v1/refs/bundles");
    std::fs::read_dir(refs).map(Iterator::count).unwrap_or_default()
}

#[tokio::test]
async fn one_of_two_controllers_writes_and_the_other_takes_over() {
    let stage = Stage::set().await;
    let first = stage.start("first", SHORT).await;
    let lease = stage.held_by("first").await;
    assert_eq!(lease.data["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(transitions(&lease), 0, "it is new");

    // Who stands by is ready, else a rollout would wait for ever, and does nothing.
    let second = stage.start("second", LONG).await;
    stage.installs(&first).await;
    assert_eq!(contents(&second), 0);

    // Silent, it cannot say so: its promise has to run out.
    first.pause().unwrap();
    let lease = stage.held_by("second").await;
    assert_eq!(transitions(&lease), 1);
    stage.installs(&second).await;

    // One that hung past its deadline finds out before it goes on, and stands by.
    let begin = first.log().len();
    first.resume().unwrap();
    first
        .until_logged(begin, "could not be renewed for 10s, two thirds of --leader-elect-lease-duration")
        .await
        .unwrap();
    lost::stands_by_again(&first, begin).await;
    let lease = stage.held_by("second").await;
    assert_eq!(transitions(&lease), 1, "the first does not free the Lease");

    // A restarted container goes on at once, though its promise is one of minutes.
    let restarted = Instant::now();
    second.kill().await.unwrap();
    second.restart().await.unwrap();
    second.wait_ready().await.unwrap();
    stage.installs(&second).await;
    assert!(restarted.elapsed() < AT_ONCE, "{:?}", restarted.elapsed());
    assert_eq!(transitions(&stage.held_by("second").await), transitions(&lease), "the same holder");

    // Told to end, it gives the Lease back when it can write no more.
    let told = Instant::now();
    assert_eq!(second.terminate().await.unwrap(), "exit status: 0");
    stage.held_by("first").await;
    assert!(told.elapsed() < AT_ONCE, "{:?}", told.elapsed());
    stage.installs(&first).await;
    first.terminate().await.unwrap();
}

/// The answer to it is lost; nobody else wants the Lease.
#[tokio::test]
async fn a_candidate_whose_request_for_the_lease_gets_no_answer_asks_again() {
    let stage = Stage::set().await;
    let proxy = stage.proxy();
    proxy.add(Rule::on("/leases", Fault::Hang).method(Method::POST).times(1));
    let process = stage.begin("unheard", SHORT, Some(&proxy)).await;
    stage.held_by("unheard").await;
    process.terminate().await.expect("it obeys");
}
