//! The registry's gRPC API, as it should be.

use std::time::Duration;

use rukpak_catalog::model::{Gvk, RequiredPackage};
use rukpak_catalog::registry::message::{Bundle, Property};
use rukpak_catalog::registry::{Client, Options};
use rukpak_tests::tools::PATIENCE;
use rukpak_tests::{CatalogServer, Documents};
use serde_json::json;

use crate::catalogs::common::{ALL_BUNDLES, bundles, catalog, chain, changed_catalog};

#[tokio::test]
async fn a_catalog_is_read_in_one_call() {
    let server = CatalogServer::start(catalog()).unwrap();
    let client = Client::connect(&server.address(), PATIENCE).await.unwrap();
    let catalog = client.catalog().await.unwrap();
    assert_eq!(bundles(&catalog), ALL_BUNDLES);
    assert_eq!((server.count("ListBundles"), server.count("GetPackage"), server.count("Check")), (1, 0, 0));

    let pump = &catalog.packages["pump"];
    assert_eq!(pump.channels.keys().collect::<Vec<_>>(), ["fast", "stable"]);
    let [first, second] = pump.channels["stable"].entries.as_slice() else { panic!("two entries") };
    assert_eq!((first.name.as_str(), &first.replaces), ("pump.v1.0.0", &None));
    assert_eq!((second.name.as_str(), second.replaces.as_deref()), ("pump.v1.1.0", Some("pump.v1.0.0")));
    assert_eq!(second.skips, ["pump.v1.0.1", "pump.v1.0.2"]);
    // An edge belongs to its channel.
    let [same, last] = pump.channels["fast"].entries.as_slice() else { panic!("two entries") };
    assert_eq!((same.name.as_str(), &same.replaces), ("pump.v1.1.0", &None));
    assert_eq!(last.skip_range.as_deref(), Some("<2.0.0"));

    let bundle = &pump.bundles["pump.v2.0.0"];
    assert_eq!(bundle.version.as_ref().unwrap().to_string(), "2.0.0");
    assert_eq!(bundle.image.as_deref(), Some(format!("registry.example/pump@sha256:{}", "200".repeat(16)).as_str()));
    let gvk = |kind: &str| Gvk { group: "g.io".into(), version: "v1".into(), kind: kind.into() };
    assert_eq!((&bundle.facts.provides, &bundle.facts.requires), (&vec![gvk("Pump")], &vec![gvk("Pipe")]));
    let pipe = RequiredPackage { name: "pipe".into(), range: ">=1.0.0 <2.0.0".into() };
    assert_eq!(bundle.facts.requires_packages, [pipe]);
    assert_eq!(bundle.facts.install_modes, None, "the list does not say");
    assert_eq!(pump.bundles["pump.v1.0.0"].deprecation.as_deref(), Some("olm.bundle pump.v1.0.0 is old"));
    assert_eq!(bundle.deprecation, None);
    assert_eq!(pump.default_channel, None, "the list does not say");
}

#[tokio::test]
async fn what_the_list_leaves_out_costs_one_call_for_one_package() {
    let server = CatalogServer::start(catalog()).unwrap();
    let client = Client::connect(&server.address(), PATIENCE).await.unwrap();
    let mut pump = client.catalog().await.unwrap().packages.remove("pump").unwrap();
    let facts = client.facts(&pump, "fast", "pump.v2.0.0").await.unwrap();
    assert_eq!(facts.install_modes.as_deref(), Some(&["AllNamespaces".to_owned()][..]));
    assert_eq!(facts.owned_api_services, ["v1.g.io"]);
    assert_eq!(facts.min_kube_version.as_deref(), Some("1.20.0"));
    assert_eq!(facts.display_name.as_deref(), Some("Pump"));
    assert_eq!(facts.provides.len(), 1);

    client.package_details("pump").await.unwrap().apply(&mut pump);
    assert_eq!(pump.default_channel.as_deref(), Some("stable"));
    assert_eq!(pump.deprecation.as_deref(), Some("olm.package  is old"));
    assert_eq!(pump.channels["fast"].deprecation.as_deref(), Some("olm.channel fast is old"));
    assert_eq!(pump.channels["stable"].deprecation, None);
    assert_eq!((server.count("GetBundle"), server.count("GetPackage")), (1, 1));

    // Nothing but a text says that something is not there.
    let error = client.facts(&pump, "slow", "pump.v2.0.0").await.unwrap_err();
    assert!(chain(&error).contains(r#"channel "slow", bundle "pump.v2.0.0" not found"#), "{}", chain(&error));
    assert!(chain(&client.package_details("none").await.unwrap_err()).contains(r#"package "none" not found"#));
}

#[tokio::test]
async fn a_connection_outlives_a_restart_and_ends_with_its_client() {
    let server = CatalogServer::start(catalog()).unwrap();
    let client = Client::connect(&server.address(), PATIENCE).await.unwrap();
    assert_eq!(bundles(&client.catalog().await.unwrap()), ALL_BUNDLES);
    server.replace(changed_catalog()).unwrap();
    assert_eq!(bundles(&client.catalog().await.unwrap()), ["mill: mill.v0.1.0 mill.v0.2.0"]);
    assert_eq!(server.connections(), 1);

    server.stop();
    let error = client.catalog().await.unwrap_err();
    assert!(error.to_string().starts_with("failed to list bundles from the "), "{error}");
    server.start_again().unwrap();
    // The first call may still meet the connection that broke.
    let end = tokio::time::Instant::now() + PATIENCE;
    while let Err(error) = client.catalog().await {
        assert!(tokio::time::Instant::now() < end, "{}", chain(&error));
    }
    drop(client);
    let end = tokio::time::Instant::now() + PATIENCE;
    while server.connections() > 0 {
        assert!(tokio::time::Instant::now() < end, "the connection stays");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn manifests_that_lie_in_the_catalog_are_read_at_once() {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": { "name": "in.v1.0.0" },
        "spec": { "displayName": "Inline", "installModes": [{ "type": "AllNamespaces", "supported": true }] },
    });
    let data = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, csv.to_string());
    let bundle = json!({
        "schema": "olm.bundle", "package": "in", "name": "in.v1.0.0", "image": "",
        "properties": [
            { "type": "olm.package", "value": { "packageName": "in", "version": "1.0.0" } },
            { "type": "olm.bundle.object", "value": { "data": data } },
        ],
    });
    let channel =
        json!({ "schema": "olm.channel", "package": "in", "name": "c", "entries": [{ "name": "in.v1.0.0" }] });
    let package = json!({ "schema": "olm.package", "name": "in", "defaultChannel": "c" });
    let documents = [package, channel, bundle].into_iter().fold(Documents::default(), Documents::with);
    let server = CatalogServer::start(documents).unwrap();
    let client = Client::connect(&server.address(), PATIENCE).await.unwrap();
    let catalog = client.catalog().await.unwrap();
    let bundle = &catalog.packages["in"].bundles["in.v1.0.0"];
    assert_eq!(bundle.image, None);
    assert_eq!(bundle.facts.install_modes.as_deref(), Some(&["AllNamespaces".to_owned()][..]));
    assert_eq!(bundle.facts.display_name.as_deref(), Some("Inline"));

    server.replace(self::catalog()).unwrap();
    server.empty_bundle_paths(true);
    let catalog = client.catalog().await.unwrap();
    assert!(catalog.packages["pump"].bundles.values().all(|bundle| bundle.image.is_none()));
}

/// A bundle of a package for each hundred, with so many bytes of manifests.
fn generated(index: usize, manifest_bytes: usize) -> Bundle {
    let version = format!("1.{}.0", index % 100);
    Bundle {
        csv_name: format!("p{}.v{version}", index / 100),
        package_name: format!("p{}", index / 100),
        channel_name: "stable".to_owned(),
        object: vec!["x".repeat(manifest_bytes)],
        bundle_path: "registry.example/p:v1".to_owned(),
        version,
        ..Bundle::default()
    }
}

/// Peak memory of this process so far, in bytes.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.split_whitespace().next().and_then(|text| text.parse::<usize>().ok()).expect("a number") * 1024
}

#[tokio::test]
async fn messages_are_not_held() {
    const MANIFESTS: usize = 40_000;
    const BUNDLES: usize = 12_000;
    let server = CatalogServer::start_generated(BUNDLES, |index| generated(index, MANIFESTS)).unwrap();
    let client = Client::connect(&server.address(), PATIENCE).await.unwrap();
    let before = peak_bytes();
    let catalog = client.catalog().await.unwrap();
    let grown = peak_bytes().saturating_sub(before);
    assert_eq!(catalog.packages.len(), BUNDLES / 100);
    assert_eq!(catalog.packages.values().map(|package| package.bundles.len()).sum::<usize>(), BUNDLES);
    // Other tests of this process share the figure.
    assert!(grown < MANIFESTS * BUNDLES / 2, "{} MiB more", grown >> 20);
}

#[tokio::test]
async fn a_message_may_be_large_but_not_endless() {
    let large = |bytes: usize| {
        CatalogServer::start_generated(1, move |index| Bundle {
            properties: vec![Property { r#type: "x".into(), value: "y".repeat(bytes) }],
            ..generated(index, 0)
        })
        .unwrap()
    };
    // gRPC's own limit is 4 MiB.
    let server = large(20 << 20);
    let client = Client::connect(&server.address(), PATIENCE).await.unwrap();
    assert_eq!(client.catalog().await.unwrap().packages.len(), 1);
    let server = large(33 << 20);
    let mut options = Options::new("openshift-marketplace/large", Duration::from_secs(30));
    options.total_timeout = PATIENCE;
    let client = Client::connect_with(&server.address(), options).await.unwrap();
    let error = chain(&client.catalog().await.unwrap_err());
    assert!(error.starts_with("failed to list bundles from the openshift-marketplace/large catalog"), "{error}");
    assert!(error.contains("too large"), "{error}");
}
