//! CatalogSources that are missing, not ready, broken off or gone: what is said, and that it goes on by itself.

use rukpak_tests::catalog::{Cut, Ending};
use rukpak_tests::verbs::Expected;
use serde_json::{Value, json};

use super::case::{Case, image_of, installed, source_failed};
use super::world::{Source, private_source};

/// Publishes two versions in a CatalogSource of the test's own, which does not exist yet; returns the images.
async fn with_private(case: &Case<'_>, namespace: &str) -> (Source, Vec<String>) {
    let source = private_source(namespace);
    let (documents, images) = case.chain(&["1.0.0", "1.1.0"]).await;
    source.put(&case.name, documents);
    (source, images)
}

/// What asks for the package from there.
fn from(source: &Source) -> Value {
    json!({"catalog": source.path()})
}

#[tokio::test]
async fn a_catalog_that_is_not_ready_is_named_and_used_once_it_is() {
    let case = Case::new("not-ready").await;
    let (source, images) = with_private(&case, "not-ready").await;
    source.create(&case.client).await;
    case.create(&from(&source), None).await;
    let says = |what: &str| format!("the CatalogSource not-ready/catalog is not ready: {what}");
    case.until(source_failed(&says("it has no connection yet"))).await;
    for state in ["CONNECTING", "TRANSIENT_FAILURE"] {
        source.say(&case.client, state).await;
        case.until(source_failed(&says(&format!("its connection is {state}")))).await;
    }
    source.say(&case.client, "READY").await;
    case.until(installed()).await;
    assert_eq!(image_of(&case.get(&case.deployment()).await), images[1]);

    // What is installed stays installed, whatever becomes of the catalog.
    source.say(&case.client, "TRANSIENT_FAILURE").await;
    case.stays(&case.target(), "the installation", |object| installed().met_by(object)).await;
}

#[tokio::test]
async fn a_connection_without_an_address_is_not_ready() {
    let case = Case::new("addressless").await;
    let (source, _) = with_private(&case, "addressless").await;
    source.create(&case.client).await;
    source.connection(&case.client, &json!({"lastObservedState": "READY"})).await;
    case.create(&from(&source), None).await;
    case.until(source_failed("its connection has no address")).await;
    source.connection(&case.client, &json!({"lastObservedState": "READY", "address": "no address"})).await;
    case.until(source_failed("failed to register client")).await;
    source.say(&case.client, "READY").await;
    case.until(installed()).await;
}

#[tokio::test]
async fn a_catalog_that_is_missing_is_used_once_it_is_created() {
    let case = Case::new("missing").await;
    let (source, _) = with_private(&case, "created-later").await;
    case.create(&from(&source), None).await;
    case.until(source_failed("\"catalog\" not found in namespace \"created-later\"")).await;
    case.until(Expected::is_true("Stalled", "SourceFailed")).await;
    source.create(&case.client).await;
    source.say(&case.client, "READY").await;
    case.until(installed()).await;
}

/// Half a list would hide the newer version.
#[tokio::test]
async fn a_stream_that_is_cut_half_way_never_gives_an_older_version() {
    let case = Case::new("cut").await;
    let (source, images) = with_private(&case, "cut").await;
    source.create(&case.client).await;
    let recording = case.record(&case.deployment()).await;
    case.create(&from(&source), None).await;
    for ending in [Ending::Unavailable, Ending::Closed, Ending::NoStatus] {
        source.server.cut(Cut { after: 1, ending });
        source.say(&case.client, "READY").await;
        case.until(source_failed("failed to list bundles from the")).await;
        case.until(Expected::is_true("Reconciling", "ProgressingWithRetry")).await;
    }
    assert!(recording.so_far().is_empty(), "no deployment is made");
    source.server.cut(None);
    case.until(installed()).await;
    let seen = recording.until("the deployment", |seen| seen.added).await;
    assert!(seen.iter().all(|seen| image_of(&seen.object) == images[1]));
}

#[tokio::test]
async fn a_package_that_its_server_never_tells_of_holds_up_no_other() {
    let case = Case::new("told").await;
    let (source, images) = with_private(&case, "unanswered").await;
    let other = Case::new("untold").await;
    source.put(&other.name, other.chain(&["1.0.0"]).await.0);
    source.server.leave_unanswered(other.name.clone());
    source.create(&case.client).await;
    source.say(&case.client, "READY").await;
    other.create(&from(&source), None).await;
    source.until_asked("GetPackage").await;
    case.create(&from(&source), None).await;
    case.until(installed()).await;
    assert_eq!(image_of(&case.get(&case.deployment()).await), images[1]);
    assert!(other.find(&other.deployment()).await.is_none());
    source.server.leave_unanswered(None);
    other.until(installed()).await;
}

#[tokio::test]
async fn a_server_that_is_down_is_tried_again() {
    let case = Case::new("down").await;
    let (source, _) = with_private(&case, "server-down").await;
    source.server.stop();
    source.create(&case.client).await;
    source.say(&case.client, "READY").await;
    case.create(&from(&source), None).await;
    case.until(source_failed("failed to register client from the")).await;
    source.server.start_again().expect("the port is ours");
    case.until(installed()).await;
}
