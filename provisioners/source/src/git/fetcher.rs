//! The parent's side: start the child, hold it to its limits, read what it sends as untrusted.

use std::io::Read;
use std::path::PathBuf;

use rukpak_content::Limits;

use super::access::{Access, Wanted};
use super::run::{Answer, Run};
use super::wire::{Action, Task};
use super::{Commit, Error, Request};
use crate::Stage;
use crate::archive::{self, Dialect, read_tar};

/// Brings trees out of git repositories, each in a child process of its own.
#[derive(Clone, Debug)]
pub struct Fetcher {
    options: FetcherOptions,
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
        Self { options }
    }

    /// The commit that the request's reference means now. A commit is itself, without asking the server.
    ///
    /// # Errors
    /// See [`Error::class`] for whether it is worth trying again. Dropping the future ends the child.
    pub async fn resolve(&self, request: &Request) -> Result<Commit, Error> {
        let access = Access::new(request).map_err(|failure| Self::error(failure, None, request))?;
        if let Wanted::Commit(commit) = access.wanted {
            return Ok(commit);
        }
        let (commit, ()) = self.run(request, Action::Resolve, |_| Ok(())).await?;
        Ok(commit)
    }

    /// The tree of `commit`, from `directory` down. The request's reference only tells where to look first: a branch that moved
    /// on since [`Fetcher::resolve`] does no harm as long as the commit can still be reached.
    ///
    /// # Errors
    /// As for [`Fetcher::resolve`].
    pub async fn fetch(&self, request: &Request, commit: &Commit) -> Result<Stage, Error> {
        let mut stage =
            Stage::new_in(&self.options.stage_dir, &self.options.limits).map_err(|source| Error::Stage { source })?;
        let read = move |reader: &mut dyn Read| read_tar(reader, &mut stage, Dialect::Plain).map(|()| stage);
        let (found, stage) = self.run(request, Action::Fetch(commit.clone()), read).await?;
        debug_assert_eq!(found, *commit, "the child answers with the commit it was given");
        Ok(stage)
    }

    async fn run<T: Send + 'static>(
        &self,
        request: &Request,
        action: Action,
        read: impl FnOnce(&mut dyn Read) -> Result<T, archive::Error> + Send + 'static,
    ) -> Result<(Commit, T), Error> {
        let access = Access::new(request).map_err(|failure| Self::error(failure, None, request))?;
        let limits = &self.options.limits;
        let commit = match &action {
            Action::Fetch(commit) => Some(commit.clone()),
            Action::Resolve => None,
        };
        let mut run = Run::start(&self.options, access.shown)?;
        let line = Task::line(request, &action, run.path(), limits)
            .map_err(|source| Error::Run { program: self.options.program.clone(), source })?;
        let outcome = tokio::time::timeout(limits.git_time, run.talk(line, read)).await;
        match outcome {
            Ok(Ok(Answer::Done(commit, value))) => Ok((commit, value)),
            Ok(Ok(Answer::Failed(failure))) => Err(Self::error(failure, commit.as_ref(), request)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(run.late()),
        }
    }
}

#[cfg(test)]
mod tests;
