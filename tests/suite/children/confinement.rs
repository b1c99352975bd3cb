//! `--require=confinement`: a controller that cannot confine its children does not start.

use rukpak_tests::{ControllerOptions, InstallOptions, Plane};

/// So little memory that a child ends before it can show what it is kept from.
const TOO_LITTLE: &str = "--limit=child-bytes=65536";

#[tokio::test]
async fn a_controller_starts_only_where_its_children_are_confined() {
    let plane = Plane::start().await.unwrap();
    plane.install(&InstallOptions { without_webhooks: true, ..InstallOptions::default() }).await.unwrap();
    let start = async |flags: &[&str]| {
        let arguments = flags.iter().map(|flag| (*flag).to_owned()).collect();
        plane.start_controller(ControllerOptions { arguments, ..ControllerOptions::default() }).await.unwrap()
    };
    let confined = start(&["--require=confinement"]).await;
    confined.wait_ready().await.unwrap();
    confined.end();

    let unknown = start(&[TOO_LITTLE]).await;
    unknown.wait_ready().await.unwrap();
    unknown.until_logged(0, "cannot find out how far child processes are confined").await.unwrap();
    let metrics = reqwest::get(format!("{}/metrics", unknown.http_url)).await.unwrap().text().await.unwrap();
    assert!(metrics.contains("rukpak_child_confined{from=\"files\"} 0\n"), "{metrics}");
    unknown.end();

    let refused = start(&["--require=confinement", TOO_LITTLE]).await;
    let error = format!("{:#}", refused.wait_ready().await.unwrap_err());
    assert!(error.contains("--require=confinement") && error.contains("landlock"), "{error}");
}
