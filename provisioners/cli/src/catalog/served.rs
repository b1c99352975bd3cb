//! The content of a ClusterCatalog, from where its status says that it is served. A host that only the cluster knows is reached through
//! a forwarded port. Nobody has to say who he is; whom to trust, a Secret says.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::time::Duration;

use kube::ResourceExt as _;
use reqwest::{Client, Url};
use rukpak_catalog::origin;
use rukpak_content::{Limit, LimitExceeded};
use rukpak_crds::olm::ClusterCatalog;

use crate::cluster::{self, Cluster};
use crate::forward::{self, Forward};
use crate::service::{self, authorities, local, trusting};

/// Secret whose `ca.crt` says whom to trust. Its name is not for users to choose.
const AUTHORITY_SECRET: &str = "catalogd-ca";
/// The whole catalog, below the base URL.
const ALL: &str = "api/v1/all";
const CONNECT_TIME: Duration = Duration::from_secs(10);
const ANSWER_TIME: Duration = Duration::from_mins(5);

/// Why there is no content. Print the whole chain.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// Its status names no URL.
    #[error("clustercatalog {0:?} is not served: its status has no URL; kubectl describe clustercatalog {0}")]
    NotServed(String),
    /// What it names is none that can be asked.
    #[error("clustercatalog {name:?} is served at {url:?}, which is no https URL")]
    Url { name: String, url: String },
    /// It is not known whom to trust.
    #[error(transparent)]
    Service(#[from] service::Error),
    /// There is no way to the server.
    #[error(transparent)]
    Forward(#[from] forward::Error),
    /// It does not answer, or with something else.
    #[error("fetch clustercatalog {0:?}")]
    Fetch(String, #[source] reqwest::Error),
    /// It is too large.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// No room for it.
    #[error("set what was fetched aside")]
    Keep(#[source] io::Error),
}

impl Error {
    /// Whether the cluster said no, and will say it again.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Cluster(source) => source.is_refusal(),
            Self::NotServed(_) | Self::Url { .. } => true,
            _ => false,
        }
    }
}

/// Fetches all documents of a catalog, to a file without a name that stands at its beginning: a JSON document a line.
pub(crate) async fn fetch(cluster: &Cluster, catalog: &ClusterCatalog, system_namespace: &str) -> Result<File, Error> {
    let name = catalog.name_any();
    let urls = catalog.status.as_ref().and_then(|status| status.urls.as_ref());
    let base = &urls.ok_or_else(|| Error::NotServed(name.clone()))?.base;
    let no_url = || Error::Url { name: name.clone(), url: base.clone() };
    let mut url = Url::parse(&format!("{base}/{ALL}")).map_err(|_| no_url())?;
    if url.scheme() != "https" {
        return Err(no_url());
    }
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
    download(&http, url, &name).await
}

/// The Service and the namespace in a name of the cluster's own DNS: `service.namespace.svc`.
fn service_of(host: &str) -> Option<(&str, &str)> {
    let host = host.strip_suffix(".cluster.local").unwrap_or(host);
    host.strip_suffix(".svc")?.split_once('.')
}

async fn client(cluster: &Cluster, namespace: &str, is_forwarded: bool) -> Result<Client, Error> {
    let mut config = cluster.config.clone();
    config.auth_info = kube::config::AuthInfo::default();
    let tls = trusting(&config, authorities(cluster, namespace, AUTHORITY_SECRET).await?)?;
    let http = Client::builder().tls_backend_preconfigured(tls).connect_timeout(CONNECT_TIME).timeout(ANSWER_TIME);
    let http = if is_forwarded { http.no_proxy() } else { http };
    http.build().map_err(|source| service::Error::Client(source).into())
}

async fn download(http: &Client, url: Url, name: &str) -> Result<File, Error> {
    let failed = |source: reqwest::Error| Error::Fetch(name.to_owned(), source);
    let mut answer = http.get(url).send().await.and_then(reqwest::Response::error_for_status).map_err(failed)?;
    let mut file = tempfile::tempfile().map_err(Error::Keep)?;
    let (mut size_bytes, limits) = (0, origin::limits());
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        size_bytes += chunk.len() as u64;
        Limit::DownloadBytes.check(size_bytes, limits.download_bytes, || name.to_owned())?;
        file.write_all(&chunk).map_err(Error::Keep)?;
    }
    file.rewind().map_err(Error::Keep)?;
    Ok(file)
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
