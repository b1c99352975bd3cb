//! The parent's side: start the child, hold it to its limits, read what it sends as untrusted.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use rukpak_content::Limits;

use super::access::{Access, Wanted};
use super::roots::Roots;
use super::run::{Answer, Run};
use super::wire::{Action, Task};
use super::{Error, Request, Resolved};
use crate::Stage;
use crate::archive::{Dialect, read_tar};

/// Brings trees out of git repositories, each in a child process of its own.
#[derive(Clone, Debug)]
pub struct Fetcher {
    options: FetcherOptions,
    roots: Arc<Roots>,
}

/// How a [`Fetcher`] works.
#[derive(Clone, Debug)]
pub struct FetcherOptions {
    /// The program that runs [`child::main`](super::child::main), normally our own.
    pub program: PathBuf,
    /// Its arguments: the hidden subcommand.
    pub arguments: Vec<String>,
    /// [`Limits::git_bytes`] and [`Limits::git_time`] bound each call; the rest bounds the tree.
    pub limits: Limits,
    /// Where repositories and trees lie while they are worked on.
    pub stage_dir: PathBuf,
    /// CA certificates to trust beside the system's, as PEM.
    pub extra_ca_pem: Option<String>,
}

impl Fetcher {
    /// Does nothing yet.
    pub fn new(options: FetcherOptions) -> Self {
        let roots = Roots::new(options.stage_dir.clone(), options.extra_ca_pem.clone());
        Self { options, roots: Arc::new(roots) }
    }

    /// The commit that the request's reference means now, and the connection that told it. A commit is itself, without
    /// asking the server.
    ///
    /// # Errors
    /// See [`Error::class`] for whether it is worth trying again. Dropping the future ends the child.
    pub async fn resolve(&self, request: Request) -> Result<Resolved, Error> {
        let access = access(&request)?;
        if let Wanted::Commit(commit) = access.wanted {
            return Ok(Resolved::pinned(request, commit));
        }
        let mut run = Run::start(&self.options, &self.roots, access.shown)?;
        let line = self.task(&request, &Action::Resolve, &run)?;
        match self.in_time(&mut run, async |run| run.resolve(line).await).await? {
            Answer::Done(commit, ()) => Ok(Resolved::connected(request, commit, run)),
            Answer::Failed(failure) => Err(Self::error(failure, None, &request)),
        }
    }

    /// The tree of the commit, from `directory` down, over the connection that resolved it, or over a new one where that is
    /// missing or too old. A branch that moved on meanwhile does no harm as long as the commit can still be reached.
    ///
    /// # Errors
    /// As for [`Fetcher::resolve`].
    pub async fn fetch(&self, resolved: Resolved) -> Result<Stage, Error> {
        let (request, commit, run) = resolved.into_parts();
        let mut stage =
            Stage::new_in(&self.options.stage_dir, &self.options.limits).map_err(|source| Error::Stage { source })?;
        let read = move |reader: &mut dyn Read| read_tar(reader, &mut stage, Dialect::Plain).map(|()| stage);
        let action = Action::Fetch(commit.clone());
        let (mut run, line) = if let Some(run) = run {
            (run, action.line().map_err(|source| self.failed(source))?)
        } else {
            let run = Run::start(&self.options, &self.roots, access(&request)?.shown)?;
            let line = self.task(&request, &action, &run)?;
            (run, line)
        };
        match self.in_time(&mut run, async |run| run.fetch(line, read).await).await? {
            Answer::Done(found, stage) => {
                debug_assert_eq!(found, commit, "the child answers with the commit it was given");
                Ok(stage)
            }
            Answer::Failed(failure) => Err(Self::error(failure, Some(&commit), &request)),
        }
    }

    fn task(&self, request: &Request, action: &Action, run: &Run) -> Result<Vec<u8>, Error> {
        Task::line(request, action, run.path(), &self.options.limits).map_err(|source| self.failed(source))
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

fn access(request: &Request) -> Result<Access, Error> {
    Access::new(request).map_err(|failure| Fetcher::error(failure, None, request))
}

#[cfg(test)]
mod tests;
