//! The documentation, followed: what it has people type is typed, with the real kubectl, and what it shows of the output is
//! compared. `TUTORIAL=write` writes what was printed into the pages instead.

mod demo;
mod examples;
mod install;
pub mod page;
mod rukpakctl;
pub mod session;

use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::openshift::{self, CatalogSource, DEFAULT_CATALOG};
use rukpak_tests::world::{World, WorldOptions};
use rukpak_tests::{Documents, PlatformOptions, Registry, fixtures, tools};
use serde_json::json;
use tempfile::TempDir;

use crate::platform::packages::{self, ALL, channel, entry, package};

use self::examples::Servers;
use self::session::Session;

/// What a block of docs/rukpakctl.md has that is about PlatformOperators.
const PLATFORM_OPERATOR: &str = "kind: PlatformOperator";
/// The package of docs/plans.md that depends on another one.
const NEEDY: &str = "mill";
/// The catalog with both.
const COMMUNITY: &str = "community";

#[tokio::test]
async fn what_the_pages_have_people_type_does_what_they_say() {
    let servers = Servers::start();
    let options =
        WorldOptions { install: openshift::manifests(), arguments: vec![servers.ca_flag()], ..WorldOptions::default() };
    let world = World::start_with(options).await.unwrap_or_else(|error| panic!("{error:#}"));
    let client = world.admin().await;
    let authorities = [world.registry.ca_pem(), world.git.ca_pem()].concat();
    let session = Session::start(&world.plane, &world.controller, &servers.names(&world).await, &authorities).await;
    let _kubelets =
        ["hello", "greeter-operator", "pump-operator-system"].map(|name| Kubelet::play(client.clone(), name));

    session.follow("README.md", &["make "]).await;
    session.enter("kubectl delete events --all").await;
    session.follow("docs/quick-start.md", &["make ", "cargo "]).await;
    session.follow("docs/bundles.md", &["port-forward"]).await;
    session.follow("docs/upgrades.md", &[]).await;
    session.follow("docs/status.md", &[]).await;
    session
        .enter("kubectl delete bundledeployment hello && kubectl wait --for=delete --timeout=2m namespace/hello")
        .await;
    session.follow("docs/troubleshooting.md", &["logs deployment"]).await;
    session.enter("kubectl delete bundledeployment hello; kubectl delete namespace hello").await;
    session.follow("docs/plans.md", &[NEEDY]).await;
    session.enter("kubectl wait --for=delete --timeout=2m namespace/hello").await;
    session.follow("docs/rights.md", &["install-as-controller", "rukpakctl policy"]).await;
    session.enter("kubectl apply -f examples/rights/role.yaml").await;
    examples::install_all(&session).await;
    rukpakctl::prepare(&world, &session).await;
    // Catalogs and the page to look at are followed by the tests of rukpakctl, ClusterExtensions by the suite of OLM v1; the man pages
    // would go to a home folder; PlatformOperators come below.
    let elsewhere = ["rukpakctl catalog", "rukpakctl extension", "rukpakctl ui", "cargo build", PLATFORM_OPERATOR];
    session.follow("docs/rukpakctl.md", &elsewhere).await;
    session.enter("kubectl delete bundledeployment hello").await;

    let published = fixtures::publish_pump(&world.registry, &["1.0.0", "1.1.0"]).await;
    let (documents, _) = published.unwrap_or_else(|error| panic!("{error:#}"));
    let catalog = CatalogSource::new(DEFAULT_CATALOG);
    catalog.put("pump-operator", documents);
    openshift::open(&client, &catalog).await;
    let environment = vec![("RELEASE_VERSION".to_owned(), "4.12.0".to_owned())];
    let options = PlatformOptions {
        environment,
        arguments: vec!["--catalog-source=openshift-marketplace/redhat-operators".to_owned()],
        ..PlatformOptions::default()
    };
    let platform = world.plane.start_platform(options).await.unwrap_or_else(|error| panic!("{error:#}"));
    platform.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
    session.follow("docs/platform.md", &[]).await;
    session.follow_only("docs/rukpakctl.md", PLATFORM_OPERATOR).await;
    assert!(!session::is_written(), "the pages are written: read what changed, and run again without TUTORIAL");
}

#[tokio::test]
async fn a_refusal_and_its_way_out_are_as_the_page_says() {
    let options = WorldOptions { install: openshift::manifests(), ..WorldOptions::default() };
    let world = World::start_with(options).await.unwrap_or_else(|error| panic!("{error:#}"));
    let community = community(&world.registry).await;
    let arguments =
        ["--catalog-source=none".to_owned(), format!("--catalog={COMMUNITY}=dir:{}", community.path().display())];
    let options = PlatformOptions { arguments: arguments.into(), ..PlatformOptions::default() };
    let platform = world.plane.start_platform(options).await.unwrap_or_else(|error| panic!("{error:#}"));
    platform.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
    let session = Session::start(&world.plane, &world.controller, &[], &world.registry.ca_pem()).await;
    session.follow_only("docs/plans.md", NEEDY).await;
    assert!(!session::is_written(), "the pages are written: read what changed, and run again without TUTORIAL");
}

/// A folder with a catalog in which all versions of one package depend on another one.
async fn community(registry: &Registry) -> TempDir {
    let need =
        json!({"type": "olm.package.required", "value": {"packageName": "wells", "versionRange": ">=1.0.0 <2.0.0"}});
    let mut documents = Documents::default();
    for (name, versions, needs) in [(NEEDY, vec!["1.0.0"], vec![need]), ("wells", vec!["1.2.0", "2.0.0"], Vec::new())] {
        documents = documents.with(package(name, "stable"));
        for version in &versions {
            let image = packages::push(registry, name, version, packages::bundle(name, version, ALL)).await;
            documents = documents.with(entry(name, version, &image, Some(ALL), &needs));
        }
        let mut entries = vec![json!({"name": format!("{name}.v{}", versions[0])})];
        entries.extend(
            versions.windows(2).map(
                |pair| json!({"name": format!("{name}.v{}", pair[1]), "replaces": format!("{name}.v{}", pair[0])}),
            ),
        );
        documents = documents.with(channel(name, "stable", json!(entries)));
    }
    let folder = tools::temp_folder(COMMUNITY).unwrap_or_else(|error| panic!("{error:#}"));
    std::fs::write(folder.path().join("catalog.json"), documents.json_lines()).expect("a file can be written");
    folder
}
