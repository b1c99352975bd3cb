//! Keeps the certificate of a service: watches the Secret that holds it and the object from which clients take the authorities that
//! they trust, and writes both unless somebody else does.
//!
//! ```text
//! 1 stage     a new authority and certificate go to entries of their own in the Secret
//! 2 publish   clients are given both authorities
//! 3 settle    both have been there for a while: clients watch the object, each with its own lag
//! 4 promote   the new certificate takes the place of the old one, and new connections get it
//! ```
//!
//! What is served is trusted at every moment, so no call is refused on the way. Every replica takes these steps over the same two
//! objects, and any may take each: writes carry the resourceVersion they were decided on, so that one wins and the others see what
//! it wrote. The authority's key is never stored: it signs one certificate and is forgotten.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use rustls::pki_types::CertificateDer;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use super::tls::{self, Tls};
use crate::api;
use crate::certificates::renewal::{self, ENTRIES, NEXT_CERTIFICATE, Wanted, settle};
use crate::certificates::stored::{AUTHORITIES, CERTIFICATE, KEY, Stored};
use crate::certificates::{Identity, authority, identity};
use crate::error::Chain;
use crate::warn_first;
use crate::watch::is_forbidden;

/// Until the next look after a failure.
const PAUSE: Duration = Duration::from_secs(2);
/// Longest wait without a look: clocks jump, machines sleep.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

type Entries = BTreeMap<String, ByteString>;

/// Why the certificate is as it was.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// An object cannot be written.
    #[error("write {0}")]
    Write(String, #[source] api::Error),
    /// No certificate can be made.
    #[error("make a certificate")]
    Make(#[source] authority::Error),
    /// The Secret's certificate cannot be read.
    #[error("read the certificate's secret")]
    Read(#[source] identity::Error),
    /// It cannot be served.
    #[error("serve the certificate")]
    Serve(#[source] tls::Error),
}

/// The object from which clients take the authorities that they trust.
pub trait TrustBundle: Send + Sync + 'static {
    /// Its kind.
    type Object: kube::Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static;

    /// Returns how it is read.
    fn api(&self) -> Api<Self::Object>;

    /// Returns its name.
    fn name(&self) -> &str;

    /// Returns what each part of the object that clients read says, in PEM, and empty where it says nothing; no part where no client
    /// reads the object.
    fn parts<'o>(&self, object: Option<&'o Self::Object>) -> Vec<&'o [u8]>;

    /// Writes the authorities into every part.
    fn publish(
        &self,
        seen: Option<&Self::Object>,
        authorities: Vec<u8>,
    ) -> impl Future<Output = Result<Self::Object, kube::Error>> + Send;

    /// Receives after each step whether clients trust what is served; if not, what is wrong with the object.
    fn report_trust(&self, _trust: Result<(), &'static str>) {}
}

/// A Secret whose `ca.crt` clients trust.
pub struct AuthoritySecret {
    secrets: Api<Secret>,
    name: String,
    field_manager: &'static str,
}

/// Which certificate is kept, and where.
#[derive(Clone, Debug)]
pub struct Serving {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret with certificate and key.
    pub secret: String,
    /// The DNS names that clients use.
    pub names: Vec<String>,
    /// How long a certificate lives.
    pub lifetime: Duration,
    /// Whether somebody else writes the certificate: then nothing is written here.
    pub is_external: bool,
    /// Who writes, in `managedFields`.
    pub field_manager: &'static str,
}

/// Keeps the certificate.
pub struct Keeper<B: TrustBundle> {
    secrets: Api<Secret>,
    serving: Serving,
    bundle: B,
    certificate: Look<Secret>,
    published: Look<B::Object>,
    /// The authorities that every part of the bundle holds, and since when.
    trusted: Vec<(CertificateDer<'static>, Instant)>,
    /// What new connections get, and the authority that signed it.
    served: Option<(Identity, Option<CertificateDer<'static>>)>,
}

/// An object as last seen.
struct Look<K> {
    is_taken: bool,
    object: Option<K>,
}

impl<K> Look<K> {
    const NONE: Self = Self { is_taken: false, object: None };

    fn found(object: Option<K>) -> Self {
        Self { is_taken: true, object }
    }

    /// Takes over what a watch says. An error changes nothing: the watch resumes by itself.
    fn update(&mut self, event: Result<Option<K>, watcher::Error>, name: &str) {
        match event {
            Ok(object) => *self = Self::found(object),
            Err(error) if self.is_taken && !is_forbidden(&error) => {
                tracing::debug!(%error, "watch over {name} interrupted; resuming");
            }
            // Nothing may ever come: a right that is lacking, most of all, if only the one to watch what can be listed.
            Err(error) => tracing::warn!(error = %Chain(&error), "cannot watch {name}"),
        }
    }
}

impl<B: TrustBundle> Keeper<B> {
    /// Keeps the certificate of this Secret; clients look for its authorities in `bundle`.
    pub fn new(client: Client, serving: Serving, bundle: B) -> Self {
        let secrets = Api::namespaced(client, &serving.namespace);
        let (certificate, published) = (Look::NONE, Look::NONE);
        Self { secrets, serving, bundle, certificate, published, trusted: Vec::new(), served: None }
    }

    /// Sees to it, endlessly, that a certificate is served.
    pub async fn keep(mut self, tls: Arc<Tls>) {
        let (secret, bundle) = (self.serving.secret.clone(), self.bundle.name().to_owned());
        let mut certificates = pin!(watcher::watch_object(self.secrets.clone(), &secret).default_backoff());
        let mut published = pin!(watcher::watch_object(self.bundle.api(), &bundle).default_backoff());
        let mut due = SystemTime::UNIX_EPOCH;
        let mut is_failing = false;
        loop {
            let wait = due.duration_since(SystemTime::now()).unwrap_or(PAUSE).min(LONGEST_WAIT);
            tokio::select! {
                // The Secret first: another replica that published something wrote it to the Secret before.
                biased;
                Some(event) = certificates.next() => self.certificate.update(event, &secret),
                Some(event) = published.next() => self.published.update(event, &bundle),
                () = tokio::time::sleep(wait) => {}
            }
            if !self.certificate.is_taken || !self.published.is_taken {
                due = SystemTime::now() + LONGEST_WAIT;
                continue;
            }
            due = match self.step(&tls).await {
                Ok(next) => {
                    is_failing = false;
                    next
                }
                // The watch shows what it is now.
                Err(Error::Write(name, source)) if source.is_conflict() => {
                    tracing::debug!(object = name, "write conflict; reading the object again");
                    SystemTime::now() + PAUSE
                }
                Err(error) => {
                    let is_first = !mem::replace(&mut is_failing, true);
                    warn_first!(is_first, error = %Chain(&error), "the certificate that is served could not be looked after");
                    SystemTime::now() + PAUSE
                }
            };
            self.bundle.report_trust(self.trust());
        }
    }

    /// One look; returns when the next one is due.
    async fn step(&mut self, tls: &Tls) -> Result<SystemTime, Error> {
        if self.serving.is_external {
            if let Some(data) = self.certificate.object.as_ref().and_then(|secret| secret.data.as_ref()) {
                tls.serve(&identity_of(data)?).map_err(Error::Serve)?;
            }
            return Ok(SystemTime::now() + LONGEST_WAIT);
        }
        self.look();
        let data = self.certificate.object.as_ref().and_then(|secret| secret.data.as_ref());
        let live = data.map(|data| renewal::own(data, &ENTRIES)).unwrap_or_default();
        let now = SystemTime::now();
        let held = self.advance(&live, now)?;
        if held.entries != live {
            let Serving { secret, names, field_manager, .. } = &self.serving;
            let seen = self.certificate.object.as_ref();
            let written = apply(&self.secrets, secret, "kubernetes.io/tls", seen, &held.entries, field_manager).await;
            let written = written.map_err(|error| Error::Write(secret.clone(), error.into()))?;
            match Stored::read(&live, names, now) {
                Err(why) if !live.is_empty() => {
                    tracing::warn!(secret, error = %Chain(&why), "replaced the content of the Secret");
                }
                _ => tracing::info!(secret, "wrote the Secret"),
            }
            self.certificate = Look::found(Some(written));
        }
        let published = self.publish(&held.authorities).await;

        // Last: what is served is trusted already. It may be, also where the bundle cannot be written now.
        let is_served = self.serve(&held.entries, tls)?;
        published?;
        let soon = SystemTime::now() + settle(self.serving.lifetime) / 2;
        Ok(if is_served { held.due } else { held.due.min(soon) })
    }

    /// What the Secret is to hold. A staged certificate is promoted once its authority is settled.
    fn advance(&self, live: &Entries, now: SystemTime) -> Result<renewal::Held, Error> {
        // What is served now stays trusted, also where the Secret is lost. First what this process serves: only so many are kept.
        let served = self.served.iter().filter_map(|(_, authority)| authority.as_ref());
        let beside: Vec<_> = served.chain(self.trusted.iter().map(|(authority, _)| authority)).cloned().collect();
        let Serving { names, lifetime, .. } = &self.serving;
        let wanted = Wanted { names, lifetime: *lifetime, beside: &beside };
        let held = renewal::advance(Some(live), wanted, now, false).map_err(Error::Make)?;
        if !live.contains_key(NEXT_CERTIFICATE) {
            return Ok(held);
        }
        let settled = self.trusted_for(settle(*lifetime));
        let is_settled = identity::certificates(&held.authorities)
            .is_ok_and(|authorities| authorities.iter().all(|authority| settled.contains(authority)));
        if is_settled || self.is_nowhere() {
            return renewal::advance(Some(live), wanted, now, true).map_err(Error::Make);
        }
        Ok(held)
    }

    /// Gives clients these authorities, if somebody reads the bundle and they are not there.
    async fn publish(&mut self, authorities: &[u8]) -> Result<(), Error> {
        let seen = self.published.object.as_ref();
        if self.bundle.parts(seen).iter().all(|part| *part == authorities) {
            return Ok(());
        }
        let written = self.bundle.publish(seen, authorities.to_vec()).await;
        let written = written.map_err(|error| Error::Write(self.bundle.name().to_owned(), error.into()))?;
        tracing::info!(object = self.bundle.name(), "published the authorities");
        self.published = Look::found(Some(written));
        self.look();
        Ok(())
    }

    /// Serves the Secret's certificate, unless clients have to see its authority first; returns whether it is served.
    fn serve(&mut self, entries: &Entries, tls: &Tls) -> Result<bool, Error> {
        let identity = identity_of(entries)?;
        if self.served.as_ref().is_some_and(|(served, _)| served.is(&identity)) {
            return Ok(true);
        }
        // Who serves nothing yet has nothing to keep meanwhile.
        let wait = if self.served.is_some() { settle(self.serving.lifetime) } else { Duration::ZERO };
        if !self.is_nowhere() && !self.is_trusted(&identity, wait) {
            return Ok(false);
        }
        tls.serve(&identity).map_err(Error::Serve)?;
        tracing::info!(secret = self.serving.secret, "serving the certificate of the Secret");
        let authorities = entries.get(AUTHORITIES).and_then(|text| identity::certificates(&text.0).ok());
        self.served = Some((identity, authorities.and_then(|authorities| authorities.into_iter().next())));
        Ok(true)
    }

    /// Whether clients trust what is served.
    fn trust(&self) -> Result<(), &'static str> {
        match &self.served {
            _ if self.is_nowhere() => Err("does not exist, or has no entry of this program"),
            None => Err("is not compared before a certificate is served"),
            Some((identity, _)) if self.is_trusted(identity, Duration::ZERO) => Ok(()),
            Some(_) => Err("does not hold the authority of the certificate that is served"),
        }
    }

    /// Notes which authorities are in every part of the bundle.
    fn look(&mut self) {
        let parts = self.bundle.parts(self.published.object.as_ref());
        let parts: Vec<_> = parts.into_iter().map(|pem| identity::certificates(pem).unwrap_or_default()).collect();
        let everywhere = |authority: &&CertificateDer<'static>| parts.iter().all(|part| part.contains(authority));
        let since = |authority: &CertificateDer<'static>| {
            self.trusted.iter().find(|(known, _)| known == authority).map(|(_, since)| *since)
        };
        let trusted = parts.first().into_iter().flatten().filter(everywhere);
        self.trusted =
            trusted.map(|authority| (authority.clone(), since(authority).unwrap_or_else(Instant::now))).collect();
    }

    fn is_nowhere(&self) -> bool {
        self.bundle.parts(self.published.object.as_ref()).is_empty()
    }

    fn is_trusted(&self, identity: &Identity, for_at_least: Duration) -> bool {
        let name = self.serving.names.first().map(String::as_str).unwrap_or_default();
        identity.is_trusted(&self.trusted_for(for_at_least), name, SystemTime::now())
    }

    fn trusted_for(&self, at_least: Duration) -> Vec<CertificateDer<'static>> {
        let trusted = self.trusted.iter().filter(|(_, since)| since.elapsed() >= at_least);
        trusted.map(|(authority, _)| authority.clone()).collect()
    }
}

impl AuthoritySecret {
    /// The Secret of this name.
    pub fn new(client: Client, namespace: &str, name: String, field_manager: &'static str) -> Self {
        Self { secrets: Api::namespaced(client, namespace), name, field_manager }
    }
}

impl TrustBundle for AuthoritySecret {
    type Object = Secret;

    fn api(&self) -> Api<Secret> {
        self.secrets.clone()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn parts<'o>(&self, secret: Option<&'o Secret>) -> Vec<&'o [u8]> {
        let entry = secret.and_then(|secret| secret.data.as_ref()?.get(AUTHORITIES));
        vec![entry.map_or(&[][..], |entry| &entry.0)]
    }

    async fn publish(&self, seen: Option<&Secret>, authorities: Vec<u8>) -> Result<Secret, kube::Error> {
        let entries = BTreeMap::from([(AUTHORITIES.to_owned(), ByteString(authorities))]);
        apply(&self.secrets, &self.name, "Opaque", seen, &entries, self.field_manager).await
    }
}

/// Writes the entries, if the Secret is still the one that was looked at, or still none.
///
/// An apply, also for the first write: creating by apply can be granted for one name, creating by POST cannot.
async fn apply(
    secrets: &Api<Secret>,
    name: &str,
    type_: &str,
    seen: Option<&Secret>,
    entries: &Entries,
    field_manager: &str,
) -> Result<Secret, kube::Error> {
    // The type of a Secret never changes.
    let type_ = seen.and_then(|secret| secret.type_.as_deref()).unwrap_or(type_);
    // A first apply with the version 1, which no object has, creates or conflicts: it replaces nothing.
    let version = seen.map_or_else(|| Some("1".to_owned()), Secret::resource_version);
    let body = json!({"apiVersion": "v1", "kind": "Secret", "type": type_, "data": entries,
                      "metadata": {"name": name, "resourceVersion": version}});
    secrets.patch(name, &PatchParams::apply(field_manager).force(), &Patch::Apply(body)).await
}

fn identity_of(entries: &Entries) -> Result<Identity, Error> {
    let entry = |key| entries.get(key).map_or(&[][..], |value: &ByteString| &value.0);
    Identity::from_pem(entry(CERTIFICATE), entry(KEY)).map_err(Error::Read)
}

#[cfg(test)]
mod tests;
