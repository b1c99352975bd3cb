//! Who may fetch now. Servers are slow or do not answer, on purpose too: a part of the permits is out of reach of any one host
//! and of any one owner, and permits that come free are handed out to the owners in turn.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use rukpak_crds::validate::Source;
use rukpak_runtime::lock::lock;
use tokio::sync::oneshot;

/// Permits that no host gets, if there are enough.
const NOT_OF_A_HOST: usize = 2;
/// Permits that no owner gets, however many hosts it names.
const NOT_OF_AN_OWNER: usize = 1;

/// Bounds how many sources are fetched at once: in all, from one host, and for one owner.
pub struct Fetches {
    shared: Arc<Shared>,
}

/// Who wants to fetch, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whom the source belongs to: a tenant, or a BundleDeployment.
    pub owner: String,
    /// The host that is asked, if one is.
    pub host: Option<String>,
}

/// Dropped, it lets the next one fetch.
pub struct Permit {
    claim: Claim,
    shared: Arc<Shared>,
}

struct Shared {
    per_host: usize,
    per_owner: usize,
    state: Mutex<State>,
}

struct State {
    free: usize,
    /// Permits that are out, by host. None has zero.
    hosts: HashMap<String, usize>,
    /// The same by owner.
    owners: HashMap<String, usize>,
    /// Owners that wait, in the order of their turns, each with those of its claims that wait. None is empty.
    waiting: VecDeque<(String, VecDeque<Waiter>)>,
}

struct Waiter {
    claim: Claim,
    permit: oneshot::Sender<Permit>,
}

impl Fetches {
    /// `count` at once, of those `count - 2` from one host and `count - 1` for one owner, and at least one.
    pub fn new(count: usize) -> Self {
        let most = |others: usize| count.saturating_sub(others).max(1);
        let state = State { free: count, hosts: HashMap::new(), owners: HashMap::new(), waiting: VecDeque::new() };
        let (per_host, per_owner) = (most(NOT_OF_A_HOST), most(NOT_OF_AN_OWNER));
        Self { shared: Arc::new(Shared { per_host, per_owner, state: Mutex::new(state) }) }
    }

    /// A permit, if it is to be had now.
    pub fn try_acquire(&self, claim: &Claim) -> Option<Permit> {
        // Who waits does so for its own host or owner, or there is nothing free: nobody is passed by.
        lock(&self.shared.state).take(claim, &self.shared).then(|| Permit::new(claim, &self.shared))
    }

    /// A permit, when it is the owner's turn. Who waits for its host or its owner stands in nobody's way.
    pub async fn acquire(&self, claim: &Claim) -> Option<Permit> {
        let granted = {
            let mut state = lock(&self.shared.state);
            if state.take(claim, &self.shared) {
                drop(state);
                return Some(Permit::new(claim, &self.shared));
            }
            let (permit, granted) = oneshot::channel();
            state.wait(Waiter { claim: claim.clone(), permit });
            granted
        };
        // The sender is dropped with its permit alone.
        granted.await.ok()
    }
}

impl Permit {
    fn new(claim: &Claim, shared: &Arc<Shared>) -> Self {
        Self { claim: claim.clone(), shared: Arc::clone(shared) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let next: Vec<Waiter> = {
            let mut state = lock(&self.shared.state);
            state.give_back(&self.claim);
            std::iter::from_fn(|| state.next(&self.shared)).collect()
        };
        for Waiter { claim, permit } in next {
            // Whoever has given up waiting drops it, which lets the one behind have it.
            let _ = permit.send(Permit::new(&claim, &self.shared));
        }
    }
}

impl State {
    /// Takes a permit for the claim, if there is one for it.
    fn take(&mut self, claim: &Claim, bounds: &Shared) -> bool {
        if !self.has_one_for(claim, bounds) {
            return false;
        }
        self.free -= 1;
        *self.owners.entry(claim.owner.clone()).or_default() += 1;
        if let Some(host) = &claim.host {
            *self.hosts.entry(host.clone()).or_default() += 1;
        }
        true
    }

    fn has_one_for(&self, claim: &Claim, bounds: &Shared) -> bool {
        let held = |of: &HashMap<String, usize>, name: &str| of.get(name).copied().unwrap_or_default();
        let is_free_at_host = claim.host.as_ref().is_none_or(|host| held(&self.hosts, host) < bounds.per_host);
        self.free > 0 && is_free_at_host && held(&self.owners, &claim.owner) < bounds.per_owner
    }

    fn give_back(&mut self, claim: &Claim) {
        self.free += 1;
        one_less(&mut self.owners, &claim.owner);
        if let Some(host) = &claim.host {
            one_less(&mut self.hosts, host);
        }
    }

    fn wait(&mut self, waiter: Waiter) {
        match self.waiting.iter_mut().find(|(owner, _)| *owner == waiter.claim.owner) {
            Some((_, waiters)) => waiters.push_back(waiter),
            None => self.waiting.push_back((waiter.claim.owner.clone(), [waiter].into())),
        }
    }

    /// Takes a permit for the first owner in turn that can have one, and puts that owner behind the others.
    fn next(&mut self, bounds: &Shared) -> Option<Waiter> {
        let can = |state: &Self, waiter: &Waiter| state.has_one_for(&waiter.claim, bounds);
        let turn = self.waiting.iter().position(|(_, waiters)| waiters.iter().any(|waiter| can(self, waiter)))?;
        let at = self.waiting[turn].1.iter().position(|waiter| can(self, waiter))?;

        let (owner, mut waiters) = self.waiting.remove(turn)?;
        let waiter = waiters.remove(at)?;
        if !waiters.is_empty() {
            self.waiting.push_back((owner, waiters));
        }
        self.take(&waiter.claim, bounds);
        Some(waiter)
    }
}

/// Takes one off a count, and forgets a count of none.
fn one_less(counts: &mut HashMap<String, usize>, name: &str) {
    if let Some(count) = counts.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            counts.remove(name);
        }
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

    fn claim(owner: &str, host: &str) -> Claim {
        Claim { owner: owner.to_owned(), host: Some(host.to_owned()).filter(|host| !host.is_empty()) }
    }

    /// All permits that the claims of one owner get, its hosts in turn.
    fn all_of(fetches: &Fetches, owner: &str, hosts: &[&str]) -> Vec<Permit> {
        let each = hosts.iter().cycle().take(hosts.len() * 20);
        each.filter_map(|host| fetches.try_acquire(&claim(owner, host))).collect()
    }

    #[test]
    fn two_permits_are_out_of_reach_of_one_host() {
        let fetches = Fetches::new(8);
        let slow = all_of(&fetches, "a", &["slow"]);
        assert_eq!(slow.len(), 6);
        let other = (fetches.try_acquire(&claim("b", "other")).unwrap(), fetches.try_acquire(&claim("b", "")).unwrap());
        assert!(fetches.try_acquire(&claim("c", "third")).is_none(), "eight in all");
        drop(other);
        assert!(fetches.try_acquire(&claim("b", "slow")).is_none());
        assert!(fetches.try_acquire(&claim("b", "third")).is_some());
    }

    #[test]
    fn one_permit_is_out_of_reach_of_one_owner_however_many_hosts_it_names() {
        let fetches = Fetches::new(8);
        let slow = all_of(&fetches, "eve", &["a.example", "b.example", "127.0.0.1", "localhost"]);
        assert_eq!(slow.len(), 7);
        assert!(fetches.try_acquire(&claim("shop", "registry.example")).is_some());
    }

    #[test]
    fn there_is_always_one() {
        for count in 1..=3 {
            let fetches = Fetches::new(count);
            assert_eq!(all_of(&fetches, "a", &["h"]).len(), 1, "of {count}");
        }
    }

    #[tokio::test]
    async fn who_waits_for_a_host_is_next_and_in_nobodys_way() {
        let fetches = Fetches::new(3);
        let first = fetches.try_acquire(&claim("a", "slow")).unwrap();
        let wanted = claim("a", "slow");
        let mut next = std::pin::pin!(fetches.acquire(&wanted));
        assert!(futures::poll!(next.as_mut()).is_pending());
        assert!(fetches.try_acquire(&claim("a", "other")).is_some());
        drop(first);
        assert!(next.await.is_some());
    }

    #[tokio::test]
    async fn owners_have_their_turns_however_many_wait_before_them() {
        let fetches = Fetches::new(2);
        let held =
            [fetches.try_acquire(&claim("eve", "e1")).unwrap(), fetches.try_acquire(&claim("bob", "b1")).unwrap()];
        let of_eve: Vec<Claim> = (0..5).map(|at| claim("eve", &format!("e{at}"))).collect();
        let mut flood: Vec<_> = of_eve.iter().map(|claim| Box::pin(fetches.acquire(claim))).collect();
        for waiting in &mut flood {
            assert!(futures::poll!(waiting.as_mut()).is_pending());
        }
        let wanted = claim("shop", "s");
        let mut shop = std::pin::pin!(fetches.acquire(&wanted));
        assert!(futures::poll!(shop.as_mut()).is_pending());

        let [of_eve, of_bob] = held;
        drop(of_bob);
        // Eve has one out already, of two that there are.
        assert!(matches!(futures::poll!(shop.as_mut()), std::task::Poll::Ready(Some(_))), "before eve's second");
        drop(of_eve);
        assert!(matches!(futures::poll!(flood[0].as_mut()), std::task::Poll::Ready(Some(_))));
    }

    #[tokio::test]
    async fn a_permit_of_somebody_who_has_given_up_goes_to_the_next() {
        let fetches = Fetches::new(1);
        let held = fetches.try_acquire(&claim("a", "h")).unwrap();
        let (first, second) = (claim("b", "h"), claim("c", "h"));
        let mut gone = Box::pin(fetches.acquire(&first));
        let mut next = std::pin::pin!(fetches.acquire(&second));
        assert!(futures::poll!(gone.as_mut()).is_pending() && futures::poll!(next.as_mut()).is_pending());
        drop(gone);
        drop(held);
        assert!(matches!(futures::poll!(next.as_mut()), std::task::Poll::Ready(Some(_))));
    }

    #[test]
    fn hosts_and_owners_are_forgotten_with_their_last_permit() {
        let fetches = Fetches::new(4);
        drop(fetches.try_acquire(&claim("x", "a")));
        let _held = fetches.try_acquire(&claim("y", "b"));
        let state = lock(&fetches.shared.state);
        assert_eq!((state.hosts.len(), state.owners.len(), state.free), (1, 1, 3));
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
