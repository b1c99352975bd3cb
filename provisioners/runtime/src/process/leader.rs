//! Leader election by a Lease: of several replicas one writes.
//!
//! A candidate watches the Lease, so that a released one is taken at once; it does not poll. The leader renews it, and
//! has lost it when that did not work for the renew deadline, which is shorter than what the Lease promises to others.
//! Every write of the Lease names the version that was seen: of two writers one fails.
//!
//! The leader counts from when it *sent* the last renewal that was answered; others count, from when they *saw* it, the
//! whole duration, which is written rounded up. So what is between deadline and duration is the leader's time to stop,
//! whatever the clocks show. Both count by a monotonic clock, which goes on while a process stands still: one that was
//! paused finds out before it renews.

mod lease;
mod pod;

use std::future::Future;
use std::mem;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use rukpak_crds::names::FIELD_MANAGER;
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};

use self::lease::Holder;
pub use self::pod::{TRUE, label};
use crate::api;
use crate::args::LeaderElection;
use crate::error::Chain;
use crate::warn_first;

/// Where a Pod is told its name (by the downward API, in the manifests).
const POD_NAME: &str = "POD_NAME";
/// Longest wait for the Lease to be given back at the end.
const RELEASE_DEADLINE: Duration = Duration::from_secs(2);

/// Why this process cannot be a candidate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no name to write into the Lease.
    #[error("cannot find a name for leader election: set {POD_NAME} to the name of the Pod")]
    Identity(#[source] std::io::Error),
}

/// Why this process leads no more.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// Another process, of this name, has the Lease.
    #[error("{0} took the Lease over")]
    TakenOver(String),
    /// The API server did not take a renewal in time.
    #[error("the Lease could not be renewed for {0:?}, two thirds of --leader-elect-lease-duration")]
    Expired(Duration, #[source] Option<api::Error>),
}

/// A process that would lead.
pub struct Candidate {
    api: Api<Lease>,
    /// Name of the Lease.
    lease: String,
    identity: String,
    times: LeaderElection,
}

/// A process that leads.
pub struct Leader {
    candidate: Candidate,
    /// As last written.
    lease: Lease,
    /// When the last request that renewed it was sent.
    renewed: Instant,
}

/// The Lease as a candidate sees it.
struct Seen {
    /// Whether it has been looked at.
    known: bool,
    /// The Lease, if there is one.
    lease: Option<Lease>,
    /// Since when its holder has said nothing.
    since: Instant,
    /// No attempt before.
    not_before: Instant,
}

/// The name of this process: that of its Pod; where it is not told that, of the host and the process, so that two on one host are two.
pub(crate) fn identity() -> std::io::Result<String> {
    if let Some(name) = std::env::var(POD_NAME).ok().filter(|name| !name.is_empty()) {
        return Ok(name);
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    Ok(format!("{}_{}", host.trim(), std::process::id()))
}

impl Candidate {
    /// Named as this process.
    pub(crate) fn new(client: Client, namespace: &str, lease: &str, times: LeaderElection) -> Result<Self, Error> {
        let identity = identity().map_err(Error::Identity)?;
        Ok(Self::named(identity, client, (namespace, lease), times))
    }

    /// A process of that name. The Lease is given by namespace and name.
    pub fn named(identity: String, client: Client, (namespace, lease): (&str, &str), times: LeaderElection) -> Self {
        Self { api: Api::namespaced(client, namespace), lease: lease.to_owned(), identity, times }
    }

    /// Waits until this process leads.
    pub async fn elected(self) -> Leader {
        tracing::info!(identity = self.identity, lease = self.lease, "waiting to become leader");
        let mut changes = pin!(watcher::watch_object(self.api.clone(), &self.lease).default_backoff());
        let now = Instant::now();
        let mut seen = Seen { known: false, lease: None, since: now, not_before: now };
        let mut is_failing = false;
        loop {
            let turn = self.turn(&seen);
            tokio::select! {
                Some(change) = changes.next() => match change {
                    Ok(lease) => {
                        is_failing = false;
                        seen.update(lease);
                    }
                    Err(error) => {
                        let is_first = !mem::replace(&mut is_failing, true);
                        warn_first!(is_first, error = %Chain(&error), "cannot watch the Lease {}", self.lease);
                    }
                },
                () = sleep_until(turn.unwrap_or(now)), if turn.is_some() => {
                    let sent = Instant::now();
                    // An answer that comes later than that is of a Lease that may have run out meanwhile.
                    let within = self.times.renew_deadline() / 2;
                    match answered(within, self.write(seen.lease.as_ref())).await {
                        Ok(lease) => {
                            tracing::info!(identity = self.identity, "leading");
                            return Leader { candidate: self, lease, renewed: sent };
                        }
                        Err(error) if error.is_conflict() => {
                            tracing::debug!("another process took the Lease first");
                        }
                        Err(error) => {
                            let is_first = !mem::replace(&mut is_failing, true);
                            warn_first!(is_first, error = %Chain(&error), "cannot take the Lease {}", self.lease);
                        }
                    }
                    seen.not_before = Instant::now() + self.times.retry_period();
                }
            }
        }
    }

    /// When to try; `None` before the Lease has been looked at.
    fn turn(&self, seen: &Seen) -> Option<Instant> {
        let unchanged = seen.since.elapsed();
        let wait = lease::free_in(seen.lease.as_ref(), &self.identity, unchanged, self.times.lease_duration);
        seen.known.then(|| (Instant::now() + wait).max(seen.not_before))
    }

    /// Takes or renews the Lease that looked like `before`.
    async fn write(&self, before: Option<&Lease>) -> Result<Lease, api::Error> {
        let spec = lease::held(before, &self.identity, self.times.lease_duration, Timestamp::now());
        let Some(before) = before else {
            let metadata = ObjectMeta { name: Some(self.lease.clone()), ..ObjectMeta::default() };
            let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            return Ok(self.api.create(&params, &Lease { metadata, spec: Some(spec) }).await?);
        };
        self.replace(before, &spec).await
    }

    async fn replace(&self, before: &Lease, spec: &LeaseSpec) -> Result<Lease, api::Error> {
        let version = &before.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": spec});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        Ok(self.api.patch(&self.lease, &params, &Patch::Merge(patch)).await?)
    }
}

impl Leader {
    /// Renews the Lease until that fails for good; says why.
    pub async fn keep(&mut self) -> Lost {
        let deadline = self.candidate.times.renew_deadline();
        let mut last = None;
        loop {
            tokio::time::sleep(self.candidate.times.retry_period().min(self.left(deadline))).await;
            // Also after a stop of the whole process: what it does not know it must not assume.
            if self.left(deadline).is_zero() {
                return Lost::Expired(deadline, last);
            }
            match answered(self.left(deadline).min(deadline / 2), self.renew()).await {
                Ok(None) => last = None,
                Ok(Some(holder)) => return Lost::TakenOver(holder),
                Err(error) => {
                    let is_first = last.is_none();
                    warn_first!(is_first, error = %Chain(&error), "cannot renew the Lease {}", self.candidate.lease);
                    last = Some(error);
                }
            }
        }
    }

    /// How long nobody else leads, now that this process does not.
    pub fn time_to_stop(&self, lost: &Lost) -> Duration {
        match lost {
            Lost::TakenOver(_) => Duration::ZERO,
            Lost::Expired(..) => self.left(self.candidate.times.lease_duration),
        }
    }

    fn left(&self, term: Duration) -> Duration {
        left(term, self.renewed, Instant::now())
    }

    /// Renews the Lease, or returns who has it.
    async fn renew(&mut self) -> Result<Option<String>, api::Error> {
        let sent = Instant::now();
        self.lease = match self.candidate.write(Some(&self.lease)).await {
            Ok(lease) => lease,
            // Somebody wrote to it or deleted it: ours still, unless it names another.
            Err(error) if error.is_conflict() || error.is_not_found() => {
                let found = self.candidate.api.get_opt(&self.candidate.lease).await?;
                if let Holder::Other(name) = lease::holder(found.as_ref(), &self.candidate.identity) {
                    return Ok(Some(name.to_owned()));
                }
                self.candidate.write(found.as_ref()).await?
            }
            Err(error) => return Err(error),
        };
        self.renewed = sent;
        Ok(None)
    }

    /// Lets another replica take over now. Nothing may be written any more.
    pub(crate) async fn release(self) {
        let lease = self.candidate.lease.clone();
        match timeout(RELEASE_DEADLINE, self.give_back()).await {
            Ok(Ok(())) => tracing::info!("released the Lease {lease}"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot release the Lease {lease}; it expires"),
            Err(_) => tracing::warn!("cannot release the Lease {lease} in time; it expires"),
        }
    }

    async fn give_back(&self) -> Result<(), api::Error> {
        // Not the version that was written last: a renewal may have been under way when the end came.
        let Some(lease) = self.candidate.api.get_opt(&self.candidate.lease).await? else { return Ok(()) };
        if lease::holder(Some(&lease), &self.candidate.identity) == Holder::Us {
            self.candidate.replace(&lease, &lease::released(&lease, Timestamp::now())).await?;
        }
        Ok(())
    }
}

impl Seen {
    fn update(&mut self, lease: Option<Lease>) {
        if !self.known || !lease::is_unchanged(self.lease.as_ref(), lease.as_ref()) {
            self.since = Instant::now();
            self.not_before = self.since;
        }
        (self.known, self.lease) = (true, lease);
    }
}

/// What comes of a request, which is given up after a while.
async fn answered<T>(within: Duration, request: impl Future<Output = Result<T, api::Error>>) -> Result<T, api::Error> {
    timeout(within, request).await.unwrap_or(Err(api::Error::TimedOut(within)))
}

/// What is left at `now` of a term that began with the request that renewed the Lease.
fn left(term: Duration, renewed: Instant, now: Instant) -> Duration {
    term.saturating_sub(now.saturating_duration_since(renewed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_to_stop_in_the_time_between_its_deadline_and_the_end_of_its_lease() {
        let (deadline, duration) = (Duration::from_secs(10), Duration::from_secs(15));
        let renewed = Instant::now();
        let left_after = |seconds, term| left(term, renewed, renewed + Duration::from_secs(seconds)).as_secs();
        assert_eq!((left_after(9, deadline), left_after(9, duration)), (1, 6), "it leads");
        assert_eq!((left_after(10, deadline), left_after(10, duration)), (0, 5), "it has to stop");
        assert_eq!((left_after(60, deadline), left_after(60, duration)), (0, 0), "it stood still: another may lead");
    }

    #[test]
    fn a_repeated_sight_is_no_sign_of_life() {
        let before = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
        let mut seen = Seen { known: false, lease: None, since: before, not_before: before };
        seen.update(None);
        let first = seen.since;
        assert!(first > before);
        seen.update(None);
        assert_eq!(seen.since, first, "the watch began anew");
        let spec = lease::held(None, "a", Duration::from_secs(15), Timestamp::now());
        seen.update(Some(Lease { spec: Some(spec), ..Lease::default() }));
        assert!(seen.since > first);
    }
}
