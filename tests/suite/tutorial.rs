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
use rukpak_tests::{PlatformOptions, fixtures};

use self::examples::Servers;
use self::session::Session;

/// What a block of docs/rukpakctl.md has that is about PlatformOperators.
const PLATFORM_OPERATOR: &str = "kind: PlatformOperator";

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
    session.follow("docs/plans.md", &[]).await;
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
