//! What stands between the two steps.

use std::fmt;
use std::time::{Duration, Instant};

use super::run::Run;
use super::{Commit, Reference, Request};

/// Servers close connections that say nothing: the shortest default among the common ones is 5 s.
const PATIENCE: Duration = Duration::from_secs(3);

/// A request whose commit is known.
///
/// Fresh from [`Fetcher::resolve`](super::Fetcher::resolve) it also holds the child process, connected to the server, so
/// that [`Fetcher::fetch`](super::Fetcher::fetch) need not connect again. Dropping it ends the child.
pub struct Resolved {
    request: Request,
    commit: Commit,
    session: Option<Session>,
}

struct Session {
    run: Run,
    /// Since when the server has heard nothing; `None` if it is not needed any more.
    idle_since: Option<Instant>,
}

impl Resolved {
    /// A commit that was resolved before: no server is asked. The request's reference then only tells where to look first.
    pub fn pinned(request: Request, commit: Commit) -> Self {
        Self { request, commit, session: None }
    }

    pub(super) fn connected(request: Request, commit: Commit, run: Run) -> Self {
        Self { request, commit, session: Some(Session { run, idle_since: Some(Instant::now()) }) }
    }

    /// The child has all that there is of the commit.
    pub(super) fn fetched(request: Request, commit: Commit, run: Run) -> Self {
        Self { request, commit, session: Some(Session { run, idle_since: None }) }
    }

    /// The tag by which it was named, if it was by one.
    pub fn tag(&self) -> Option<&str> {
        match &self.request.reference {
            Reference::Tag(name) => Some(name),
            Reference::Branch(_) | Reference::Commit(_) | Reference::DefaultBranch => None,
        }
    }

    /// The commit.
    pub fn commit(&self) -> &Commit {
        &self.commit
    }

    /// As if it had been resolved so much earlier.
    #[cfg(test)]
    pub(super) fn age(&mut self, by: Duration) {
        let session = self.session.as_mut().expect("a session, because the test resolved a name");
        let since = session.idle_since.expect("it was resolved and not looked at");
        session.idle_since = Some(since.checked_sub(by).expect("a time, because the system is up for longer"));
    }

    /// The parts; the child only if its connection can be expected to be still there.
    pub(super) fn into_parts(self) -> (Request, Commit, Option<Run>) {
        let fresh = self.session.filter(|session| session.idle_since.is_none_or(|since| since.elapsed() < PATIENCE));
        (self.request, self.commit, fresh.map(|session| session.run))
    }
}

impl fmt::Debug for Resolved {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Resolved")
            .field("request", &self.request)
            .field("commit", &self.commit)
            .field("connected", &self.session.is_some())
            .finish()
    }
}
