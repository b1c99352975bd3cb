//! Catalogs that break off, hang, come late or share a name: they are not hammered, and do not hold up others. A world of
//! their own, since whoever names no catalog asks all of them.

use std::time::{Duration, Instant};

use futures::future::join_all;
use kube::api::DynamicObject;
use rukpak_tests::catalog::{Cut, Ending};
use rukpak_tests::verbs::Expected;
use rukpak_tests::world::SOON;
use rukpak_tests::{CatalogdServer, Documents, Fault, FaultyServer, PlatformOptions, Rule, TestCa};
use serde_json::json;
use tokio::sync::OnceCell;

use super::case::{Case, installed, message, operator, platform_operator, source_failed};
use super::packages;
use super::world::{Platform, Source, nothing};

/// How long requests are counted. Bounds are for the time that it took in the end: a slow machine makes it longer.
const COUNTED: Duration = Duration::from_secs(3);
/// The first wait after a failure; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The event of a CatalogSource, and that of its connection, may come after the first question: each allows another one.
const NEWS: usize = 2;
/// Looks for a new revision.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a web server has to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// PlatformOperators that wait for what never comes.
const ASKERS: usize = 8;

/// The catalogs `good`, `calm`, `late` and `redhat-operators` are well, `broken` breaks off, `hanging` and
/// `mute` never answer.
struct Troubled {
    platform: Platform,
    hanging: FaultyServer,
    mute: FaultyServer,
    broken: FaultyServer,
    start: Instant,
    _behind: CatalogdServer,
}

static TROUBLED: OnceCell<Troubled> = OnceCell::const_new();

impl Troubled {
    async fn shared() -> &'static Self {
        TROUBLED.get_or_init(Self::new).await
    }

    async fn new() -> Self {
        let ca = TestCa::new("hanging-ca").expect("a CA");
        let [hanging, mute] = [(); 2].map(|()| FaultyServer::alone(&ca).expect("a server"));
        for server in [&hanging, &mute] {
            server.add(Rule::on("", Fault::Hang));
        }
        let behind = CatalogdServer::start().expect("catalogd");
        behind.put("all", nothing()).expect("a catalog");
        let broken = behind.behind_faults().expect("a server");
        // Each time at another place, so that each failure has other words.
        for bytes in 1..100 {
            broken.add(Rule::on("", Fault::HangUpAfter(bytes)).times(1));
        }
        let trusted = [hanging.ca_pem(), broken.ca_pem()].concat();
        let urls = (hanging.url(), broken.url(), mute.url());
        let platform = Platform::with_main(&trusted, async |_, web, folder| {
            for name in ["good", "calm"] {
                web.put(name, nothing()).expect("a catalog");
            }
            vec![
                format!("--catalog=good={}", web.url("good")),
                format!("--catalog=calm={}", web.url("calm")),
                format!("--catalog=hanging={}/catalogs/all", urls.0),
                format!("--catalog=broken={}/catalogs/all", urls.1),
                format!("--catalog=mute={}/catalogs/all", urls.2),
                format!("--catalog=late={}", web.url("late")),
                format!("--catalog=redhat-operators=dir:{}", folder.display()),
                format!("--catalog-poll-interval={}s", POLL_INTERVAL.as_secs()),
                "--catalog-source=openshift-marketplace/redhat-operators".to_owned(),
                "--catalog-source=flapping/catalog".to_owned(),
            ]
        });
        let platform = platform.await;
        Self { platform, hanging, mute, broken, start: Instant::now(), _behind: behind }
    }
}

/// How often something that takes `each` can have ended in `took`.
fn times(took: Duration, each: Duration) -> usize {
    usize::try_from(took.as_millis() / each.as_millis()).expect("not that often")
}

/// What came of a catalog that fails.
struct Failing {
    /// The different texts of failures that the PlatformOperator has reported.
    texts: Vec<String>,
    /// How often the catalog may have been asked meanwhile.
    questions: usize,
    took: Duration,
}

/// Lets a PlatformOperator ask the catalog `name` for as long as requests are counted, and until it has failed twice;
/// `meanwhile` something else happens.
async fn ask(case: &Case<'_>, name: &str, meanwhile: impl Future<Output = ()>) -> Failing {
    let recording = case.record(&case.target()).await;
    let start = Instant::now();
    case.create(&json!({"catalog": name}), None).await;
    let texts = || {
        let told = |seen: &super::recording::Seen| message(&seen.object, "Installed");
        let mut texts: Vec<String> = recording.so_far().iter().map(told).filter(|text| !text.is_empty()).collect();
        texts.dedup();
        texts
    };
    let enough = async {
        tokio::time::sleep(COUNTED).await;
        while texts().len() < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await; // as above
        }
    };
    tokio::select! {
        () = meanwhile => unreachable!("it never ends"),
        enough = tokio::time::timeout(SOON, enough) => enough.unwrap_or_else(|_| panic!("not two: {:#?}", texts())),
    }
    let took = start.elapsed();
    let (mut questions, mut wait, mut at) = (1 + NEWS, FIRST_WAIT, FIRST_WAIT);
    while at <= took {
        questions += 1;
        wait *= 2;
        at += wait;
    }
    let writes = recording.so_far().len();
    // Itself, then a status for each question.
    assert!(writes <= 2 + questions, "{writes} writes for {questions} questions: {:#?}", texts());
    Failing { texts: texts(), questions, took }
}

#[tokio::test]
async fn a_catalog_that_breaks_off_each_time_elsewhere_is_not_hammered() {
    let world = Troubled::shared().await;
    let case = Case::within(&world.platform, "broken").await;
    let failing = ask(&case, "broken", std::future::pending()).await;
    let asked = world.broken.count("");
    let polls = 1 + times(failing.took, POLL_INTERVAL);
    assert!((2..=failing.questions + polls).contains(&asked), "{asked} requests: {:#?}", failing.texts);
}

#[tokio::test]
async fn a_catalog_server_that_breaks_off_each_time_elsewhere_is_not_hammered() {
    let world = Troubled::shared().await;
    let case = Case::within(&world.platform, "flapping").await;
    let source = Source::new(("flapping", "catalog"));
    let (documents, _) = case.chain(&["1.0.0"]).await;
    source.put(&case.name, many(&case.name).and(documents));
    let broken_off = |after| source.server.cut(Cut { after, ending: Ending::Unavailable });
    broken_off(0);
    source.create(&case.client).await;
    source.say(&case.client, "READY").await;
    let flapping = async {
        for after in 0.. {
            broken_off(after % 50);
            tokio::time::sleep(Duration::from_millis(20)).await; // the very thing that is asked for
        }
    };
    let failing = ask(&case, "flapping/catalog", flapping).await;
    let asked = source.server.count("ListBundles");
    assert!((2..=failing.questions).contains(&asked), "{asked} calls: {:#?}", failing.texts);
    source.server.cut(None);
    case.until(installed()).await;
}

async fn is_asked(server: &FaultyServer) {
    tokio::time::timeout(SOON, async {
        while server.count("") == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await; // a server cannot be watched
        }
    })
    .await
    .expect("it is asked");
}

/// So many bundles that a list of them can break off at many places.
fn many(prefix: &str) -> Documents {
    let one = |index| Documents::package(&format!("{prefix}-unused-{index}"), &[("1.0.0", "localhost:1/unused:v1")]);
    (0..50).map(one).fold(Documents::default(), Documents::and)
}

/// What they wait for never answers; what others wait for does.
#[tokio::test]
async fn a_catalog_that_hangs_holds_nobody_else_up() {
    let world = Troubled::shared().await;
    let case = Case::within(&world.platform, "waits").await;
    let (documents, _) = case.chain(&["1.0.0"]).await;
    world.platform.web.put("good", documents).expect("a catalog");
    let asker = |index: usize| format!("{}-{index}", case.name);
    for index in 0..ASKERS {
        let package = json!({"name": asker(index), "catalog": "hanging"});
        case.make(&operator(&asker(index), json!({"package": package}))).await;
    }
    is_asked(&world.hanging).await;
    case.create(&json!({"catalog": "good"}), None).await;
    case.until(installed()).await;
    // New revisions of the others are found all the same.
    let (documents, _) = case.chain(&["1.0.0", "1.1.0"]).await;
    world.platform.web.put("good", documents).expect("a catalog");
    case.until(Expected::is_true("UpgradeAvailable", "ManualPolicy").saying("Version 1.1.0")).await;
    // What is installed goes on being reported.
    let broken = case.push("1.0.1", packages::broken(&case.name, "1.0.1")).await;
    case.edit(&broken).await;
    case.until(Expected { kind: "Installed", status: "False", reason: None, message: "settings" }).await;
    for index in 0..ASKERS {
        let asker = case.get(&platform_operator(&asker(index))).await;
        let said = message(&asker, "Installed");
        assert!(said.is_empty() || world.start.elapsed() >= ANSWER, "it waits: {said}");
    }
    let questions = world.hanging.count("");
    assert!(questions <= 1 + times(world.start.elapsed(), ANSWER), "all share one: {questions}");
}

/// What happens to a PlatformOperator is dealt with before its own catalog has been given up.
#[tokio::test]
async fn a_catalog_that_hangs_keeps_nothing_from_whoever_asks_it() {
    let world = Troubled::shared().await;
    let case = Case::within(&world.platform, "asks").await;
    let (documents, _) = case.chain(&["1.0.0"]).await;
    world.platform.web.put("calm", documents).expect("a catalog");
    let recording = case.record(&case.target()).await;
    // Another catalog, before anything is installed.
    let asked = Instant::now();
    case.create(&json!({"catalog": "mute"}), None).await;
    is_asked(&world.mute).await;
    let ask = async |catalog: &str| {
        case.merge(&case.target(), &json!({"spec": {"package": {"catalog": catalog}}})).await;
    };
    ask("calm").await;
    case.until(installed()).await;
    // The BundleDeployment, while the next version is looked for.
    ask("mute").await;
    let broken = json!({"spec": {"config": {"watchNamespace": case.name}}});
    case.merge(&case.deployment(), &broken).await;
    let failed = Expected { kind: "Installed", status: "False", reason: Some("BundleLoadFailed"), message: "" };
    for seen in recording.until("the failure", |seen| failed.met_by(&seen.object)).await {
        for kind in ["Installed", "UpgradeAvailable"] {
            let told = message(&seen.object, kind);
            let is_early = asked.elapsed() < ANSWER;
            assert!(!is_early || !told.contains("mute"), "only after the catalog was given up: {told}");
        }
    }
}

#[tokio::test]
async fn a_catalog_that_comes_late_is_used_by_all_who_wait_for_it_at_once() {
    let world = Troubled::shared().await;
    let cases = ["late-a", "late-b", "late-c"].map(|prefix| Case::within(&world.platform, prefix));
    let cases = join_all(cases).await;
    let mut all = Documents::default();
    for case in &cases {
        all = all.and(case.chain(&["1.0.0"]).await.0);
        case.create(&json!({"catalog": "late"}), None).await;
    }
    join_all(cases.iter().map(|case| async {
        case.until(source_failed("404")).await;
        // Each question in vain doubles the back-off, which begins at 5 s: it ends far behind this test.
        for version in ["1.x", ">=1.0.0", "<2.0.0", ">=1.0.0 <2.0.0"] {
            let asked = case.merge(&case.target(), &json!({"spec": {"package": {"version": version}}})).await;
            let is_answered = |object: &DynamicObject| {
                object.data["status"]["observedGeneration"].as_i64() >= asked.metadata.generation
                    && source_failed("404").met_by(object)
            };
            case.until_object(&case.target(), "another failure", is_answered).await;
        }
    }))
    .await;
    world.platform.web.put("late", all).expect("a catalog");
    join_all(cases.iter().map(|case| case.until(installed()))).await;
}

/// The catalog of a flag has the name that is also the short one of the CatalogSource.
#[tokio::test]
async fn a_catalog_source_whose_short_name_another_catalog_has_is_named_in_full() {
    let world = Troubled::shared().await;
    let case = Case::within(&world.platform, "namesake").await;
    let (documents, images) = case.chain(&["1.0.0"]).await;
    case.publish(documents).await;
    case.create(&json!({"catalog": "openshift-marketplace/redhat-operators"}), Some("Automatic")).await;
    let operator = case.until(installed()).await;
    let catalog = |object: &DynamicObject| object.data["status"]["source"]["catalog"].clone();
    assert_eq!(catalog(&operator), "openshift-marketplace/redhat-operators");

    // It stays with that one, although it asks for none by name now and its namesake has more.
    let (more, newer) = case.chain(&["1.0.0", "1.1.0", "1.2.0"]).await;
    world.platform.put_folder(&more);
    case.publish(case.chain(&["1.0.0", "1.1.0"]).await.0).await;
    case.merge(&case.target(), &json!({"spec": {"package": {"catalog": null}}})).await;
    let operator = case.until_version("1.1.0").await;
    assert_eq!(catalog(&operator), "openshift-marketplace/redhat-operators");
    case.stays(&case.deployment(), "the version", |object| [&images[0], &newer[1]].contains(&&image(object))).await;

    // By the short name it is the first that is asked which is meant.
    let second = Case::within(&world.platform, "namesake-short").await;
    let (documents, _) = second.chain(&["1.0.0"]).await;
    world.platform.put_folder(&more.and(documents));
    second.create(&json!({"catalog": "redhat-operators"}), None).await;
    assert_eq!(catalog(&second.until(installed()).await), "redhat-operators");
}

fn image(deployment: &DynamicObject) -> String {
    super::case::image_of(deployment).to_owned()
}

#[tokio::test]
async fn two_catalogs_of_one_name_are_refused_at_the_start() {
    let world = Troubled::shared().await;
    let arguments = ["--catalog=twin=dir:/a", "--catalog=other=dir:/b", "--catalog=twin=dir:/c"].map(str::to_owned);
    let options = PlatformOptions { arguments: arguments.into(), ..PlatformOptions::default() };
    let manager = world.platform.plane.start_platform(options).await.expect("it starts");
    let error = manager.wait_ready().await.expect_err("it ends").to_string();
    assert!(error.contains("\"twin\" is the name of two catalogs"), "{error}");
    assert!(manager.exit_status().expect("known").is_some_and(|status| !status.contains("exit status: 0")), "{error}");
}
