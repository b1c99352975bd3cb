//! Keeps the self-made certificate: watches the Secret and the webhook configuration, and takes step after step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use rukpak_certificates::{Identity, Stored, Unusable};
use rukpak_runtime::error::Chain;
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Installed;
use super::rotation::{IssueReason, Policy, Published, Step, View, next_step};
use crate::health::Trust;

mod cluster;

use cluster::{Cluster, Error};

/// First wait after a write that failed; doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(200);
/// Longest wait after a write that failed.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Its settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the Secret is.
    pub namespace: String,
    /// Its name.
    pub secret: String,
    /// The name of the webhook configuration.
    pub configuration: String,
    /// The names the certificate is for.
    pub names: Vec<String>,
    /// How long a certificate lives.
    pub lifetime: Duration,
}

/// Keeps the certificate served and trusted.
pub struct CertificateManager {
    cluster: Cluster,
    settings: Settings,
    installed: Arc<Installed>,
    seen: Seen,
    serving: Option<Identity>,
    /// The authority that signed it.
    authority: Option<CertificateDer<'static>>,
    /// Since when the configuration has held this bundle.
    current: Option<(Vec<u8>, Instant)>,
    retry: Duration,
}

/// The two objects as last seen.
struct Seen {
    secret: Lookup<Secret>,
    configuration: Lookup<ValidatingWebhookConfiguration>,
}

/// An object in the cluster.
enum Lookup<K> {
    /// Not looked yet.
    Unknown,
    /// There is none.
    Absent,
    /// It was this.
    Present(K),
}

impl CertificateManager {
    /// A manager that has read nothing yet.
    pub fn new(client: Client, settings: Settings, installed: Arc<Installed>) -> Self {
        let cluster = Cluster::new(client, &settings);
        let seen = Seen { secret: Lookup::Unknown, configuration: Lookup::Unknown };
        Self { cluster, settings, installed, seen, serving: None, authority: None, current: None, retry: RETRY_MIN }
    }

    /// Runs until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut secrets = watch(self.cluster.secrets.clone(), &self.settings.secret);
        let mut configurations = watch(self.cluster.configurations.clone(), &self.settings.configuration);
        loop {
            let wake = Instant::now() + self.advance().await;
            tokio::select! {
                () = stop.cancelled() => return,
                Some(seen) = secrets.next() => self.seen.secret.update(seen, "the Secret"),
                Some(seen) = configurations.next() => {
                    self.seen.configuration.update(seen, "the webhook configuration");
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Takes steps until one is to wait; says how long.
    async fn advance(&mut self) -> Duration {
        loop {
            if !self.seen.secret.is_known() || !self.seen.configuration.is_known() {
                return RETRY_MAX;
            }
            let now = SystemTime::now();
            let stored = read(self.seen.secret.object(), &self.settings.names, now);
            let published = self.published(stored.as_ref().ok());
            self.report_trust(stored.as_ref(), published);
            let view = View { stored: stored.as_ref(), published, serving: self.serving.as_ref(), now };
            let step = next_step(view, Policy::for_lifetime(self.settings.lifetime));
            match self.take(step, stored, now).await {
                Ok(None) => self.retry = RETRY_MIN,
                Ok(Some(wait)) => return wait,
                Err(error) => return self.failed(&error),
            }
        }
    }

    async fn take(
        &mut self,
        step: Step,
        stored: Result<Stored, Unusable>,
        now: SystemTime,
    ) -> Result<Option<Duration>, Error> {
        match (step, stored) {
            (Step::Wait(wait), _) => return Ok(Some(wait)),
            (Step::Issue(because), stored) => self.issue(because, stored, now).await?,
            (Step::Prune, Ok(stored)) => {
                let secret = self.seen.secret.object();
                self.seen.secret = Lookup::Present(self.cluster.write_secret(secret, stored.pruned()).await?);
                tracing::info!(secret = self.settings.secret, "dropped the authority before the current one");
            }
            (Step::Publish, Ok(stored)) => {
                if let Some(configuration) = self.seen.configuration.object() {
                    let written = self.cluster.publish(configuration, stored.bundle()).await?;
                    tracing::info!(configuration = self.settings.configuration, "wrote caBundle");
                    self.seen.configuration = Lookup::Present(written);
                }
            }
            (Step::Serve, Ok(stored)) => {
                self.installed.install(stored.identity());
                tracing::info!(secret = self.settings.secret, "serving the certificate of the Secret");
                self.serving = Some(stored.identity().clone());
                self.authority = stored.authorities().first().cloned();
            }
            // Only a usable Secret asks for these.
            (Step::Prune | Step::Publish | Step::Serve, Err(_)) => {}
        }
        Ok(None)
    }

    async fn issue(
        &mut self,
        because: IssueReason,
        stored: Result<Stored, Unusable>,
        now: SystemTime,
    ) -> Result<(), Error> {
        let known = match &stored {
            Ok(stored) => stored.authorities().to_vec(),
            // What other replicas serve until the new certificate is trusted must stay trusted.
            Err(_) => cluster::trusted(self.seen.configuration.object()),
        };
        // Only so many are kept, and what we serve ourselves comes first.
        let mut beside: Vec<_> = self.authority.iter().cloned().collect();
        beside.extend(known.into_iter().filter(|authority| Some(authority) != self.authority.as_ref()));
        let secret = self.seen.secret.object();
        let written = self.cluster.issue(secret, &self.settings, &beside, now).await?;
        self.seen.secret = Lookup::Present(written);
        match &stored {
            Err(why) if !matches!(why, Unusable::Absent) => {
                tracing::warn!(secret = self.settings.secret, error = %Chain(why), "replaced the content of the Secret");
            }
            _ => tracing::info!(secret = self.settings.secret, ?because, "wrote a new certificate to the Secret"),
        }
        Ok(())
    }

    fn published(&mut self, stored: Option<&Stored>) -> Published {
        let bundles = self.seen.configuration.object().map(cluster::bundles);
        let bundles = bundles.unwrap_or_default();
        if bundles.is_empty() {
            self.current = None;
            return Published::Nowhere;
        }
        let Some(wanted) = stored.map(Stored::bundle).filter(|wanted| bundles.iter().all(|bundle| bundle == wanted))
        else {
            self.current = None;
            return Published::Stale;
        };
        let same = self.current.take().filter(|(bundle, _)| bundle == wanted);
        let (_, since) = self.current.insert(same.unwrap_or_else(|| (wanted.to_vec(), Instant::now())));
        Published::Current { since: since.elapsed() }
    }

    /// Ready means: the API server trusts what is served, not what is stored.
    fn report_trust(&self, stored: Result<&Stored, &Unusable>, published: Published) {
        let missing = |why: &str| Trust::Missing(format!("{} {why}", self.settings.configuration));
        let trust = match (published, &self.serving, stored) {
            (Published::Nowhere, _, _) => missing("does not exist, or names no webhook of this process"),
            (_, None, _) => missing("is not checked before a certificate is served"),
            (Published::Current { .. }, Some(serving), Ok(stored)) => {
                let name = self.settings.names.first().map(String::as_str).unwrap_or_default();
                if serving.is_trusted(stored.authorities(), name, SystemTime::now()) {
                    Trust::Established
                } else {
                    missing("holds another authority than that of the certificate served")
                }
            }
            (Published::Current { .. } | Published::Stale, Some(_), _) => missing("holds an outdated caBundle"),
        };
        self.installed.readiness.trust(trust);
    }

    fn failed(&mut self, error: &Error) -> Duration {
        if error.is_conflict() {
            tracing::debug!("write conflict with another replica; reading again");
        } else {
            tracing::warn!(error = %Chain(error), retry_milliseconds = self.retry.as_millis(), "cannot renew the certificate; will retry");
        }
        let wait = self.retry;
        self.retry = (self.retry * 2).min(RETRY_MAX);
        wait
    }
}

fn read(secret: Option<&Secret>, names: &[String], now: SystemTime) -> Result<Stored, Unusable> {
    let secret = secret.ok_or(Unusable::Absent)?;
    let empty = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&empty);
    Stored::read(data, names, now)
}

impl<K> Lookup<K> {
    fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    fn object(&self) -> Option<&K> {
        match self {
            Self::Present(object) => Some(object),
            Self::Unknown | Self::Absent => None,
        }
    }

    /// Takes over what a watch says; an error changes nothing, the watch comes back by itself.
    fn update(&mut self, seen: Result<Option<K>, watcher::Error>, what: &str) {
        match seen {
            Ok(Some(object)) => *self = Self::Present(object),
            Ok(None) => *self = Self::Absent,
            Err(error) => tracing::warn!(error = %Chain(&error), "cannot watch {what}"),
        }
    }
}

fn watch<K>(api: Api<K>, name: &str) -> BoxStream<'static, Result<Option<K>, watcher::Error>>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    watcher::watch_object(api, name).default_backoff().boxed()
}
