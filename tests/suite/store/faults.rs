//! Each fault of the network or the server, and what a store does then. `docs/storage.md` has what is seen of them.

use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use rukpak_store::{Error, RefKind};
use rukpak_tests::{Fault, Rule};

use crate::store::world::{LONG, World, blocking, copies, load, noise, put, seal, set_ref, tree, tree_of};

const CONTENT: &str = "/v1/content/";
const REFS: &str = "/v1/refs/";
/// Longer than a call is tried for, shorter than it would be for somebody who waits.
const GIVES_UP: Duration = Duration::from_secs(40);

fn busy() -> Fault {
    Fault::Status(StatusCode::SERVICE_UNAVAILABLE, "<Error><Code>SlowDown</Code></Error>".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn content_goes_from_one_disk_to_another_by_the_bucket() {
    let world = World::new().await;
    let (one, two) = (world.store("one", LONG), world.store("two", LONG));
    // More than is sent at once.
    let large = tree_of(noise(20 << 20));
    let digest = put(&one, "b", large.clone()).await;
    assert_eq!(load(&two, &digest).await.unwrap(), large);
    assert_eq!(copies(&world.disk("two")), 1, "it is kept here as well");
    world.proxy.forget();
    assert_eq!(load(&two, &digest).await.unwrap(), large);
    assert_eq!(world.proxy.seen(), [], "the second time nobody is asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_answers_are_waited_for() {
    let world = World::new().await;
    let (one, two) = (world.store("one", LONG), world.store("two", LONG));
    let content = tree_of(noise(200_000));
    let digest = put(&one, "b", content.clone()).await;
    world.proxy.add(Rule::on(CONTENT, Fault::Slow(20_000, Duration::from_millis(100))).method(Method::GET));
    let begun = Instant::now();
    assert_eq!(load(&two, &digest).await.unwrap(), content);
    assert!(begun.elapsed() > Duration::from_secs(1), "{:?}: it was not slow", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_busy_for_a_moment_is_asked_again() {
    let world = World::new().await;
    let (one, two) = (world.store("one", LONG), world.store("two", LONG));
    world.proxy.add(Rule::on(CONTENT, busy()).method(Method::PUT).times(2));
    world.proxy.add(Rule::on(REFS, busy()).times(2));
    let digest = put(&one, "b", tree("a")).await;
    world.proxy.add(Rule::on(CONTENT, busy()).method(Method::GET).times(2));
    assert_eq!(load(&two, &digest).await.unwrap(), tree("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_server_what_is_here_is_read_and_the_rest_says_so() {
    let world = World::new().await;
    let (one, two) = (world.store("one", LONG), world.store("two", LONG));
    let digest = put(&one, "b", tree("a")).await;
    world.proxy.add(Rule::on("/", busy()));
    assert_eq!(load(&one, &digest).await.unwrap(), tree("a"), "its own copy");
    let begun = Instant::now();
    let error = load(&two, &digest).await.unwrap_err();
    assert!(begun.elapsed() < GIVES_UP, "{:?}", begun.elapsed());
    let Error::Bucket(source) = &error else { panic!("{error:?}") };
    assert!(!source.is_refusal && !error.mended_by_refill(), "nothing is known to be lost");
    assert!(error.to_string().starts_with(&format!("cannot read {}/v1/content/", world.location())), "{error}");
    assert_eq!(copies(&world.disk("two")), 0);
    let error = seal(&two, tree("b")).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Bucket(_)), "what others would not find is not sealed: {error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_breaks_off_is_taken_up_again() {
    let world = World::new().await;
    let (one, two) = (world.store("one", LONG), world.store("two", LONG));
    let content = tree_of(noise(300_000));
    let digest = put(&one, "b", content.clone()).await;
    world.proxy.add(Rule::on(CONTENT, Fault::HangUpAfter(100_000)).method(Method::GET).times(1));
    assert_eq!(load(&two, &digest).await.unwrap(), content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_always_breaks_off_leaves_nothing() {
    let world = World::new().await;
    let (one, two) = (world.store("one", LONG), world.store("two", LONG));
    let digest = put(&one, "b", tree_of(noise(300_000))).await;
    world.proxy.add(Rule::on(CONTENT, Fault::HangUpAfter(10)).method(Method::GET));
    let error = load(&two, &digest).await.unwrap_err();
    assert!(matches!(error, Error::Bucket(_)), "{error:?}");
    assert_eq!(copies(&world.disk("two")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_answer_is_lost_is_sent_again() {
    let world = World::new().await;
    let (one, two) = (world.store("one", LONG), world.store("two", LONG));
    world.proxy.add(Rule::on(CONTENT, Fault::HangUpAfter(0)).method(Method::PUT).times(1));
    let digest = put(&one, "b", tree("a")).await;
    assert_eq!(load(&two, &digest).await.unwrap(), tree("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ref_whose_answer_is_lost_is_found_written() {
    let world = World::new().await;
    let one = world.store("one", LONG);
    // The server has written it; sent again, the write finds its own work.
    let lost = Fault::Answer(StatusCode::PRECONDITION_FAILED, Vec::new(), Vec::new());
    let digest = seal(&one, tree("a")).await.unwrap().digest.clone();
    set_ref(&one, "b", &digest).await.unwrap();
    let seen = blocking(&one, |store| store.get_ref(RefKind::Bundle, "b")).await.unwrap();
    assert_eq!(seen.map(|found| found.content), Some(digest.clone()));
    world.proxy.add(Rule::on(REFS, lost).method(Method::PUT).times(1));
    set_ref(&one, "b", &digest).await.unwrap();
    set_ref(&one, "c", &digest).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_damaged_on_their_way_are_fetched_again() {
    let world = World::new().await;
    let (one, two) = (world.store("one", LONG), world.store("two", LONG));
    let digest = put(&one, "b", tree_of(noise(50_000))).await;
    world.proxy.add(Rule::on(CONTENT, Fault::FlipBit).method(Method::GET).times(1));
    assert_eq!(load(&two, &digest).await.unwrap(), tree_of(noise(50_000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_damaged_in_the_bucket_are_never_returned() {
    let world = World::new().await;
    let (one, two) = (world.store("one", LONG), world.store("two", LONG));
    let digest = put(&one, "b", tree("a")).await;
    let key = world.keys("v1/content").await.remove(0);
    let other = std::fs::read(world.copy("one", &digest)).unwrap();
    let mut damaged = other.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    world.server.overwrite(&format!("{}/{key}", world.prefix), damaged).await.unwrap();
    let error = load(&two, &digest).await.unwrap_err();
    assert!(error.mended_by_refill(), "{error:?}");
    assert!(error.to_string().contains(&format!("{}/{key} is corrupt", world.location())), "{error}");
    assert_eq!(copies(&world.disk("two")), 0);
    // Sealed again by whoever has it, it is whole again.
    put(&one, "b", tree("a")).await;
    assert_eq!(load(&two, &digest).await.unwrap(), tree("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_copy_is_fetched_again() {
    let world = World::new().await;
    let one = world.store("one", LONG);
    let digest = put(&one, "b", tree("a")).await;
    let path = world.copy("one", &digest);
    std::fs::write(&path, b"damaged").unwrap();
    assert_eq!(load(&one, &digest).await.unwrap(), tree("a"));
    assert_ne!(std::fs::read(&path).unwrap(), b"damaged", "and put in its place");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_heed_conditions_is_refused() {
    let world = World::new().await;
    let sharing = world.sharing(LONG, 1 << 30);
    tokio::task::spawn_blocking({
        let sharing = sharing.clone();
        move || sharing.probe()
    })
    .await
    .unwrap()
    .unwrap();
    assert_eq!(world.keys("v1/probes").await, Vec::<String>::new(), "it leaves nothing");
    let taken = Fault::Answer(StatusCode::OK, vec![("etag", "\"1\"".to_owned())], Vec::new());
    world.proxy.add(Rule::on("/v1/probes/", taken).method(Method::PUT));
    let error = tokio::task::spawn_blocking(move || sharing.probe()).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("does not heed If-None-Match on PUT"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_or_bucket_is_a_refusal_and_not_lost_content() {
    let world = World::new().await;
    let wrong = [("AWS_SECRET_ACCESS_KEY", "wrong")];
    let location = world.location();
    for (location, changes) in [(location.as_str(), wrong.as_slice()), ("s3://no-such-bucket", &[])] {
        let bucket = std::sync::Arc::new(world.bucket(location, changes));
        let sharing = rukpak_store::Sharing { bucket, ..world.sharing(LONG, 1 << 30) };
        let error = tokio::task::spawn_blocking(move || sharing.probe()).await.unwrap().unwrap_err();
        let Error::Bucket(source) = &error else { panic!("{error:?}") };
        assert!(source.is_refusal, "{error:?}");
    }
}
