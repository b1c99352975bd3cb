//! catalogd's HTTPS API.

use std::time::Duration;

use axum::http::StatusCode;
use rukpak_tests::{CatalogdServer, Fault, FaultyServer, Rule, TestCa};

use crate::catalogs::common::{
    ALL_BUNDLES, bundles, catalog, changed_catalog, impatient_loader, loader, new, refusal, unchanged,
};

#[tokio::test]
async fn a_catalog_is_fetched_once() {
    let server = CatalogdServer::start().unwrap();
    server.put("all", catalog()).unwrap();
    let loader = loader(&server.ca_pem());
    let (found, revision) = new(&loader, &server.url("all"), None).await;
    assert_eq!(bundles(&found), ALL_BUNDLES);
    assert_eq!(found.packages["pump"].default_channel.as_deref(), Some("stable"));
    unchanged(&loader, &server.url("all"), &revision).await;
    assert_eq!(server.answers(), [StatusCode::OK, StatusCode::NOT_MODIFIED]);
    server.put("all", changed_catalog()).unwrap();
    let (found, changed) = new(&loader, &format!("{}/", server.url("all")), Some(&revision)).await;
    assert_eq!(bundles(&found), ["mill: mill.v0.1.0 mill.v0.2.0"]);
    assert_ne!(changed, revision);
}

#[tokio::test]
async fn a_server_without_etags_is_asked_by_date_or_compared() {
    let ca = TestCa::new("plain-ca").unwrap();
    let server = FaultyServer::alone(&ca).unwrap();
    let loader = loader(server.ca_pem());
    let body = || catalog().json_lines().into_bytes();
    let date = "Sun, 01 Nov 2026 00:00:00 GMT".to_owned();
    server.add(Rule::on("/dated/", Fault::Answer(StatusCode::OK, vec![("last-modified", date)], body())));
    let url = format!("{}/dated", server.url());
    let (found, revision) = new(&loader, &url, None).await;
    assert_eq!(bundles(&found), ALL_BUNDLES);
    assert!(revision.0.contains("01 Nov 2026"), "{revision:?}");
    // It sends all of it again; the date says that it is the same.
    unchanged(&loader, &url, &revision).await;

    server.add(Rule::on("/bare/", Fault::Answer(StatusCode::OK, Vec::new(), body())));
    let url = format!("{}/bare", server.url());
    let (_, revision) = new(&loader, &url, None).await;
    assert!(revision.0.starts_with("sha256:"), "{revision:?}");
    unchanged(&loader, &url, &revision).await;
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let server = CatalogdServer::start().unwrap();
    server.put("all", catalog()).unwrap();
    let faulty = server.behind_faults().unwrap();
    let loader = loader(&format!("{}{}", server.ca_pem(), faulty.ca_pem()));
    let text = refusal(&loader, &server.url("none")).await;
    assert!(text.starts_with("NotFound ") && text.contains("/catalogs/none/api/v1/all: unexpected status"), "{text}");

    let url = format!("{}/catalogs/all", faulty.url());
    let html = vec![("content-type", "text/html; charset=utf-8".to_owned())];
    for (fault, expected) in [
        (Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, String::new()), "Unavailable "),
        (Fault::Status(StatusCode::FORBIDDEN, String::new()), "Unauthorized "),
        // Nobody asked under a condition.
        (Fault::Status(StatusCode::NOT_MODIFIED, String::new()), "Terminal "),
        (
            Fault::Answer(StatusCode::OK, html, b"<html>log in</html>".to_vec()),
            "Terminal the catalog cannot be fetched: ",
        ),
        (Fault::HangUpAfter(700), "Unavailable the catalog cannot be fetched: "),
        (Fault::Replace(b"{\"schema\": \"olm.package\", ".to_vec()), "Terminal the catalog cannot be read: "),
        (Fault::Redirect("http://localhost:1/".to_owned()), "Terminal "),
    ] {
        let name = format!("{fault:?}");
        faulty.add(Rule::on("/api/v1/all", fault).times(1));
        let text = refusal(&loader, &url).await;
        assert!(text.starts_with(expected), "{name}: {text}");
    }
    // A body that is cut between two documents looks whole, but for its length.
    let lines = catalog().json_lines();
    let line = lines.find('\n').unwrap() + 1;
    faulty.add(Rule::on("/api/v1/all", Fault::HangUpAfter(line)).times(1));
    let text = refusal(&loader, &url).await;
    assert!(text.contains(&format!("broke off after {line} bytes")), "{text}");
    new(&loader, &url, None).await;
}

#[tokio::test]
async fn silence_and_strangers() {
    let server = CatalogdServer::start().unwrap();
    server.put("all", catalog()).unwrap();
    let faulty = server.behind_faults().unwrap();
    let impatient = impatient_loader(faulty.ca_pem(), Duration::from_millis(300));
    let url = format!("{}/catalogs/all", faulty.url());
    for fault in [Fault::Hang, Fault::StallAfter(700)] {
        let name = format!("{fault:?}");
        faulty.add(Rule::on("/api/v1/all", fault).times(1));
        let text = refusal(&impatient, &url).await;
        assert!(text.starts_with("Unavailable "), "{name}: {text}");
    }
    let stranger = TestCa::new("stranger").unwrap();
    let text = refusal(&loader(&stranger.pem()), &server.url("all")).await;
    assert!(text.contains("certificate signed by unknown authority"), "{text}");
}
