//! A machine without CPU time to spare, as an overloaded control plane has it: what is installed stays right, nobody ends, readiness is honest,
//! and the logs stay short.

use std::num::NonZero;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{World, WorldOptions, deployment, image, until};
use rukpak_tests::{ImageBuilder, Process, fixtures};
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

const DEPLOYMENTS: usize = 100;
/// Objects of each.
const OBJECTS: usize = 10;
const TEXT_BYTES: usize = 200;
/// Bundles that are pushed and created at once.
const AT_ONCE: usize = 8;
/// Burners on each core: servers, programs and this test share what a sixth process would have.
const BURNERS: usize = 5;
/// How long they burn, in seconds, and the variable that says otherwise.
const SECONDS: u64 = 600;
const VARIABLE: &str = "OVERLOAD_SECONDS";
/// Edits in that time.
const EDITS: usize = 10;
/// Who says that it is ready has undone an edit within this time.
const PROMPT: Duration = Duration::from_mins(1);
/// Longest wait for anything while they burn.
const PATIENCE: Duration = Duration::from_mins(10);
/// Fewer lines are in the logs of controller and webhook from that time.
const LINES: usize = 50;
/// How often somebody looks whether the controller is ready, as a kubelet does.
const LOOK: Duration = Duration::from_secs(1);

/// Processes that take all CPU time that there is. They end when dropped, or by themselves when their time is over.
struct Burners(Vec<Child>);

impl Burners {
    fn light(time: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let script = format!("while ((SECONDS < {})); do :; done", time.as_secs());
        let burner = |_| {
            let mut command = Command::new("bash");
            command.args(["-c", &script]).stdin(Stdio::null()).kill_on_drop(true).spawn().expect("bash")
        };
        Self((0..cores * BURNERS).map(burner).collect())
    }

    /// Fails if one has ended before its time.
    fn burn(&mut self) {
        for child in &mut self.0 {
            assert!(child.try_wait().expect("it is ours").is_none(), "a burner has ended: nothing was shown");
        }
    }
}

/// What a program answers while it is asked whether it is ready.
struct Readiness {
    answers: Arc<Mutex<Vec<(Instant, bool)>>>,
    asking: JoinHandle<()>,
}

impl Readiness {
    fn ask(process: &Process) -> Self {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let (heard, url) = (answers.clone(), format!("{}/readyz", process.health_url));
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().expect("a client");
        let asking = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(LOOK);
            loop {
                ticks.tick().await;
                let is_ready = client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success());
                heard.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), is_ready));
            }
        });
        Self { answers, asking }
    }

    /// How often it was asked since then, and how often it was not ready.
    fn since(&self, begin: Instant) -> (usize, usize) {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = || answers.iter().filter(|(at, _)| *at >= begin);
        (recent().count(), recent().filter(|(_, is_ready)| !is_ready).count())
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

/// BundleDeployments of ConfigMaps, all in one namespace.
struct Fleet<'a> {
    world: &'a World,
    client: kube::Client,
    namespace: String,
}

impl Fleet<'_> {
    fn name(index: usize) -> String {
        format!("overload-{index:03}")
    }

    async fn create(&self, index: usize) {
        let name = Self::name(index);
        let files = fixtures::config_maps(&self.namespace, &name, OBJECTS, TEXT_BYTES);
        let reference = self.world.push(&name, &ImageBuilder::of_files(files)).await;
        let object = deployment(&name, image(&reference));
        verbs::create(&self.client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Installs all, which takes no longer than usual.
    async fn install(&self) {
        let created = stream::iter(0..DEPLOYMENTS).map(|index| self.create(index));
        created.buffer_unordered(AT_ONCE).collect::<()>().await;
        for index in 0..DEPLOYMENTS {
            until(&self.client, &Self::name(index), Expected::is_true("Ready", "Succeeded")).await;
        }
    }

    /// Edits an object of one of them; returns how long the edit stood.
    async fn edit(&self, index: usize) -> Duration {
        let name = format!("{}-00000", Self::name(index));
        let target = Target::namespaced("v1", "ConfigMap", &self.namespace, &name);
        let patch = json!({"data": {"value": "edited"}});
        // The API server may have no time for it.
        while let Err(error) = verbs::merge(&self.client, &target, &patch).await {
            eprintln!("note: {error:#}");
        }
        let begin = Instant::now();
        let undone = |object: Option<&DynamicObject>| object.is_some_and(is_as_declared);
        let seen = verbs::await_object(&self.client, &target, "the edit to be undone", PATIENCE, undone).await;
        seen.unwrap_or_else(|error| panic!("{error:#}"));
        begin.elapsed()
    }

    /// Fails unless every object of `count` deployments is there, and as it is declared.
    async fn assert_right(&self, count: usize) {
        let labels = "core.rukpak.io/owner-kind=BundleDeployment";
        let objects = verbs::list(&self.client, "v1", "ConfigMap", labels).await.expect("a list");
        assert_eq!(objects.len(), count * OBJECTS);
        let wrong: Vec<_> = objects.iter().filter(|object| !is_as_declared(object)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        let bundles = verbs::list(&self.client, "core.rukpak.io/v1alpha1", "Bundle", "").await.expect("a list");
        assert_eq!(bundles.len(), count, "none was made twice");
    }
}

fn is_as_declared(object: &DynamicObject) -> bool {
    object.data["data"]["value"] == "x".repeat(TEXT_BYTES)
}

/// What a program has written after `begin` bytes, and that it has not ended.
fn written(process: &Process, begin: usize) -> Vec<String> {
    assert_eq!(process.exit_status().expect("a keeper"), None, "{}", process.log_tail(20));
    process.log()[begin..].lines().map(str::to_owned).collect()
}

/// Edits objects until the time is over, and compares what becomes of them with what the controller says of itself.
async fn disturb(fleet: &Fleet<'_>, readiness: &Readiness, time: Duration) {
    let mut ticks = tokio::time::interval(time / u32::try_from(EDITS).expect("few"));
    for edit in 0..EDITS {
        ticks.tick().await;
        let begin = Instant::now();
        let stood = fleet.edit(edit * DEPLOYMENTS / EDITS).await;
        let (asked, unready) = readiness.since(begin);
        println!("edit {edit}: undone after {stood:.1?}; asked {asked} times, not ready {unready} times");
        assert!(stood < PROMPT || unready > 0, "it called itself ready, and an edit stood for {stood:?}");
    }
    ticks.tick().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes all CPU time for ten minutes: for `make soak`"]
async fn lives_with_a_control_plane_that_has_no_cpu_time_left() {
    let seconds = std::env::var(VARIABLE).map_or(SECONDS, |text| text.parse().expect("seconds"));
    let time = Duration::from_secs(seconds);
    let options = WorldOptions { arguments: vec!["--leader-elect".to_owned()], ..WorldOptions::default() };
    let world = World::start_with(options).await.unwrap_or_else(|error| panic!("no world: {error:#}"));
    let client = world.admin().await;
    let namespace = verbs::namespace(&client, "overload").await.expect("a namespace");
    let fleet = Fleet { world: &world, client, namespace };
    fleet.install().await;
    let programs = [&world.controller, &world.webhook];
    let begins = programs.map(|program| program.log().len());

    // Past the waits, so that they burn to the end.
    let mut burners = Burners::light(time + 2 * PATIENCE);
    let readiness = Readiness::ask(&world.controller);
    disturb(&fleet, &readiness, time).await;
    fleet.create(DEPLOYMENTS).await;
    let late = Target::bundle_deployment(&Fleet::name(DEPLOYMENTS));
    let installed = verbs::await_condition(&fleet.client, &late, Expected::is_true("Ready", "Succeeded"), PATIENCE);
    installed.await.unwrap_or_else(|error| panic!("{error:#}"));
    burners.burn();
    drop(burners);

    for index in 0..=DEPLOYMENTS {
        until(&fleet.client, &Fleet::name(index), Expected::is_true("Ready", "Succeeded")).await;
    }
    fleet.assert_right(DEPLOYMENTS + 1).await;
    for program in programs {
        program.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
    }
    let lines: Vec<String> = programs.into_iter().zip(begins).flat_map(|(one, begin)| written(one, begin)).collect();
    println!("{} lines of log in {seconds} s for {DEPLOYMENTS} deployments", lines.len());
    assert!(lines.len() < LINES, "{} lines:\n{}", lines.len(), lines.join("\n"));
}
