//! What is removed from a bucket, and what is not, whoever writes meanwhile.

use std::collections::HashSet;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use rukpak_content::Digest;
use rukpak_store::{Collected, Error, RefKind, Store};
use rukpak_tests::{Fault, Rule};

use crate::store::world::{LONG, NONE, World, blocking, load, put, seal, set_ref, tree};

async fn collect(store: &Store, known: &[&Digest]) -> Result<Collected, Error> {
    let known: HashSet<Digest> = known.iter().map(|digest| (*digest).clone()).collect();
    blocking(store, move |store| store.collect(&known)).await
}

async fn forget(store: &Store, name: &'static str) {
    let was_there = blocking(store, move |store| store.remove_ref(RefKind::Bundle, name)).await;
    assert!(was_there.expect("the bucket answers"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nothing_names_goes_once_it_is_old() {
    let world = World::new().await;
    let (young, old) = (world.store("one", LONG), world.store("two", NONE));
    let kept = put(&young, "kept", tree("kept")).await;
    put(&young, "gone", tree("gone")).await;
    forget(&young, "gone").await;
    let collected = collect(&young, &[]).await.unwrap();
    assert_eq!((collected.removed, collected.kept, collected.too_new), (0, 2, 1));
    let collected = collect(&old, &[]).await.unwrap();
    assert_eq!((collected.removed, collected.kept, collected.too_new), (1, 1, 0));
    assert_eq!(world.keys("v1/content").await.len(), 1);
    assert_eq!(load(&old, &kept).await.unwrap(), tree("kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_cluster_names_stays_though_its_ref_is_lost() {
    let world = World::new().await;
    let store = world.store("one", NONE);
    let digest = put(&store, "b", tree("a")).await;
    forget(&store, "b").await;
    assert_eq!(collect(&store, &[&digest]).await.unwrap().removed, 0);
    assert_eq!(collect(&store, &[]).await.unwrap().removed, 1);
}

/// The list of refs is as it was before the ref was written.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_behind_costs_no_content_that_the_cluster_names() {
    let world = World::new().await;
    let store = world.store("one", NONE);
    let digest = put(&store, "b", tree("a")).await;
    let behind = format!(
        "<ListBucketResult><Name>bundles</Name><Prefix>{}/v1/refs/bundles/</Prefix><KeyCount>0</KeyCount>\
         <IsTruncated>false</IsTruncated></ListBucketResult>",
        world.prefix
    );
    world.proxy.add(Rule::on("refs%2Fbundles", Fault::Answer(StatusCode::OK, Vec::new(), behind.into())));
    assert_eq!(collect(&store, &[&digest]).await.unwrap().removed, 0);
    assert!(world.proxy.count("refs%2Fbundles") > 0, "the list was asked for: {:?}", world.proxy.seen());
    let young = world.store("two", LONG);
    assert_eq!(collect(&young, &[]).await.unwrap().removed, 0, "nor what is new");
    world.proxy.mend();
    assert_eq!(load(&young, &digest).await.unwrap(), tree("a"));
}

/// The list of contents has one that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_with_what_is_gone_is_no_error() {
    let world = World::new().await;
    let store = world.store("one", NONE);
    put(&store, "b", tree("a")).await;
    forget(&store, "b").await;
    world.proxy.add(Rule::on("/v1/content/", Fault::Status(StatusCode::NOT_FOUND, String::new())).method(Method::HEAD));
    let collected = collect(&store, &[]).await.unwrap();
    assert_eq!((collected.removed, world.keys("v1/content").await.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ref_that_cannot_be_read_ends_the_collection() {
    let world = World::new().await;
    let store = world.store("one", NONE);
    put(&store, "b", tree("a")).await;
    put(&store, "c", tree("c")).await;
    forget(&store, "c").await;
    world.server.overwrite(&format!("{}/v1/refs/bundles/b", world.prefix), b"{}".to_vec()).await.unwrap();
    let error = collect(&store, &[]).await.unwrap_err();
    assert!(matches!(error, Error::RefForm { .. }), "{error:?}");
    assert_eq!(world.keys("v1/content").await.len(), 2);
}

/// One removes what another names at that moment.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_named_while_it_is_removed_is_put_back() {
    for has_copy in [true, false] {
        let world = World::new().await;
        let (collector, writer) = (world.store("one", NONE), world.direct_store("two", LONG));
        let digest = put(if has_copy { &collector } else { &writer }, "b", tree("a")).await;
        forget(&writer, "b").await;
        // The removal is on its way for longer than the writer takes, on a busy machine too.
        world.proxy.add(Rule::on("delete", Fault::Late(Duration::from_secs(8))));
        let collecting = tokio::spawn({
            let collector = collector.clone();
            async move { collect(&collector, &[]).await }
        });
        while world.proxy.count("delete") == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(seal(&writer, tree("a")).await.unwrap().digest, digest);
        set_ref(&writer, "b", &digest).await.unwrap();
        assert!(!collecting.is_finished(), "the writer was slower than the removal");
        assert_eq!(collecting.await.unwrap().unwrap().removed, 1);
        assert_eq!(world.keys("v1/content").await.len(), usize::from(has_copy), "put back by who has a copy");
        if !has_copy {
            // Who wrote it has one, and looks when it collects.
            collect(&writer, &[]).await.unwrap();
        }
        assert_eq!(load(&world.store("three", LONG), &digest).await.unwrap(), tree("a"));
    }
}
