//! Who may fetch now. Servers are slow or do not answer, on purpose too; a part of the permits is out of reach of any one host,
//! so that who fetches from elsewhere need not wait for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rukpak_crds::validate::Source;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits that no host gets, if there are enough.
const RESERVED: usize = 2;

/// Bounds how many sources are fetched at once, in all and from one host.
pub struct Fetches {
    all: Arc<Semaphore>,
    per_host: usize,
    hosts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// Dropped, it lets the next one fetch.
pub struct Permit {
    _all: OwnedSemaphorePermit,
    _host: Option<OwnedSemaphorePermit>,
}

impl Fetches {
    /// `count` at once, of those `count - 2` from one host, and at least one.
    pub fn new(count: usize) -> Self {
        let per_host = count.saturating_sub(RESERVED).max(1);
        Self { all: Arc::new(Semaphore::new(count)), per_host, hosts: Mutex::default() }
    }

    /// A permit, if it is to be had now.
    pub fn try_acquire(&self, host: Option<&str>) -> Option<Permit> {
        let host = match host {
            Some(host) => Some(self.host(host).try_acquire_owned().ok()?),
            None => None,
        };
        Some(Permit { _all: Arc::clone(&self.all).try_acquire_owned().ok()?, _host: host })
    }

    /// A permit, after those who asked before. Who waits for its host does not stand in the way of other hosts.
    pub async fn acquire(&self, host: Option<&str>) -> Option<Permit> {
        let host = match host {
            Some(host) => Some(self.host(host).acquire_owned().await.ok()?),
            None => None,
        };
        // The semaphores are never closed.
        Some(Permit { _all: Arc::clone(&self.all).acquire_owned().await.ok()?, _host: host })
    }

    fn host(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hosts.get(host) {
            return Arc::clone(known);
        }
        // Permits and who waits for one hold on to theirs.
        hosts.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let semaphore = Arc::new(Semaphore::new(self.per_host));
        hosts.insert(host.to_owned(), Arc::clone(&semaphore));
        semaphore
    }
}

/// The host that a source is fetched from; `None` where nothing is fetched. Ports make no difference: a host has many.
pub fn host(source: &Source) -> Option<String> {
    let host = match source {
        Source::Image { reference, .. } => registry(reference),
        Source::Git { repository: url, .. } | Source::Http { url, .. } => server(url),
        Source::ConfigMaps(_) | Source::Upload => return None,
    };
    Some(host.to_ascii_lowercase())
}

/// The registry of an image reference. A first part without a dot or a port is no host.
fn registry(reference: &str) -> &str {
    match reference.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => without_port(first),
        _ => "docker.io",
    }
}

/// Of a URL, or of `user@host:path`. Only who shares permits depends on it, so an odd address is as good as another.
fn server(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    without_port(authority.rsplit_once('@').map_or(authority, |(_, host)| host))
}

fn without_port(authority: &str) -> &str {
    match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split(':').next().unwrap_or(authority),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_permits_are_out_of_reach_of_one_host() {
        let fetches = Fetches::new(8);
        let slow: Vec<Permit> = std::iter::from_fn(|| fetches.try_acquire(Some("slow"))).collect();
        assert_eq!(slow.len(), 6);
        let other = (fetches.try_acquire(Some("other")).unwrap(), fetches.try_acquire(None).unwrap());
        assert!(fetches.try_acquire(Some("third")).is_none(), "eight in all");
        drop(other);
        assert!(fetches.try_acquire(Some("slow")).is_none() && fetches.try_acquire(Some("third")).is_some());
    }

    #[test]
    fn there_is_always_one() {
        for count in 1..=3 {
            let fetches = Fetches::new(count);
            let permits: Vec<Permit> = std::iter::from_fn(|| fetches.try_acquire(Some("h"))).collect();
            assert_eq!(permits.len(), 1, "of {count}");
        }
    }

    #[tokio::test]
    async fn who_waits_for_a_host_is_next_and_in_nobodys_way() {
        let fetches = Fetches::new(3);
        let first = fetches.try_acquire(Some("slow")).unwrap();
        let mut next = std::pin::pin!(fetches.acquire(Some("slow")));
        assert!(futures::poll!(next.as_mut()).is_pending());
        assert!(fetches.try_acquire(Some("other")).is_some());
        drop(first);
        assert!(next.await.is_some());
    }

    #[test]
    fn hosts_are_forgotten_with_their_last_permit() {
        let fetches = Fetches::new(4);
        drop(fetches.try_acquire(Some("a")));
        let _held = fetches.try_acquire(Some("b"));
        drop(fetches.try_acquire(Some("c")));
        let mut known: Vec<String> = fetches.hosts.lock().unwrap().keys().cloned().collect();
        known.sort();
        assert_eq!(known, ["b", "c"]);
    }

    #[test]
    fn hosts_of_sources() {
        let table = [
            ("alpine", "docker.io"),
            ("library/alpine:3", "docker.io"),
            ("Registry.example:5000/a/b@sha256:00", "registry.example"),
            ("localhost/a", "localhost"),
            ("[::1]:5000/a", "::1"),
        ];
        for (reference, expected) in table {
            let source = Source::Image { reference: reference.to_owned(), pull_secret: None };
            assert_eq!(host(&source).as_deref(), Some(expected), "{reference}");
        }
        for (address, expected) in [
            ("https://u:p@H.example:8443/r?x@y", "h.example"),
            ("git@h.example:o/r.git", "h.example"),
            ("ssh://git@[::1]:22/r", "::1"),
            ("http://h", "h"),
        ] {
            assert_eq!(server(address).to_ascii_lowercase(), expected, "{address}");
        }
    }
}
