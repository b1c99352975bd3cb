//! The Secret with the service's certificate, and the one with the authorities that clients trust. Watches both, and writes
//! them unless somebody else does.
//!
//! A new authority is published beside the old one before its certificate is served, so no call is refused on the way.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use rukpak_certificates::renewal::{self, NEXT_AUTHORITY, NEXT_CERTIFICATE, NEXT_KEY, Wanted};
use rukpak_certificates::stored::{AUTHORITIES, CERTIFICATE, KEY};
use rukpak_certificates::{Identity, authority, identity};
use rukpak_crds::names::FIELD_MANAGER;
use serde_json::json;

use super::tls::{self, Tls};
use crate::api;
use crate::error::Chain;

/// Until the next look after a failure.
const PAUSE: Duration = Duration::from_secs(2);
/// Everything of ours in the Secret with the certificate.
const ENTRIES: [&str; 6] = [AUTHORITIES, CERTIFICATE, KEY, NEXT_AUTHORITY, NEXT_CERTIFICATE, NEXT_KEY];

/// Why the certificate is as it was.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// A Secret cannot be written.
    #[error("write secret {0}")]
    Write(String, #[source] api::Error),
    /// No certificate can be made.
    #[error("make a certificate")]
    Make(#[source] authority::Error),
    /// Somebody else's certificate cannot be read.
    #[error("read the certificate's secret")]
    Read(#[source] identity::Error),
    /// It cannot be served.
    #[error("serve the certificate")]
    Serve(#[source] tls::Error),
}

/// Which certificate is kept, and where.
#[derive(Clone, Debug)]
pub struct Serving {
    /// The namespace of both Secrets.
    pub namespace: String,
    /// The name of the Secret with certificate and key.
    pub certificate_secret: String,
    /// The name of the Secret whose `ca.crt` clients trust.
    pub authority_secret: String,
    /// The DNS names that clients use.
    pub names: Vec<String>,
    /// How long a certificate lives.
    pub lifetime: Duration,
    /// Whether somebody else writes the certificate: then nothing is written here.
    pub is_external: bool,
}

/// Keeps the certificate.
pub struct Keeper {
    secrets: Api<Secret>,
    serving: Serving,
}

/// The Secrets as last seen.
#[derive(Default)]
struct Seen {
    certificate: Look,
    authority: Look,
}

/// A look for a Secret.
#[derive(Default)]
struct Look {
    is_taken: bool,
    secret: Option<Secret>,
}

impl Look {
    fn found(secret: Option<Secret>) -> Self {
        Self { is_taken: true, secret }
    }
}

impl Keeper {
    /// For these Secrets.
    pub fn new(client: Client, serving: Serving) -> Self {
        Self { secrets: Api::namespaced(client, &serving.namespace), serving }
    }

    /// Sees to it, endlessly, that a certificate is served.
    pub async fn keep(self, tls: Arc<Tls>) {
        let watch = |name: &str| watcher::watch_object(self.secrets.clone(), name).default_backoff();
        let mut certificates = pin!(watch(self.serving.certificate_secret.as_str()));
        let mut authorities = pin!(watch(self.serving.authority_secret.as_str()));
        let mut seen = Seen::default();
        let mut due = SystemTime::UNIX_EPOCH;
        loop {
            let wait = due.duration_since(SystemTime::now()).unwrap_or(PAUSE);
            tokio::select! {
                Some(event) = certificates.next() => match event {
                    Ok(secret) => seen.certificate = Look::found(secret),
                    Err(error) => tracing::debug!(%error, "watch over {} interrupted; resuming", self.serving.certificate_secret),
                },
                Some(event) = authorities.next() => match event {
                    Ok(secret) => seen.authority = Look::found(secret),
                    Err(error) => tracing::debug!(%error, "watch over {} interrupted; resuming", self.serving.authority_secret),
                },
                () = tokio::time::sleep(wait) => {}
            }
            due = match self.step(&mut seen, &tls).await {
                Ok(next) => next,
                // The watch shows what it is now.
                Err(Error::Write(name, source)) if source.is_conflict() => {
                    tracing::debug!(secret = name, "write conflict; reading the object again");
                    SystemTime::now() + PAUSE
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "the certificate that is served could not be looked after");
                    SystemTime::now() + PAUSE
                }
            };
        }
    }

    /// One look; returns when the next one is due.
    async fn step(&self, seen: &mut Seen, tls: &Tls) -> Result<SystemTime, Error> {
        const LATER: Duration = Duration::from_hours(24);
        if !seen.certificate.is_taken || !seen.authority.is_taken {
            return Ok(SystemTime::now() + LATER);
        }
        let (certificate, authority) = (&seen.certificate.secret, &seen.authority.secret);
        if self.serving.is_external {
            if let Some(data) = certificate.as_ref().and_then(|secret| secret.data.as_ref()) {
                serve(data, tls)?;
            }
            return Ok(SystemTime::now() + LATER);
        }
        let live = own(certificate.as_ref());
        let published = own(authority.as_ref()).remove(AUTHORITIES);
        let held = self.advance(&live, published.as_ref())?;
        if held.entries != live {
            let written =
                self.write(&self.serving.certificate_secret, "kubernetes.io/tls", certificate.as_ref(), &held.entries);
            seen.certificate = Look::found(Some(written.await?));
        }
        let authorities = ByteString(held.authorities);
        if published.as_ref() != Some(&authorities) {
            let entries = BTreeMap::from([(AUTHORITIES.to_owned(), authorities)]);
            let written = self.write(&self.serving.authority_secret, "Opaque", authority.as_ref(), &entries).await?;
            seen.authority = Look::found(Some(written));
        }
        // Last: what is served is trusted already.
        serve(&held.entries, tls)?;
        Ok(held.due)
    }

    fn advance(
        &self,
        live: &BTreeMap<String, ByteString>,
        published: Option<&ByteString>,
    ) -> Result<renewal::Held, Error> {
        let wanted = Wanted { names: &self.serving.names, lifetime: self.serving.lifetime };
        let now = SystemTime::now();
        let held = renewal::advance(Some(live), wanted, now, false).map_err(Error::Make)?;
        let is_published = published.is_some_and(|published| published.0 == held.authorities);
        if live.contains_key(NEXT_CERTIFICATE) && is_published {
            return renewal::advance(Some(live), wanted, now, true).map_err(Error::Make);
        }
        Ok(held)
    }

    /// Writes the entries, if the Secret is still the one that was looked at, or still none.
    async fn write(
        &self,
        name: &str,
        kind: &str,
        live: Option<&Secret>,
        entries: &BTreeMap<String, ByteString>,
    ) -> Result<Secret, Error> {
        // The type of a Secret never changes.
        let kind = live.and_then(|secret| secret.type_.as_deref()).unwrap_or(kind);
        // A first apply with the version 1, which no object has, creates or conflicts: it replaces nothing.
        let version = live.map_or_else(|| Some("1".to_owned()), Secret::resource_version);
        let body = json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "data": entries,
                          "metadata": {"name": name, "resourceVersion": version}});
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let written = self.secrets.patch(name, &parameters, &Patch::Apply(body)).await;
        let written = written.map_err(|error| Error::Write(name.to_owned(), error.into()))?;
        tracing::info!(secret = name, "wrote the Secret");
        Ok(written)
    }
}

/// Our entries of a Secret.
fn own(secret: Option<&Secret>) -> BTreeMap<String, ByteString> {
    let data = secret.and_then(|secret| secret.data.as_ref()).into_iter().flatten();
    let ours = data.filter(|(key, _)| ENTRIES.contains(&key.as_str()));
    ours.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn serve(entries: &BTreeMap<String, ByteString>, tls: &Tls) -> Result<(), Error> {
    let entry = |key| entries.get(key).map_or(&[][..], |value: &ByteString| &value.0);
    let identity = Identity::from_pem(entry(CERTIFICATE), entry(KEY)).map_err(Error::Read)?;
    tls.serve(&identity).map_err(Error::Serve)
}
