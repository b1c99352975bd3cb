//! What every program here has around its work: a client, signals, servers, leadership, tasks that must go on.

pub mod leader;
mod queue;
pub mod registries;

use std::future::Future;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::args::{Address, LeaderElection, LogFormat, Logging};
use crate::error::Chain;
use crate::probes::{self, Readiness};
use leader::{Candidate, Leader};

pub(crate) use queue::drain;

/// Why a process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to the API server.
    #[error("cannot find the cluster: set KUBECONFIG, or run in a Pod with a service account")]
    Config(#[source] Box<kube::config::InferConfigError>),
    /// The client cannot be built from it.
    #[error("cannot build a client for the cluster")]
    Client(#[source] Box<kube::Error>),
    /// A port is not to be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Leader election cannot begin, or this process leads no more.
    #[error("leader election")]
    Leader(#[from] leader::Error),
    /// A level of log lines that nobody knows.
    #[error("--log-level={0}: write a level such as info or debug")]
    LogLevel(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// Two libraries brought a TLS provider.
    #[error("a second TLS provider is installed")]
    TlsProvider,
    /// The threads cannot be started.
    #[error("start the threads of the runtime")]
    Runtime(#[source] io::Error),
    /// Signals cannot be handled.
    #[error("cannot handle signals")]
    Signal(#[source] io::Error),
    /// A task that must go on for ever ended.
    #[error("{0} ended: a mistake in this program")]
    Ended(&'static str),
}

/// Longest wait for passes to let go at the end.
const END_DEADLINE: Duration = Duration::from_secs(2);

/// Threads that run reconcilers: they wait for the network nearly always.
const WORKERS: usize = 2;
/// Threads for disk, inflate and parsing at most; they end when there is nothing to do.
const BLOCKING_THREADS: usize = 32;
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(2);

/// A program: runs `work` to its end, and says on stderr what went wrong.
pub fn main<E>(logging: &Logging, work: impl Future<Output = Result<(), E>>) -> ExitCode
where
    E: From<Error> + std::error::Error,
{
    match block_on(logging, work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", Chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Sets up what a whole process has once, logging and TLS, and runs `work` to its end.
fn block_on<E: From<Error>>(logging: &Logging, work: impl Future<Output = Result<(), E>>) -> Result<(), E> {
    log_to_stderr(logging)?;
    rustls::crypto::ring::default_provider().install_default().map_err(|_| Error::TlsProvider)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(BLOCKING_KEEP_ALIVE)
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    let ended = runtime.block_on(work);
    // A pull that is under way holds nothing that matters.
    runtime.shutdown_background();
    ended
}

fn log_to_stderr(Logging { format, filter }: &Logging) -> Result<(), Error> {
    let wrong = |error| Error::LogLevel(filter.clone(), Box::new(error));
    let lines = tracing_subscriber::fmt().with_env_filter(EnvFilter::try_new(filter).map_err(wrong)?);
    let lines = lines.with_writer(io::stderr);
    match format {
        LogFormat::Json => lines.json().flatten_event(true).init(),
        LogFormat::Text => lines.init(),
    }
    Ok(())
}

/// A process that runs until it is told to stop. Its tasks return their name if they must go on for ever, and nothing
/// otherwise.
pub(crate) struct Process {
    tasks: JoinSet<&'static str>,
    stop: CancellationToken,
    leader: Option<Leader>,
}

impl Process {
    /// Listens to SIGTERM and SIGINT from now on.
    pub fn start() -> Result<Self, Error> {
        let stop = CancellationToken::new();
        stop_at_signals(&stop).map_err(Error::Signal)?;
        Ok(Self { tasks: JoinSet::new(), stop, leader: None })
    }

    /// Adds a task.
    pub fn spawn(&mut self, task: impl Future<Output = &'static str> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Serves what a program says about itself.
    pub async fn serve_probes(
        &mut self,
        probe_address: &Address,
        health: axum::Router,
        metrics_address: &Address,
    ) -> Result<(), Error> {
        self.serve("the probe server", probe_address, health).await?;
        self.serve("the metrics server", metrics_address, probes::metrics()).await
    }

    /// Adds a server, unless its address is none.
    async fn serve(&mut self, name: &'static str, address: &Address, router: axum::Router) -> Result<(), Error> {
        let failed = |source| Error::Listen { address: address.to_string(), source };
        let Some(listener) = address.listen().await.map_err(failed)? else { return Ok(()) };
        let stop = self.stop.clone();
        self.spawn(async move {
            if let Err(error) = probes::serve(listener, router, stop).await {
                tracing::error!(%error, "{name} failed");
            }
            name
        });
        Ok(())
    }

    /// Waits until this process leads, if several are to be one; `None` if it was told to stop before. The Lease is given by
    /// namespace and name.
    pub async fn lead(
        mut self,
        client: Client,
        (namespace, lease): (&str, &'static str),
        election: Option<LeaderElection>,
        readiness: &Readiness,
    ) -> Result<Option<Self>, Error> {
        let Some(times) = election else { return Ok(Some(self)) };
        let candidate = Candidate::new(client, namespace, lease, times)?;
        // Who only stands by watches nothing; a rollout waits for it to be ready all the same.
        readiness.caches(Ok(()));
        let ended = tokio::select! {
            elected = candidate.elected() => {
                self.leader = Some(elected);
                readiness.caches(Err("not yet".to_owned()));
                return Ok(Some(self));
            }
            ended = ended(&mut self.tasks, &self.stop) => ended,
        };
        self.end(ended).await.map(|()| None)
    }

    /// Goes on until a signal, the end of a task that must go on, or the loss of leadership.
    pub async fn go_on(mut self) -> Result<(), Error> {
        let ended = tokio::select! {
            ended = ended(&mut self.tasks, &self.stop) => ended,
            lost = lost(&mut self.leader) => {
                self.leader = None;
                Err(lost)
            }
        };
        self.end(ended).await
    }

    /// Every write is one request that the next process finds in the cluster; so stopping is simply stopping. The Lease is
    /// given back once nothing can write any more.
    async fn end(mut self, ended: Result<(), Error>) -> Result<(), Error> {
        tracing::info!("stopping");
        self.stop.cancel();
        let still = tokio::time::timeout(END_DEADLINE, self.tasks.shutdown()).await;
        match self.leader {
            Some(leader) if still.is_ok() => leader.release().await,
            Some(_) => tracing::warn!("a pass does not end; the Lease runs out by itself"),
            None => {}
        }
        ended
    }
}

/// The client of the process's own identity.
pub(crate) async fn client() -> Result<Client, Error> {
    let config = Config::infer().await.map_err(|error| Error::Config(Box::new(error)))?;
    Client::try_from(config).map_err(|error| Error::Client(Box::new(error)))
}

/// Cancels `stop` at SIGTERM and at SIGINT.
fn stop_at_signals(stop: &CancellationToken) -> io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let (mut signals, stop) = (signal(kind)?, stop.clone());
        tokio::spawn(async move {
            signals.recv().await;
            stop.cancel();
        });
    }
    Ok(())
}

/// Waits for a signal, or for the end of a task that must go on.
async fn ended(tasks: &mut JoinSet<&'static str>, stop: &CancellationToken) -> Result<(), Error> {
    loop {
        tokio::select! {
            // First: the servers end because of it.
            biased;
            () = stop.cancelled() => return Ok(()),
            // While this process stands by there may be none left.
            Some(task) = tasks.join_next() => match task {
                Ok("") => {}
                Ok(name) => return Err(Error::Ended(name)),
                Err(error) => {
                    tracing::error!(%error, "a task failed");
                    return Err(Error::Ended("a task"));
                }
            },
        }
    }
}

/// Returns when leadership is lost: never, without leader election.
async fn lost(leader: &mut Option<Leader>) -> Error {
    match leader {
        Some(leader) => Error::Leader(leader.keep().await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_without_tasks_waits_for_the_signal() {
        let (mut tasks, stop) = (JoinSet::<&str>::new(), CancellationToken::new());
        let mut ended = std::pin::pin!(ended(&mut tasks, &stop));
        assert!(futures::poll!(ended.as_mut()).is_pending());
        stop.cancel();
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn the_end_of_a_task_that_must_go_on_is_a_mistake() {
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(async { "" });
        tasks.spawn(async { "the watch" });
        let error = ended(&mut tasks, &stop).await.unwrap_err();
        assert_eq!(error.to_string(), "the watch ended: a mistake in this program");
    }
}
