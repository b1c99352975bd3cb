//! Catalogs that break off, hang, come late or share a name: they are not hammered, and do not hold up others. A world of
//! their own, since whoever names no catalog asks all of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use kube::api::DynamicObject;
use rukpak_tests::catalog::{Cut, Ending};
use rukpak_tests::verbs::{self, Expected};
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
