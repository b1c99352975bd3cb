//! Several who write to one bucket at once.

use rukpak_store::{RefKind, Sharing};

use crate::store::world::{LONG, World, blocking, copies, load, noise, put, seal, set_ref, tree, tree_of};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_writers_of_a_ref_both_are_answered_and_the_last_counts() {
    let world = World::new().await;
    let (one, two) = (world.store("one", LONG), world.store("two", LONG));
    let a = seal(&one, tree("a")).await.unwrap();
    let b = seal(&two, tree("b")).await.unwrap();
    for _ in 0..10 {
        let (first, second) = tokio::join!(set_ref(&one, "x", &a.digest), set_ref(&two, "x", &b.digest));
        first.unwrap();
        second.unwrap();
        let found = blocking(&one, |store| store.get_ref(RefKind::Bundle, "x")).await.unwrap().unwrap();
        assert!([&a.digest, &b.digest].contains(&&found.content));
    }
    set_ref(&one, "x", &a.digest).await.unwrap();
    let found = blocking(&two, |store| store.get_ref(RefKind::Bundle, "x")).await.unwrap().unwrap();
    assert_eq!(found.content, a.digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ref_never_names_what_the_bucket_lacks() {
    let world = World::new().await;
    let (one, two) = (world.store("one", LONG), world.store("two", LONG));
    let digest = put(&one, "b", tree("a")).await;
    for key in world.keys("v1/content").await {
        blocking_delete(&world.sharing(LONG, 0), key).await;
    }
    let error = set_ref(&two, "c", &digest).await.unwrap_err();
    assert!(error.mended_by_refill(), "{error:?}");
    assert_eq!(world.keys("v1/refs").await, ["v1/refs/bundles/b"]);
    // Who has a copy puts it back first.
    set_ref(&one, "c", &digest).await.unwrap();
    assert_eq!(load(&two, &digest).await.unwrap(), tree("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_folder_had_goes_into_the_bucket_when_it_is_named_there() {
    let world = World::new().await;
    let alone = rukpak_store::Store::open(&world.disk("one")).unwrap();
    let digest = put(&alone, "b", tree("a")).await;
    let shared = world.store("one", LONG);
    assert_eq!(blocking(&shared, |store| store.get_ref(RefKind::Bundle, "b")).await.unwrap(), None);
    set_ref(&shared, "b", &digest).await.unwrap();
    assert_eq!(load(&world.store("two", LONG), &digest).await.unwrap(), tree("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_copies_on_a_disk_are_bounded_and_the_latest_stay() {
    let world = World::new().await;
    let one = world.store("one", LONG);
    let mut digests = Vec::new();
    for number in 1..=4 {
        digests.push(put(&one, &format!("b{number}"), tree_of(noise(100_000 + number))).await);
    }
    let two = world.store_with("two", world.sharing(LONG, 250_000));
    for digest in [&digests[0], &digests[1], &digests[0], &digests[2]] {
        load(&two, digest).await.unwrap();
    }
    assert_eq!(copies(&world.disk("two")), 2);
    assert!(world.copy("two", &digests[0]).exists() && !world.copy("two", &digests[1]).exists());
    load(&two, &digests[1]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn refs_are_found_by_the_beginning_of_their_names() {
    let world = World::new().await;
    let one = world.store("one", LONG);
    let digest = put(&one, "app~0", tree("a")).await;
    for name in ["app~1", "apple~0", "zoo"] {
        set_ref(&one, name, &digest).await.unwrap();
    }
    let names = |beginning: &'static str| blocking(&one, move |store| store.ref_names(RefKind::Bundle, beginning));
    assert_eq!(names("app~").await.unwrap().into_iter().collect::<Vec<_>>(), ["app~0", "app~1"]);
    assert_eq!(names("").await.unwrap().len(), 4);
    assert!(blocking(&one, |store| store.remove_ref(RefKind::Bundle, "app~1")).await.unwrap());
    assert!(!blocking(&one, |store| store.remove_ref(RefKind::Bundle, "app~1")).await.unwrap());
    assert_eq!(names("app~").await.unwrap().into_iter().collect::<Vec<_>>(), ["app~0"]);
}

async fn blocking_delete(sharing: &Sharing, key: String) {
    let bucket = sharing.bucket.clone();
    let deleted = tokio::task::spawn_blocking(move || bucket.delete(&key)).await;
    deleted.expect("no panic").expect("the bucket answers");
}
