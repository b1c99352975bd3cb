//! A catalog that all tests know, and loaders for it.

use std::sync::Arc;
use std::time::Duration;

use rukpak_catalog::Catalog;
use rukpak_catalog::origin::{Loaded, Loader, Origin, Revision, limits};
use rukpak_source::Egress;
use rukpak_source::http::FetcherOptions;
use rukpak_source::image::{Puller, PullerOptions};
use rukpak_tests::Documents;
use serde_json::json;

/// Two packages. `pump` has two channels, edges of all kinds and a deprecation of each kind; `mill` is simple.
pub fn catalog() -> Documents {
    let bundle = |version: &str| {
        json!({
            "schema": "olm.bundle", "package": "pump", "name": format!("pump.v{version}"),
            "image": format!("registry.example/pump@sha256:{}", version.replace('.', "").repeat(16)),
            "properties": [
                { "type": "olm.package", "value": { "packageName": "pump", "version": version } },
                { "type": "olm.gvk", "value": { "group": "g.io", "version": "v1", "kind": "Pump" } },
                { "type": "olm.gvk.required", "value": { "group": "g.io", "version": "v1", "kind": "Pipe" } },
                { "type": "olm.package.required", "value": { "packageName": "pipe", "versionRange": ">=1.0.0 <2.0.0" } },
                { "type": "olm.csv.metadata", "value": {
                    "displayName": "Pump", "minKubeVersion": "1.20.0",
                    "installModes": [
                        { "type": "AllNamespaces", "supported": true }, { "type": "OwnNamespace", "supported": false },
                    ],
                    "apiServiceDefinitions": { "owned": [
                        { "name": "pumps", "group": "g.io", "version": "v1", "kind": "Pump" },
                    ] },
                } },
            ],
        })
    };
    let deprecated = |schema: &str, name: &str| {
        let reference =
            if name.is_empty() { json!({ "schema": schema }) } else { json!({ "schema": schema, "name": name }) };
        json!({ "reference": reference, "message": format!("{schema} {name} is old") })
    };
    let documents = [
        json!({ "schema": "olm.package", "name": "pump", "defaultChannel": "stable" }),
        json!({ "schema": "olm.channel", "package": "pump", "name": "stable", "entries": [
            { "name": "pump.v1.0.0" },
            { "name": "pump.v1.1.0", "replaces": "pump.v1.0.0", "skips": ["pump.v1.0.1", "pump.v1.0.2"] },
        ] }),
        json!({ "schema": "olm.channel", "package": "pump", "name": "fast", "entries": [
            { "name": "pump.v1.1.0" }, { "name": "pump.v2.0.0", "replaces": "pump.v1.1.0", "skipRange": "<2.0.0" },
        ] }),
        bundle("1.0.0"),
        bundle("1.1.0"),
        bundle("2.0.0"),
        json!({ "schema": "olm.deprecations", "package": "pump", "entries": [
            deprecated("olm.package", ""), deprecated("olm.channel", "fast"), deprecated("olm.bundle", "pump.v1.0.0"),
        ] }),
    ];
    documents
        .into_iter()
        .fold(Documents::package("mill", &[("0.1.0", "registry.example/mill:v0.1.0")]), Documents::with)
}

/// Another state of it: `mill` has a second version.
pub fn changed_catalog() -> Documents {
    let versions = [("0.1.0", "registry.example/mill:v0.1.0"), ("0.2.0", "registry.example/mill:v0.2.0")];
    Documents::package("mill", &versions)
}

/// `<package>: <bundle> <bundle> ...` for each package.
pub fn bundles(catalog: &Catalog) -> Vec<String> {
    let line = |(name, package): (&String, &rukpak_catalog::Package)| {
        format!("{name}: {}", package.bundles.keys().cloned().collect::<Vec<_>>().join(" "))
    };
    catalog.packages.iter().map(line).collect()
}

/// What [`bundles`] says of [`catalog`].
pub const ALL_BUNDLES: [&str; 2] = ["mill: mill.v0.1.0", "pump: pump.v1.0.0 pump.v1.1.0 pump.v2.0.0"];

/// A loader that trusts these authorities and waits for nobody longer than `idle`.
pub fn impatient_loader(ca_pem: &str, idle: Duration) -> Loader {
    rukpak_tests::tools::use_ring();
    let mut options = PullerOptions::new(std::env::temp_dir(), limits());
    options.egress = Egress::anywhere();
    options.extra_ca_pem = ca_pem.into();
    let puller = Arc::new(Puller::new(options).expect("good certificates"));
    let mut options = FetcherOptions::new(std::env::temp_dir(), limits());
    options.extra_ca_pem = ca_pem.into();
    options.egress = Egress::anywhere();
    options.idle_timeout = idle;
    Loader::new(puller, options).expect("good certificates")
}

/// A loader that trusts these authorities.
pub fn loader(ca_pem: &str) -> Loader {
    impatient_loader(ca_pem, Duration::from_secs(30))
}

/// Loads what must be new.
pub async fn new(loader: &Loader, origin: &str, known: Option<&Revision>) -> (Catalog, Revision) {
    match load(loader, origin, known).await {
        Ok(Loaded::New(catalog, revision)) => (catalog, revision),
        Ok(Loaded::Unchanged) => panic!("{origin} is new"),
        Err(error) => panic!("{origin}: {error}"),
    }
}

/// Loads what must be known.
pub async fn unchanged(loader: &Loader, origin: &str, known: &Revision) {
    assert!(matches!(load(loader, origin, Some(known)).await, Ok(Loaded::Unchanged)), "{origin}: {known:?} is known");
}

/// Why it cannot be loaded: the error and its causes.
pub async fn refusal(loader: &Loader, origin: &str) -> String {
    load(loader, origin, None).await.expect_err("it is refused")
}

async fn load(loader: &Loader, origin: &str, known: Option<&Revision>) -> Result<Loaded, String> {
    let origin: Origin = origin.parse().expect("an origin");
    loader.load(&origin, known).await.map_err(|error| format!("{:?} {}", error.class(), chain(&error)))
}

/// An error and its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
