//! `rukpakctl catalog` over a real registry, a gRPC server and catalogd: all of them give what the folder gives.

use rukpak_tests::catalog::{CatalogImage, CatalogServer, CatalogdServer, Cut, Documents, Ending};
use rukpak_tests::tools;
use rukpak_tests::verbs::unique_name;
use serde_json::{Value, json};

use crate::cli::{Answer, Private};

/// Two packages, one of them with things to tell.
fn documents() -> Documents {
    let deprecations = json!({"schema": "olm.deprecations", "package": "pump", "entries": [
        {"reference": {"schema": "olm.package"}, "message": "use a faucet"},
        {"reference": {"schema": "olm.channel", "name": "stable"}, "message": "it dries up"},
        {"reference": {"schema": "olm.bundle", "name": "pump.v1.0.0"}, "message": "it leaks"},
    ]});
    let versions = [("1.0.0", "registry.example.com/pump:v1.0.0"), ("1.1.0", "registry.example.com/pump:v1.1.0")];
    Documents::package("pump", &versions)
        .with(deprecations)
        .and(Documents::package("valve", &[("3.0.0", "registry.example.com/valve:v3.0.0")]))
}

/// A package whose only bundle asks for something that nobody gives.
fn refused(properties: &Value) -> Documents {
    let mut all = vec![json!({"type": "olm.package", "value": {"packageName": "pump", "version": "1.0.0"}})];
    all.extend(properties.as_array().expect("a list").iter().cloned());
    Documents::of_text(r#"{"schema": "olm.package", "name": "pump", "defaultChannel": "stable"}"#)
        .expect("a document")
        .with(
            json!({"schema": "olm.channel", "name": "stable", "package": "pump", "entries": [{"name": "pump.v1.0.0"}]}),
        )
        .with(json!({"schema": "olm.bundle", "name": "pump.v1.0.0", "package": "pump",
                     "image": "registry.example.com/pump:v1.0.0", "properties": all}))
}

fn folder(documents: &Documents) -> tempfile::TempDir {
    let folder = tools::temp_folder("catalog").expect("a folder");
    std::fs::write(folder.path().join("catalog.json"), documents.json_lines()).expect("a file");
    folder
}

/// The places of one catalog, and the servers that hold it.
struct Everywhere {
    folder: tempfile::TempDir,
    /// For the authority of catalogd; not in the catalog.
    trusted: tempfile::TempDir,
    grpc: CatalogServer,
    catalogd: CatalogdServer,
    image: String,
}

impl Everywhere {
    async fn of(documents: Documents) -> Self {
        let registry = &Private::shared().await.registry;
        let image = CatalogImage::of(documents.clone()).expect("a catalog");
        let image = image.push(registry, &unique_name("catalog"), "v1").await.expect("the registry takes it");
        let catalogd = CatalogdServer::start().expect("a server");
        catalogd.put("pumps", documents.clone()).expect("a catalog");
        let (folder, grpc) = (folder(&documents), CatalogServer::start(documents).expect("a server"));
        let trusted = tools::temp_folder("catalogd-ca").expect("a folder");
        Self { folder, trusted, grpc, catalogd, image: format!("image:{}", image.reference) }
    }

    fn local(&self) -> &str {
        self.folder.path().to_str().expect("UTF-8")
    }

    fn grpc(&self) -> String {
        format!("grpc:{}", self.grpc.address())
    }

    /// The authority of catalogd, as a file.
    fn trust(&self) -> String {
        let ca = self.trusted.path().join("ca.pem");
        std::fs::write(&ca, self.catalogd.ca_pem()).expect("a file");
        ca.to_str().expect("UTF-8").to_owned()
    }

    /// Asks for the same thing in all places, which must give the same; returns it.
    async fn same(&self, verb: &str, arguments: &[&str]) -> Answer {
        let private = Private::shared().await;
        let ca = self.trust();
        let ask =
            |place: &str, more: &[&str]| private.run("good", &[&["catalog", verb, place], arguments, more].concat());
        let local = ask(self.local(), &[]);
        let trust = ["--ca-file", ca.as_str()];
        for (place, more) in [(self.image.clone(), &[][..]), (self.grpc(), &[]), (self.catalogd.url("pumps"), &trust)] {
            let answer = ask(&place, more);
            assert_eq!((answer.code, &answer.out), (local.code, &local.out), "{place} {arguments:?}: {}", answer.err);
        }
        local
    }
}

#[tokio::test]
async fn every_place_gives_the_same() {
    let everywhere = Everywhere::of(documents()).await;
    let list = everywhere.same("list", &[]).await;
    assert_eq!((list.code, list.out.lines().count()), (Some(0), 3), "{}", list.err);
    let json = everywhere.same("list", &["-ojson"]).await;
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    let pump = json!({"name": "pump", "bundle": "pump.v1.1.0", "version": "1.1.0", "channel": "stable",
                      "defaultChannel": "stable", "head": "pump.v1.1.0", "headVersion": "1.1.0", "channels": 1, "bundles": 2,
                      "deprecation": "use a faucet",
                      "deprecations": ["package \"pump\" is deprecated: use a faucet",
                                       "channel \"stable\" is deprecated: it dries up"]});
    assert_eq!(json["packages"][0], pump);
    everywhere.same("list", &["pump", "-ojson"]).await;
    let bundles = everywhere.same("list", &["pump"]).await;
    assert!(bundles.out.contains("pump.v1.0.0   1.0.0     -       package, channel, bundle\n"), "{}", bundles.out);
    let shown = everywhere.same("show", &["pump", "--from=pump.v1.0.0"]).await;
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    for line in [
        "channel:       stable (default)",
        "upgrades:      stable (default): pump.v1.0.0 -> pump.v1.1.0",
        "installable:   yes",
    ] {
        assert!(shown.out.lines().any(|shown| shown == line), "{line} is not in:\n{}", shown.out);
    }
    assert!(shown.out.contains("it dries up") && shown.out.contains("AllNamespaces"), "{}", shown.out);
    everywhere.same("show", &["pump", "1.0.0", "-ojson"]).await;
    let none = everywhere.same("show", &["faucet", "-ojson"]).await;
    assert_eq!(none.code, Some(1), "{}", none.out);
}

#[tokio::test]
async fn what_a_bundle_asks_for_is_refused_everywhere() {
    let own =
        json!([{"type": "olm.csv.metadata", "value": {"installModes": [{"type": "OwnNamespace", "supported": true}]}}]);
    let needs = json!([{"type": "olm.package.required", "value": {"packageName": "valve", "versionRange": ">=3.0.0"}}]);
    let table = [
        (own, "no: convert registry+v1 bundle to plain+v0 bundle: AllNamespace install mode must be enabled"),
        (needs, "no: bundle \"pump.v1.0.0\" has a dependency declared via property \"olm.package.required\""),
    ];
    for (properties, text) in table {
        let shown = Everywhere::of(refused(&properties)).await.same("show", &["pump"]).await;
        assert_eq!(shown.code, Some(1), "{}", shown.out);
        assert!(shown.out.contains(text), "{text} is not in:\n{}", shown.out);
    }
}

#[tokio::test]
async fn a_broken_graph_is_warned_of_wherever_the_catalog_is() {
    let private = Private::shared().await;
    // A graph without a head, which the servers of the harness send as it is.
    let broken = documents().with(json!({"schema": "olm.channel", "name": "loop", "package": "pump", "entries": [
        {"name": "pump.v1.0.0", "replaces": "pump.v1.1.0"}, {"name": "pump.v1.1.0", "replaces": "pump.v1.0.0"},
    ]}));
    let everywhere = Everywhere::of(broken).await;
    let finding = "invalid package \"pump\": invalid channel \"loop\": no channel head found in graph\n";
    let (trust, grpc, url) = (everywhere.trust(), everywhere.grpc(), everywhere.catalogd.url("pumps"));
    let trust = ["--ca-file", trust.as_str()];
    for (place, more) in [(everywhere.local(), &[][..]), (&everywhere.image, &[]), (&url, &trust), (&grpc, &[])] {
        let answer = private.run("good", &[&["catalog", "show", place, "pump"], more].concat());
        assert_eq!((answer.code, answer.err.as_str()), (Some(0), &*format!("warning: {finding}")), "{place}");
    }
    let none = everywhere.catalogd.url("none");
    let nothing = private.run("good", &[&["catalog", "list", &none], &trust[..]].concat());
    crate::cli::assert_unknown(&nothing, &["/catalogs/none", "the catalog cannot be fetched"]);
}

#[tokio::test]
async fn a_catalog_that_breaks_off_could_not_be_found_out() {
    let private = Private::shared().await;
    let grpc = CatalogServer::start(documents()).expect("a server");
    let place = format!("grpc:{}", grpc.address());
    for ending in [Ending::Unavailable, Ending::Closed, Ending::NoStatus] {
        grpc.cut(Cut { after: 1, ending });
        for verb in [&["list"][..], &["show", "pump"]] {
            let answer = private.run("none", &[&["catalog", verb[0], &place], &verb[1..]].concat());
            assert_eq!((answer.code, answer.out.as_str()), (Some(2), ""), "{ending:?} {verb:?}: {}", answer.err);
            assert!(answer.err.contains("failed to list bundles"), "{ending:?}: {}", answer.err);
        }
    }
    grpc.cut(None);
    assert_eq!(private.run("none", &["catalog", "list", &place]).code, Some(0));
}

#[tokio::test]
async fn what_is_no_catalog_image_could_not_be_found_out() {
    let private = Private::shared().await;
    let bundle = private.push(&crate::cli::kite()).await;
    let catalog = CatalogImage::of(documents()).expect("a catalog");
    let catalog = catalog.push(&private.registry, &unique_name("catalog"), "v1").await.expect("the registry takes it");
    let sqlite = CatalogImage::of_layers([]).layer(rukpak_tests::Layer::of_files([("database/index.db", "x")]));
    let sqlite = sqlite.label(rukpak_tests::catalog::SQLITE_LABEL, "/database/index.db");
    let sqlite = sqlite.push(&private.registry, &unique_name("catalog"), "v1").await.expect("the registry takes it");
    let table = [
        ("good", &bundle.reference, "image type could not be determined"),
        ("good", &sqlite.reference, "sqlite-based index images are no longer supported"),
        ("none", &catalog.reference, "401"),
        ("helper", &catalog.reference, "note: docker-credential-desktop cannot be run"),
    ];
    for (logins, reference, text) in table {
        let answer = private.run(logins, &["catalog", "list", &format!("image:{reference}")]);
        crate::cli::assert_unknown(&answer, &[reference, text]);
    }
}
