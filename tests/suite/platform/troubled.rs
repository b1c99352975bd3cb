//! Catalogs that break off, hang, come late or share a name: they are not hammered, and do not hold up others. A world of
//! their own, since whoever names no catalog asks all of them.

use std::time::Duration;

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

/// How long requests are counted.
const COUNTED: Duration = Duration::from_secs(3);
/// A back-off of 0.5, 1 and 2 s allows three questions in that time; the machine may be slow at the start.
const HANDFUL: usize = 5;
/// PlatformOperators that wait for what never comes.
const ASKERS: usize = 8;
/// Looks for a new revision in that time, one each second.
const POLLS: usize = 4;

/// The catalogs `good`, `late` and `redhat-operators` are well, `broken` breaks off and `hanging` never answers.
struct Troubled {
    platform: Platform,
    hanging: FaultyServer,
    broken: FaultyServer,
    _behind: CatalogdServer,
}

static TROUBLED: OnceCell<Troubled> = OnceCell::const_new();

impl Troubled {
    async fn shared() -> &'static Self {
        TROUBLED.get_or_init(Self::new).await
    }

    async fn new() -> Self {
        let ca = TestCa::new("hanging-ca").expect("a CA");
        let hanging = FaultyServer::alone(&ca).expect("a server");
        hanging.add(Rule::on("", Fault::Hang));
        let behind = CatalogdServer::start().expect("catalogd");
        behind.put("all", nothing()).expect("a catalog");
        let broken = behind.behind_faults().expect("a server");
        // Each time at another place, so that each failure has other words.
        for bytes in 1..100 {
            broken.add(Rule::on("", Fault::HangUpAfter(bytes)).times(1));
        }
        let trusted = [hanging.ca_pem(), broken.ca_pem()].concat();
        let urls = (hanging.url(), broken.url());
        let platform = Platform::with_main(&trusted, async |_, web, folder| {
            web.put("good", nothing()).expect("a catalog");
            vec![
                format!("--catalog=good={}", web.url("good")),
                format!("--catalog=hanging={}/catalogs/all", urls.0),
                format!("--catalog=broken={}/catalogs/all", urls.1),
                format!("--catalog=late={}", web.url("late")),
                format!("--catalog=redhat-operators=dir:{}", folder.display()),
                "--catalog-poll-interval=1s".to_owned(),
                "--catalog-source=openshift-marketplace/redhat-operators".to_owned(),
                "--catalog-source=flapping/catalog".to_owned(),
            ]
        });
        let platform = platform.await;
        Self { platform, hanging, broken, _behind: behind }
    }
}

/// The different texts of failures that a PlatformOperator has reported, each of which is a write.
async fn failures(case: &Case<'_>, during: impl Future<Output = ()>) -> Vec<String> {
    let recording = case.record(&case.target()).await;
    during.await;
    let mut texts: Vec<String> = recording.so_far().iter().map(|seen| message(&seen.object, "Installed")).collect();
    texts.retain(|text| !text.is_empty());
    let writes = recording.so_far().len();
    assert!(writes <= 2 * HANDFUL, "{writes} writes: {texts:#?}");
    texts.dedup();
    texts
}

#[tokio::test]
async fn a_catalog_that_breaks_off_each_time_elsewhere_is_not_hammered() {
    let world = Troubled::shared().await;
    let case = Case::within(&world.platform, "broken").await;
    let texts = failures(&case, async {
        case.create(&json!({"catalog": "broken"}), None).await;
        tokio::time::sleep(COUNTED).await;
    })
    .await;
    assert!(texts.len() > 1, "the words were to differ: {texts:#?}");
    let asked = world.broken.count("");
    assert!((2..=HANDFUL + POLLS).contains(&asked), "{asked} requests");
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
    let texts = failures(&case, async {
        case.create(&json!({"catalog": "flapping/catalog"}), None).await;
        let _ = tokio::time::timeout(COUNTED, flapping).await; // it never ends
    })
    .await;
    assert!(texts.len() > 1, "the words were to differ: {texts:#?}");
    let asked = source.server.count("ListBundles");
    assert!((2..=HANDFUL).contains(&asked), "{asked} calls");
    source.server.cut(None);
    case.until(installed()).await;
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
    tokio::time::timeout(SOON, async {
        while world.hanging.count("") == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await; // a server cannot be watched
        }
    })
    .await
    .expect("it is asked");
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
        assert_eq!(message(&asker, "Installed"), "", "it waits");
    }
    assert_eq!(world.hanging.count(""), 1, "all share one question");
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
