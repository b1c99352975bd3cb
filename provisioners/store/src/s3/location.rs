//! Where a bucket is: a URL, and the environment that every client of its kind reads.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, Certificate, ClientOptions, ObjectStore, RetryConfig};
use url::Url;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for the next bytes of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Tried again at most so long and so often; the caller comes back later.
const RETRY_TIMEOUT: Duration = Duration::from_secs(15);
const RETRIES: usize = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// A bucket and a prefix in it: `s3://bucket/prefix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    url: Url,
    prefix: Path,
}

/// Why a bucket cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    /// The text names no bucket.
    #[error("{0:?} is not a bucket: write s3://BUCKET/PREFIX")]
    Form(String),
    /// The certificates are none.
    #[error("read the CA certificates")]
    Certificates(#[source] object_store::Error),
    /// What the environment says of it cannot be used.
    #[error("set up {location}")]
    Client {
        /// The bucket.
        location: String,
        /// What is wrong.
        source: object_store::Error,
    },
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let form = || LocationError::Form(text.to_owned());
        let url: Url = text.parse().map_err(|_| form())?;
        let is_plain =
            url.scheme() == "s3" && url.username().is_empty() && url.port().is_none() && url.query().is_none();
        if !is_plain || url.host_str().is_none_or(str::is_empty) || url.fragment().is_some() {
            return Err(form());
        }
        let prefix = Path::from_url_path(url.path()).map_err(|_| form())?;
        Ok(Self { url, prefix })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.url.as_str().trim_end_matches('/'))
    }
}

impl Location {
    /// The folder `name` below this one.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/{name}", self.url.path().trim_end_matches('/')));
        Self { url, prefix: self.prefix.clone().join(name) }
    }

    /// A client with the credentials, region and endpoint that `environment` names as every client of S3 has them named, which
    /// trusts the certificates in `ca_pem` beside the system's. Sends nothing.
    pub(crate) fn client(
        &self,
        environment: &[(String, String)],
        ca_pem: &[u8],
    ) -> Result<Arc<dyn ObjectStore>, LocationError> {
        let builder = AmazonS3Builder::new().with_url(self.url.as_str());
        let builder = named(environment).fold(builder, |builder, (key, value)| builder.with_config(key, value));
        let built = builder.with_client_options(options(ca_pem)?).with_retry(retry()).build();
        let client = built.map_err(|source| LocationError::Client { location: self.to_string(), source })?;
        Ok(Arc::new(PrefixStore::new(client, self.prefix.clone())))
    }
}

/// What the variables of S3 clients say, such as `AWS_REGION`. Those that are not known are for somebody else.
fn named(environment: &[(String, String)]) -> impl Iterator<Item = (AmazonS3ConfigKey, &str)> {
    let of_clients = environment.iter().filter(|(name, _)| name.starts_with("AWS_"));
    of_clients.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value.as_str())))
}

fn options(ca_pem: &[u8]) -> Result<ClientOptions, LocationError> {
    // An endpoint without TLS is one that somebody wrote down as http://.
    let options = ClientOptions::new().with_allow_http(true).with_timeout_disabled();
    let options = options.with_connect_timeout(CONNECT_TIMEOUT).with_read_timeout(READ_TIMEOUT);
    let certificates = Certificate::from_pem_bundle(ca_pem).map_err(LocationError::Certificates)?;
    Ok(certificates.into_iter().fold(options, ClientOptions::with_root_certificate))
}

fn retry() -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_a_scheme_a_name_and_a_prefix() {
        for (text, prefix) in
            [("s3://bundles", ""), ("s3://bundles/clusters/one", "clusters/one"), ("s3://bundles/one/", "one")]
        {
            let location: Location = text.parse().unwrap();
            assert_eq!(
                (location.prefix.as_ref(), location.to_string()),
                (prefix, text.trim_end_matches('/').to_owned())
            );
            assert_eq!(location.join("a").to_string(), format!("{}/a", text.trim_end_matches('/')));
        }
    }

    #[test]
    fn what_is_no_bucket_is_refused() {
        for text in [
            "",
            "bundles",
            "s3:",
            "s3://",
            "s3:///one",
            "http://h/b",
            "gs://b/one",
            "az://b/one",
            "s3://key@b",
            "s3://b:1",
            "s3://b?x=y",
            "/var/cache",
        ] {
            let error = text.parse::<Location>().unwrap_err().to_string();
            assert!(error.contains("s3://BUCKET/PREFIX"), "{text}: {error}");
        }
    }
}
