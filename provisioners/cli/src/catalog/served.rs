//! The content of a ClusterCatalog, from where its status says that it is served. A host that only the cluster knows is reached through
//! a forwarded port. Nobody has to say who he is; whom to trust, a Secret says.

use std::fs::File;
use std::time::Duration;

use kube::ResourceExt as _;
use reqwest::{Client, Url};
use rukpak_catalog::origin;
use rukpak_crds::olm::ClusterCatalog;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::forward::Forward;
use crate::service::{authorities, build, keep, local, trusting};

/// Secret whose `ca.crt` says whom to trust. Its name is not for users to choose.
const AUTHORITY_SECRET: &str = "catalogd-ca";
/// The whole catalog, below the base URL.
const ALL: &str = "api/v1/all";
const CONNECT_TIME: Duration = Duration::from_secs(10);
const ANSWER_TIME: Duration = Duration::from_mins(5);

/// Reads from its status where a catalog is served.
///
/// # Errors
/// A sentence: the catalog is not served.
pub(crate) fn base_of(catalog: &ClusterCatalog) -> Result<&str, String> {
    let urls = catalog.status.as_ref().and_then(|status| status.urls.as_ref());
    let name = catalog.name_any();
    urls.map(|urls| urls.base.as_str()).ok_or_else(|| {
        format!("clustercatalog {name:?} is not served: its status has no URL; kubectl describe clustercatalog {name}")
    })
}

/// Fetches all documents of a catalog, to a file without a name that stands at its beginning: a JSON document a line.
pub(crate) async fn fetch(
    cluster: &Cluster,
    catalog: &ClusterCatalog,
    system_namespace: &str,
) -> Result<File, Failure> {
    let name = catalog.name_any();
    let base = base_of(catalog).map_err(Failure::no)?;
    let url = Url::parse(&format!("{base}/{ALL}")).ok().filter(|url| url.scheme() == "https");
    let no_url = || Failure::no(format!("clustercatalog {name:?} is served at {base:?}, which is no https URL"));
    let url = url.ok_or_else(no_url)?;
    // Whoever may not read the Secret or reach the Service knows nothing about the catalog.
    download(cluster, url, &name, system_namespace).await.map_err(Failure::undecided)
}

async fn download(cluster: &Cluster, mut url: Url, name: &str, system_namespace: &str) -> Result<File, Failure> {
    let inside =
        url.host_str().and_then(service_of).map(|(service, namespace)| (service.to_owned(), namespace.to_owned()));
    let mut forward = None;
    if let Some((service, namespace)) = &inside {
        let open = Forward::open(cluster, namespace, service).await?;
        let mut through = local(open.port());
        through.set_path(url.path());
        url = through;
        forward = Some(open);
    }

    let namespace = inside.as_ref().map_or(system_namespace, |(_, namespace)| namespace);
    let http = client(cluster, namespace, forward.is_some()).await?;
    let failed = |error: reqwest::Error| Failure::during(format!("fetch clustercatalog {name:?}"), &error);
    let answer = http.get(url).send().await.and_then(reqwest::Response::error_for_status).map_err(failed)?;
    keep(answer, &origin::limits(), name, failed).await
}

/// The Service and the namespace in a name of the cluster's own DNS: `service.namespace.svc`.
fn service_of(host: &str) -> Option<(&str, &str)> {
    let host = host.strip_suffix(".cluster.local").unwrap_or(host);
    host.strip_suffix(".svc")?.split_once('.')
}

async fn client(cluster: &Cluster, namespace: &str, is_forwarded: bool) -> Result<Client, Failure> {
    let mut config = cluster.config.clone();
    config.auth_info = kube::config::AuthInfo::default();
    let tls = trusting(&config, authorities(cluster, namespace, AUTHORITY_SECRET).await?)?;
    let http = Client::builder().tls_backend_preconfigured(tls).connect_timeout(CONNECT_TIME).timeout(ANSWER_TIME);
    build(if is_forwarded { http.no_proxy() } else { http })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_clusters_dns_are_services() {
        let catalogs = Some(("catalogd-service", "rukpak-system"));
        assert_eq!(service_of("catalogd-service.rukpak-system.svc"), catalogs);
        assert_eq!(service_of("catalogd-service.rukpak-system.svc.cluster.local"), catalogs);
        for host in ["catalogs.example.com", "localhost", "a.svc", "10.0.0.1"] {
            assert_eq!(service_of(host), None, "{host}");
        }
    }
}
