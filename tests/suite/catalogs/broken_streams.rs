//! Catalog servers that break off, say nothing or are not there: an error each time, and never a shorter list.

use std::time::{Duration, Instant};

use rukpak_catalog::registry::message::Bundle;
use rukpak_catalog::registry::{Class, Client, Error, Options};
use rukpak_tests::CatalogServer;
use rukpak_tests::catalog::{Cut, Ending};
use rukpak_tests::tools::{PATIENCE, free_port};

use crate::catalogs::common::{ALL_BUNDLES, bundles, catalog, chain};

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn half_a_catalog_is_none() {
    let server = CatalogServer::start(catalog()).unwrap();
    for (ending, expected) in [
        (Ending::Unavailable, "Unavailable: the catalog is going away"),
        (Ending::Closed, ""),
        (Ending::NoStatus, "missing grpc-status"),
    ] {
        for after in [0, 3, 5] {
            let client = Client::connect(&server.address(), PATIENCE).await.unwrap();
            server.cut(Cut { after, ending });
            let error = client.catalog().await.unwrap_err();
            let text = chain(&error);
            assert!(text.starts_with("failed to list bundles from the "), "{ending:?} {after}: {text}");
            assert!(text.contains(expected), "{ending:?} {after}: {text}");
            assert_eq!(error.class(), Class::Unavailable, "{text}");
            server.cut(None);
            let client = Client::connect(&server.address(), PATIENCE).await.unwrap();
            assert_eq!(bundles(&client.catalog().await.unwrap()), ALL_BUNDLES);
        }
    }
}

#[tokio::test]
async fn silence_has_an_end() {
    let server = CatalogServer::start(catalog()).unwrap();
    server.cut(Cut { after: 2, ending: Ending::Silence });
    // Long enough that the two messages come on a busy machine.
    let idle_timeout = Duration::from_secs(3);
    let options = Options { idle_timeout, ..Options::new("a/b", PATIENCE) };
    let client = Client::connect_with(&server.address(), options).await.unwrap();
    let began = Instant::now();
    let error = client.catalog().await.unwrap_err();
    assert!(matches!(error, Error::Time { .. }), "{}", chain(&error));
    assert!(error.to_string().ends_with("catalog after 2 messages: nothing came for 3 s"), "{error}");
    assert!(began.elapsed() >= idle_timeout && began.elapsed() < PATIENCE / 2);

    // A server that answers, but never in time for the whole.
    server.cut(None);
    server.delay(SHORT * 4);
    let options = Options { total_timeout: SHORT, ..Options::new("a/b", PATIENCE) };
    let client = Client::connect_with(&server.address(), options).await.unwrap();
    let error = client.catalog().await.unwrap_err();
    assert_eq!(error.to_string(), "failed to list bundles from the a/b catalog: not done after 0.3 s");
}

#[tokio::test]
async fn nobody_there() {
    let port = free_port().unwrap();
    let options = Options::new("openshift-marketplace/gone", PATIENCE);
    let error = Client::connect_with(&format!("127.0.0.1:{port}"), options.clone()).await.unwrap_err();
    let text = chain(&error);
    assert!(
        text.starts_with("failed to register client from the openshift-marketplace/gone grpc connection"),
        "{text}"
    );
    assert!(text.contains("refused"), "{text}");
    assert_eq!(error.class(), Class::Unavailable);
    let error = Client::connect_with("no-such-host.invalid:50051", options).await.unwrap_err();
    assert!(chain(&error).starts_with("failed to register client from the "), "{}", chain(&error));
}

#[tokio::test]
async fn a_listener_that_never_answers() {
    // It accepts, because the kernel does, and reads nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let began = Instant::now();
    let error = match Client::connect(&address, SHORT).await {
        Ok(client) => client.catalog().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.class(), Class::Unavailable, "{}", chain(&error));
    assert!(began.elapsed() < PATIENCE / 2);
}

#[tokio::test]
async fn a_message_without_a_name_is_refused() {
    let server = CatalogServer::start_generated(2, |index| Bundle {
        csv_name: "p.v1".into(),
        package_name: if index == 0 { "p".into() } else { String::new() },
        channel_name: "c".into(),
        ..Bundle::default()
    })
    .unwrap();
    let client = Client::connect(&server.address(), PATIENCE).await.unwrap();
    let error = client.catalog().await.unwrap_err();
    assert!(error.to_string().ends_with("catalog: message 2 names no package"), "{error}");
    assert_eq!(error.class(), Class::Terminal);
}

#[tokio::test]
async fn a_message_that_grows_when_it_is_read_is_refused() {
    // 40 KB each on the wire, and half a megabyte in memory.
    let server = CatalogServer::start_generated(2, |index| Bundle {
        csv_name: "p.v1".into(),
        package_name: "p".into(),
        channel_name: "c".into(),
        skips: vec![String::new(); if index == 0 { 20_000 } else { 20_001 }],
        ..Bundle::default()
    })
    .unwrap();
    let client = Client::connect(&server.address(), PATIENCE).await.unwrap();
    let error = client.catalog().await.unwrap_err();
    let text = chain(&error);
    assert!(
        text.ends_with(
            "catalog after 1 messages: OutOfRange: bundle \"p.v1\": skips: more than 20000 items are not read"
        ),
        "{text}"
    );
    assert_eq!(error.class(), Class::Terminal);
}
