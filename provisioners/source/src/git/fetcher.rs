//! The parent's side: start the child, hold it to its limits, read what it sends as untrusted.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use rukpak_content::Limits;
use rukpak_sandbox::{Attempts, Findings};
use url::Url;

use super::access::{Access, WantedRef};
use super::address::{Address, Transport};
use super::roots::Roots;
use super::run::{Answer, Run};
use super::wire::{Action, Task};
use super::{Class, Error, Failure, Objects, Request, Resolved, Step};
use crate::archive::{Dialect, read_tar};
use crate::egress::{Guard, LookupError, Refused};
use crate::{Egress, Stage};

/// Brings trees out of git repositories, each in a child process of its own.
#[derive(Clone, Debug)]
pub struct Fetcher {
    options: FetcherOptions,
    roots: Arc<Roots>,
    guard: Arc<Guard>,
}

/// How a [`Fetcher`] works.
#[derive(Clone, Debug)]
pub struct FetcherOptions {
    /// The program that runs [`child::main`](super::child::main), normally our own.
    pub program: PathBuf,
    /// Its arguments: the hidden subcommand. What the child may do is added as the last one.
    pub arguments: Vec<String>,
    /// [`Limits::git_bytes`] and [`Limits::git_time`] bound each call; the rest bounds the tree.
    pub limits: Limits,
    /// Where repositories and trees lie while they are worked on.
    pub stage_dir: PathBuf,
    /// CA certificates to trust beside the system's, as PEM.
    pub extra_ca_pem: Option<String>,
    /// Which addresses git servers may have.
    pub egress: Egress,
}

impl Fetcher {
    /// Does nothing yet.
    pub fn new(options: FetcherOptions) -> Self {
        let roots = Roots::new(options.stage_dir.clone(), options.extra_ca_pem.clone());
        let guard = Guard::new(options.egress.clone());
        Self { options, roots: Arc::new(roots), guard }
    }

    /// The commit that the request's reference means now, and the connection that told it. A commit is itself, without
    /// asking the server.
    ///
    /// # Errors
    /// See [`Error::class`] for whether it is worth trying again. Dropping the future ends the child.
    pub async fn resolve(&self, request: Request) -> Result<Resolved, Error> {
        let access = access(&request)?;
        if let WantedRef::Commit(commit) = access.wanted {
            return Ok(Resolved::pinned(request, commit));
        }
        let (mut run, line) = self.start(&request, access, &Action::Resolve).await?;
        match self.in_time(&mut run, async |run| run.resolve(line).await).await? {
            Answer::Done(commit, ()) => Ok(Resolved::connected(request, commit, run)),
            Answer::Failed(failure) => Err(Self::error(failure, None, &request)),
        }
    }

    /// What can be signed of the commit, before anything of its tree is read; and the child that has fetched it.
    pub async fn look(&self, resolved: Resolved) -> Result<(Resolved, Objects), Error> {
        let (request, commit, run) = resolved.into_parts();
        let (mut run, line) = self.go_on(&request, run, &Action::Look(commit.clone())).await?;
        match self.in_time(&mut run, async |run| run.look(line).await).await? {
            Ok(objects) => Ok((Resolved::fetched(request, commit, run), objects)),
            Err(failure) => Err(Self::error(failure, Some(&commit), &request)),
        }
    }

    /// The tree of the commit, from `directory` down, over the connection that resolved it, or over a new one where that is
    /// missing or too old. A branch that moved on meanwhile does no harm as long as the commit can still be reached.
    pub async fn fetch(&self, resolved: Resolved) -> Result<Stage, Error> {
        let (request, commit, run) = resolved.into_parts();
        let mut stage =
            Stage::new_in(&self.options.stage_dir, &self.options.limits).map_err(|source| Error::Stage { source })?;
        let read = move |reader: &mut dyn Read| read_tar(reader, &mut stage, Dialect::Plain).map(|()| stage);
        let action = Action::Fetch(commit.clone());
        let (mut run, line) = self.go_on(&request, run, &action).await?;
        match self.in_time(&mut run, async |run| run.fetch(line, read).await).await? {
            Answer::Done(found, stage) => {
                debug_assert_eq!(found, commit, "the child answers with the commit it was given");
                Ok(stage)
            }
            Answer::Failed(failure) => Err(Self::error(failure, Some(&commit), &request)),
        }
    }

    /// The child that is there, or a new one, and the line that tells it what to do.
    async fn go_on(&self, request: &Request, run: Option<Run>, action: &Action) -> Result<(Run, Vec<u8>), Error> {
        match run {
            Some(run) => Ok((run, action.line().map_err(|source| self.failed(source))?)),
            None => self.start(request, access(request)?, action).await,
        }
    }

    /// A child, and the line that tells it what to do.
    async fn start(&self, request: &Request, access: Access, action: &Action) -> Result<(Run, Vec<u8>), Error> {
        let proxy = self.proxy(&access.address).await.map_err(|refused| {
            let failure = Failure::new(Step::Clone, Class::Terminal, format!("{}: {refused}", access.shown));
            Self::error(failure, None, request)
        })?;
        // Whoever the proxy connects to, the child sees only the proxy.
        let egress = if proxy.is_some() { &Egress::anywhere() } else { &self.guard.egress };
        let run = Run::start(&self.options, &self.roots, access, proxy)?;
        let line = Task::line(request, action, egress, run.path(), &self.options.limits);
        Ok((run, line.map_err(|source| self.failed(source))?))
    }

    /// The proxy to ask, if one is, as the variable that libgit2 reads. Refuses addresses that may not be connected to.
    ///
    /// libgit2 looks the name up again. What it then connects to is looked at in the child, before a login is sent.
    async fn proxy(&self, address: &Address) -> Result<Option<(&'static str, OsString)>, Refused> {
        let url = Url::parse(&address.url).ok().filter(|_| address.transport == Transport::Http);
        if let Some(url) = url.filter(|url| self.guard.is_proxied(url)) {
            self.guard.check(&url).await?;
            return Ok(proxy_variable(url.scheme()));
        }
        match self.guard.lookup(&address.host, address.port).await {
            Err(LookupError::Refused(refused)) => Err(refused),
            // A name that is not there is told of by who wants to connect.
            Ok(()) | Err(LookupError::Lookup(_)) => Ok(None),
        }
    }

    /// Has a child try what children must not be able to do, in the sandbox that it would have for `request`.
    ///
    /// # Errors
    /// As for [`Fetcher::resolve`]; no server is asked.
    pub async fn probe(&self, request: Request, attempts: Attempts) -> Result<Findings, Error> {
        let mut run = Run::start(&self.options, &self.roots, access(&request)?, None)?;
        let action = Action::Probe(attempts);
        let line = Task::line(&request, &action, &Egress::anywhere(), run.path(), &self.options.limits);
        let line = line.map_err(|source| self.failed(source))?;
        self.in_time(&mut run, async |run| run.probe(line).await).await
    }

    async fn in_time<T>(
        &self,
        run: &mut Run,
        talk: impl AsyncFnOnce(&mut Run) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(self.options.limits.git_time, talk(run)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(run.late()),
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Run { program: self.options.program.clone(), source }
    }
}

/// The first of the variables in which the HTTP clients look, under the one name that libgit2 reads first.
fn proxy_variable(scheme: &str) -> Option<(&'static str, OsString)> {
    let (name, names) = match scheme {
        "https" => ("https_proxy", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]),
        _ => ("http_proxy", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]),
    };
    let value = names.into_iter().filter_map(std::env::var_os).find(|value| !value.is_empty())?;
    Some((name, value))
}

fn access(request: &Request) -> Result<Access, Error> {
    Access::new(request).map_err(|failure| Fetcher::error(failure, None, request))
}

#[cfg(test)]
mod tests;
