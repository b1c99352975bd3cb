//! Catalogs that mean harm, over gRPC and as file-based catalogs: what is wrong with them is said of who asks for them, and of
//! nobody else.

use axum::http::StatusCode;
use rukpak_catalog::registry::message;
use rukpak_tests::catalog::{CatalogServer, nothing};
use rukpak_tests::openshift::{CatalogSource, operator, platform_operator};
use rukpak_tests::verbs::{self, Expected, unique_name};
use rukpak_tests::world::SOON;
use rukpak_tests::{Documents, Fault, FaultyServer, PlatformOptions, Process, Rule, tools};
use serde_json::json;
use tokio::sync::OnceCell;

use super::sources::{Scene, Trap};

/// Catalogs are larger than bundles: what is kept of one has a bound of its own, 256 MiB.
const MEMORY_BYTES: u64 = 512 * 1024 * 1024;

/// The manager, and the catalogs that it is told of.
struct Managed {
    scene: &'static Scene,
    manager: Process,
    pid: Option<u32>,
    endless: FaultyServer,
    redirect: FaultyServer,
    trap: Trap,
    /// `hostile/tls`, whose authority the manager knows.
    tls: CatalogSource,
    /// `hostile/plain`.
    plain: CatalogSource,
    _folders: [tempfile::TempDir; 2],
}

static MANAGED: OnceCell<Managed> = OnceCell::const_new();

impl Managed {
    async fn shared() -> &'static Self {
        MANAGED.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        let scene = Scene::shared().await;
        let (endless, redirect, trap) = (scene.server(), scene.server(), Trap::set());
        redirect.add(Rule::on("/", Fault::Redirect(format!("https://{}/", trap.address()))));
        let folders = ["good", "tagged"].map(|name| tools::temp_folder(name).expect("a folder"));
        let [good, tagged] = &folders;
        put(good, &nothing());
        put(tagged, &Documents::package("tagged", &[("1.0.0", "registry.example.com/tagged:v1")]));
        let arguments = vec![
            format!("--source-ca-file={}", scene.ca_file.display()),
            format!("--catalog=good=dir:{}", good.path().display()),
            format!("--catalog=tagged=dir:{}", tagged.path().display()),
            format!("--catalog=endless={}/catalogs/x", endless.url()),
            format!("--catalog=redirect={}/catalogs/x", redirect.url()),
            "--catalog-source=hostile/tls".to_owned(),
            "--catalog-source=hostile/plain".to_owned(),
            format!("--catalog-ca=hostile/tls={}", scene.ca_file.display()),
            "--require=digests".to_owned(),
        ];
        let options = PlatformOptions { arguments, ..PlatformOptions::default() };
        let manager = scene.world.plane.start_platform(options).await.expect("the manager starts");
        manager.wait_ready().await.expect("the manager is ready");
        let [tls, plain] = ["tls", "plain"].map(|name| CatalogSource::new(("hostile", name)));
        let pid = manager.pid();
        Self { scene, manager, pid, endless, redirect, trap, tls, plain, _folders: folders }
    }

    /// Asks one of the catalogs for a package; waits until it is refused with `text`, and returns the message.
    async fn refused(&self, catalog: &str, package: &str, text: &str) -> String {
        let (client, name) = (self.scene.client().await, unique_name("hostile"));
        let spec = json!({"package": {"name": package, "catalog": catalog}});
        verbs::create(&client, &operator(&name, spec)).await.unwrap_or_else(|error| panic!("{error:#}"));
        let expected = Expected { kind: "Installed", status: "False", reason: None, message: text };
        let found = verbs::await_condition(&client, &platform_operator(&name), expected, SOON).await;
        let object = found.unwrap_or_else(|error| panic!("{error:#}"));
        verbs::delete(&client, &platform_operator(&name)).await.unwrap_or_else(|error| panic!("{error:#}"));
        let message = verbs::condition(&object, "Installed").and_then(|installed| installed["message"].as_str());
        message.unwrap_or_default().to_owned()
    }

    /// The good catalog is read as before, by the same process.
    async fn unharmed(&self) {
        let package = unique_name("missing");
        self.refused("good", &package, &format!("from the {package} package")).await;
        assert_eq!(self.manager.pid(), self.pid, "the manager was restarted");
        assert_eq!(self.manager.exit_status().expect("it was started"), None);
        let peak = self.manager.peak_resident_bytes().expect("it runs");
        println!("rukpak-platform: at most {} MiB", peak / 1024 / 1024);
        assert!(peak < MEMORY_BYTES, "rukpak-platform took {peak} bytes");
    }
}

fn put(folder: &tempfile::TempDir, catalog: &Documents) {
    std::fs::write(folder.path().join("catalog.json"), catalog.json_lines()).expect("written");
}

#[tokio::test]
async fn file_based_catalogs_without_end_are_cut_off_at_their_bounds() {
    let managed = Managed::shared().await;
    for (begin, again, text) in [
        // So many documents,
        ("", "{\"schema\":\"x\"}\n", "200000 documents"),
        // and one that is so large.
        ("{\"schema\":\"olm.bundle\",\"name\":\"", "a", "bytes"),
    ] {
        managed.endless.mend();
        managed.endless.add(Rule::on("/", Fault::Endless(StatusCode::OK, begin, again)));
        let message = managed.refused("endless", "any", text).await;
        assert!(message.contains("catalog endless"), "{message}");
    }
    managed.unharmed().await;
}

#[tokio::test]
async fn a_catalog_that_redirects_to_a_refused_address_is_not_followed() {
    let managed = Managed::shared().await;
    let text = "has an address that sources may not be fetched from (--source-allow-cidr opens it)";
    managed.refused("redirect", "any", text).await;
    assert!(!managed.redirect.seen().is_empty());
    managed.trap.is_untouched();
    managed.unharmed().await;
}

/// Over gRPC: a message past its bound, and more bundles than any catalog has.
#[tokio::test]
async fn grpc_catalogs_are_cut_off_at_their_bounds() {
    let managed = Managed::shared().await;
    let client = managed.scene.client().await;
    let bundle = |at: usize, bytes: usize| message::Bundle {
        csv_name: format!("p.v1.0.{at}"),
        package_name: "p".to_owned(),
        channel_name: "stable".to_owned(),
        version: format!("1.0.{at}"),
        bundle_path: format!("registry.example.com/p:{at}"),
        csv_json: "x".repeat(bytes),
        ..message::Bundle::default()
    };
    let large = CatalogServer::start_generated(1, move |at| bundle(at, 33 << 20)).unwrap();
    let many = CatalogServer::start_generated(usize::MAX, move |at| bundle(at, 0)).unwrap();
    for (server, text) in [(large, "OutOfRange"), (many, "more than")] {
        managed.plain.create(&client).await;
        let connection = json!({"address": server.address(), "lastObservedState": "READY"});
        managed.plain.connection(&client, &connection).await;
        let message = managed.refused("hostile/plain", "p", text).await;
        assert!(message.contains("plain/hostile"), "{message}");
    }
    managed.unharmed().await;
}

/// M9: whoever is between can neither read nor answer.
#[tokio::test]
async fn a_catalog_with_an_authority_is_asked_over_tls_only() {
    let managed = Managed::shared().await;
    let client = managed.scene.client().await;
    let catalog = Documents::package("p", &[("1.0.0", "registry.example.com/p:v1")]);
    let tls =
        |ca: &rukpak_tests::TestCa| CatalogServer::start_with_tls(catalog.clone(), &ca.localhost().unwrap()).unwrap();
    let (ours, stranger) = (tls(&managed.scene.ca), tls(&rukpak_tests::TestCa::new("stranger").unwrap()));
    let plain = CatalogServer::start(catalog.clone()).unwrap();
    managed.tls.create(&client).await;
    let connect = async |server: &CatalogServer| {
        let address = server.address().replace("127.0.0.1", "localhost");
        managed.tls.connection(&client, &json!({"address": address, "lastObservedState": "READY"})).await;
    };
    for server in [&plain, &stranger] {
        connect(server).await;
        managed.refused("hostile/tls", "p", "failed to register client from the tls/hostile grpc connection").await;
        assert_eq!(server.count("ListBundles"), 0);
    }
    connect(&ours).await;
    // It is read, and what it names is a tag.
    managed.refused("hostile/tls", "p", "names its image by a tag, \"registry.example.com/p:v1\"").await;
    managed.unharmed().await;
}

#[tokio::test]
async fn a_catalog_that_names_a_tag_installs_nothing_where_digests_are_required() {
    let managed = Managed::shared().await;
    let message = managed.refused("tagged", "tagged", "--require=digests").await;
    assert!(message.contains("have the catalog made with the image's digest"), "{message}");
    let deployments =
        verbs::list(&managed.scene.client().await, "core.rukpak.io/v1alpha1", "BundleDeployment", "").await;
    let names = deployments.expect("they can be listed").into_iter().filter_map(|object| object.metadata.name);
    assert_eq!(names.filter(|name| name.starts_with("hostile")).count(), 0);
    managed.unharmed().await;
}
