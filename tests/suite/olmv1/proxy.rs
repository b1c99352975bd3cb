//! Proxies of the environment: what is pulled goes through them, what is asked within the cluster does not.

use rukpak_tests::http_proxy::HttpProxy;
use rukpak_tests::{Process, tools};
use serde_json::json;

use super::case::{Case, catalog, retrying, rolled_out, serving};
use super::world::World;

/// Starts a program again with this proxy for all but the API server, which is asked by its address.
async fn restart(program: &Process, proxy: &str) {
    program.set_environment("HTTPS_PROXY", proxy).expect("it can be set");
    program.set_environment("NO_PROXY", "127.0.0.1").expect("it can be set");
    program.restart().await.expect("it starts again");
    program.wait_ready().await.expect("it is ready");
}

/// Upstream's two scenarios look at requests of operator-controller to catalogd, which are one program here. What its users mean is this.
#[tokio::test]
async fn catalogs_and_bundles_are_pulled_through_the_proxy_and_nothing_goes_around_a_dead_one() {
    let world = World::new().await;
    let proxy = HttpProxy::start().await.expect("the proxy starts");
    assert!(world.plane.server().starts_with("https://127.0.0.1:"), "{}", world.plane.server());
    for program in [&world.manager, &world.controller] {
        restart(program, &proxy.url()).await;
    }
    let case = Case::within(&world, "proxied").await;
    case.install(&["1.0.0"], json!({})).await;
    assert_eq!(proxy.take_tunnels(), [world.registry.host()], "the registry, and neither the API server nor catalogs");
    for program in [&world.manager, &world.controller] {
        assert!(!program.log().contains("m4rked-proxy"), "the proxy's login is in the log");
    }

    let dead = format!("http://127.0.0.1:{}", tools::free_port().expect("a port"));
    restart(&world.manager, &dead).await;
    let other = Case::within(&world, "unreached").await;
    let (documents, _) = other.chain(&["1.0.0"]).await;
    let (reference, _) = other.push_catalog("v1", documents).await;
    other.create_catalog(&other.name, &json!({"ref": reference}), &json!({})).await;
    other.until_at(&catalog(&other.name), retrying("error creating image source")).await;
    case.until_at(&case.extension(), rolled_out()).await;

    restart(&world.manager, &proxy.url()).await;
    other.until_at(&catalog(&other.name), serving()).await;
}
