//! `/metrics` over HTTPS, where Prometheus scraped operator-controller and catalogd.

use std::net::SocketAddr;

use reqwest::StatusCode;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;

use super::case::Case;
use super::content;
use crate::content::caller::account;

#[tokio::test]
async fn metrics_are_for_accounts_that_may_read_them() {
    let case = Case::new("scraped").await;
    // Once a catalog is served, there is a certificate.
    case.offer(&["1.0.0"]).await;
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(&case.world.catalogs).await.expect("an address").collect();
    let stranger = account(&case.client, None).await;

    for component in ["operator-controller", "catalogd"] {
        let host = format!("{component}-service.{SYSTEM_NAMESPACE}.svc");
        let builder = content::builder(case.world).await.no_proxy().resolve_to_addrs(&host, &addresses);
        let (http, url) = (builder.build().expect("a client"), format!("https://{host}/metrics"));
        let anybody = http.get(&url).send().await.expect("an answer");
        assert_eq!(anybody.status(), StatusCode::UNAUTHORIZED, "{component}");
        let refused = http.get(&url).bearer_auth(&stranger).send().await.expect("an answer");
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{component}");

        let reader = account(&case.client, Some(&format!("{component}-metrics-reader"))).await;
        let answer = http.get(&url).bearer_auth(&reader).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "{component}");
        let text = answer.text().await.expect("text");
        assert!(text.contains("rukpak_cluster_catalogs{"), "{component}: {text}");
    }
}
