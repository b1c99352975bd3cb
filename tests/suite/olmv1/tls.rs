//! The TLS that programs speak by operator-controller's flags: on each listener, and as clients. Which versions, cipher suites and
//! curves a flag leaves is tested beside the code.

use axum::Router;
use axum::routing::get;
use reqwest::StatusCode;
use reqwest::tls::Version;
use rukpak_tests::verbs::{self, Expected, unique_name};
use rukpak_tests::world::{bundle, until_bundle};
use rukpak_tests::{
    ControllerOptions, InstallOptions, Plane, PlatformOptions, TestCa, WebhookOptions, tls as server, tools,
};
use serde_json::json;

use crate::bundles::sources_http;

/// TLS 1.3 and no other.
const FLAGS: [&str; 2] = ["--tls-profile=custom", "--tls-custom-version=TLSv1.3"];

/// Calls whoever listens on a loopback port, with this version of TLS or an older one.
async fn ask(port: u16, newest: Version) -> Result<StatusCode, reqwest::Error> {
    let client = reqwest::Client::builder()
        .no_proxy()
        // Whose certificate it is does not matter here.
        .tls_danger_accept_invalid_certs(true)
        .tls_version_max(newest)
        .build()
        .expect("a client");
    client.get(format!("https://127.0.0.1:{port}/")).send().await.map(|answer| answer.status())
}

/// The flags, and others.
fn arguments(others: &[String]) -> Vec<String> {
    FLAGS.map(str::to_owned).into_iter().chain(others.iter().cloned()).collect()
}

#[tokio::test]
async fn all_programs_speak_the_tls_that_their_flags_leave() {
    let plane = Plane::start().await.expect("the plane starts");
    plane.install(&InstallOptions::with_olm()).await.expect("the manifests apply");
    let ca = TestCa::new("archives-ca").expect("an authority");
    let folder = tools::temp_folder("tls").expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, ca.pem()).expect("a file");

    let options = WebhookOptions { arguments: arguments(&[]), ..WebhookOptions::default() };
    let webhook = plane.start_webhook(options).await.expect("the webhook starts");
    let trusted = [format!("--source-ca-file={}", file.display())];
    let options = ControllerOptions { arguments: arguments(&trusted), ..ControllerOptions::default() };
    let controller = plane.start_controller(options).await.expect("the controller starts");
    let catalogs = tools::free_port().expect("a port");
    let address = ["--catalog-source=none".to_owned(), format!("--catalogs-bind-address=127.0.0.1:{catalogs}")];
    let options = PlatformOptions { arguments: arguments(&address), ..PlatformOptions::default() };
    let manager = plane.start_platform(options).await.expect("the manager starts");
    for program in [&webhook, &controller, &manager] {
        program.wait_ready().await.expect("it is ready");
    }

    let webhooks = plane.installed().expect("nobody panicked").expect("it is installed").webhook_port;
    for (name, port) in [("webhook", webhooks), ("content", controller.content_port), ("catalogs", catalogs)] {
        let end = std::time::Instant::now() + verbs::PATIENCE;
        while let Err(error) = ask(port, Version::TLS_1_3).await {
            // The catalogs' certificate may come after readiness.
            assert!(std::time::Instant::now() < end, "{name}: {error:?}");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let error = ask(port, Version::TLS_1_2).await.expect_err("TLS 1.2 is left out");
        assert!(format!("{error:?}").contains("AlertReceived(ProtocolVersion)"), "{name}: {error:?}");
    }

    let client = plane.admin().await.expect("the admin kubeconfig is good");
    let name = unique_name("tls");
    let body = sources_http::good(&name);
    let router = Router::new().route("/bundle.tgz", get(move || std::future::ready(body.clone())));
    let leaf = ca.localhost().expect("a certificate");
    let (old, new) = (server::serve_tls12(router.clone(), &leaf), server::serve(router, &leaf));
    let (old, new) = (old.expect("a port"), new.expect("a port"));
    let source = |port: u16| json!({"type": "http", "http": {"url": format!("https://localhost:{port}/bundle.tgz")}});
    for (suffix, served, expected) in [
        ("new", &new, Expected::is_true("Unpacked", "UnpackSuccessful")),
        ("old", &old, Expected::is_false("Unpacked", "UnpackFailed").saying("received fatal alert: ProtocolVersion")),
    ] {
        let name = format!("{name}-{suffix}");
        verbs::create(&client, &bundle(&name, source(served.address().port()))).await.expect("it is taken");
        until_bundle(&client, &name, expected).await;
    }
}
