//! What every program here has around its work: a client, signals, servers, leadership, tasks that must go on.

mod client;
pub mod leader;
mod logging;

use std::env;
use std::future::Future;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use kube::Client;
use kube::config::KubeconfigError;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::{Address, LeaderElection, Shared, TlsError};
use crate::error::Chain;
use crate::metrics;
use crate::probes::Readiness;
use crate::server::{self, Bounds, Plain};
pub use client::{bounded_client, client, config};
use leader::{Candidate, Leader, Lost};

/// Why a process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to the API server.
    #[error("cannot find the cluster: set KUBECONFIG, or run in a Pod with a service account")]
    Config(#[source] Box<kube::config::InferConfigError>),
    /// The kubeconfig that a flag names cannot be used.
    #[error("--kubeconfig={}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<KubeconfigError>,
    },
    /// The client cannot be built from it.
    #[error("cannot build a client for the cluster")]
    Client(#[source] Box<kube::Error>),
    /// A port is not to be had.
    #[error("cannot listen on {address} ({flag})")]
    Listen {
        /// The address.
        address: Address,
        /// The flag that names it.
        flag: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Leader election cannot begin.
    #[error("leader election")]
    Leader(#[from] leader::Error),
    /// Leadership is lost, and the program cannot take its own place to stand by.
    #[error("cannot start this program again to stand by")]
    Again(#[source] io::Error),
    /// Flags say of TLS what contradicts itself.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Two libraries brought a TLS provider.
    #[error("a second TLS provider is installed")]
    TlsProvider,
    /// Other processes of this user cannot be kept out.
    #[error("cannot close this process to others")]
    Close(#[source] io::Error),
    /// The threads cannot be started.
    #[error("start the threads of the runtime")]
    Runtime(#[source] io::Error),
    /// Signals cannot be handled.
    #[error("cannot handle signals")]
    Signal(#[source] io::Error),
    /// A task that must go on for good ended.
    #[error("{0} ended: a bug in this program")]
    Ended(&'static str),
}

/// Longest wait for passes to let go at the end.
const END_DEADLINE: Duration = Duration::from_secs(2);
/// What probes and metrics allow. They are asked every few seconds by few, and answered at once.
const PROBES: Bounds = Bounds {
    connections: 64,
    strangers_per_address: 32,
    handshake: Duration::from_secs(10),
    headers: Duration::from_secs(10),
    connection: Duration::from_secs(30),
};

/// Threads for what blocks end when there is nothing to do.
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(2);

/// How many threads a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// For what waits for the network; `None`: one a processor.
    pub workers: Option<usize>,
    /// For disk, inflate, parsing and long computations, at most.
    pub blocking: usize,
}

impl Threads {
    /// For reconcilers: they wait for the network nearly always.
    pub const RECONCILERS: Self = Self { workers: Some(2), blocking: 32 };
    /// For callers who wait for an answer: what blocks is bounded by whoever takes the call.
    pub const CALLERS: Self = Self { workers: None, blocking: 512 };
}

/// A program of this name: runs `work` to its end, and says on stderr what went wrong.
pub fn main<E>(
    program: &'static str,
    shared: &Shared,
    threads: Threads,
    work: impl Future<Output = Result<(), E>>,
) -> ExitCode
where
    E: From<Error> + std::error::Error,
{
    match block_on(program, shared, threads, work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", Chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Sets up what a whole process has once, TLS, threads, logging and traces, and runs `work` to its end.
fn block_on<E: From<Error>>(
    program: &'static str,
    shared: &Shared,
    threads: Threads,
    work: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    // Children run as the same user; they must not get at the memory of this process.
    rukpak_sandbox::close().map_err(Error::Close)?;
    // Every listener and every client here that speaks TLS takes this one.
    let provider = shared.tls.provider().map_err(Error::Tls)?;
    provider.install_default().map_err(|_| Error::TlsProvider)?;

    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.max_blocking_threads(threads.blocking).thread_keep_alive(BLOCKING_KEEP_ALIVE).enable_all();
    if let Some(workers) = threads.workers {
        runtime.worker_threads(workers);
    }
    let runtime = runtime.build().map_err(Error::Runtime)?;
    let traces = logging::start(program, &shared.logging, shared.collector.as_ref(), runtime.handle());
    let ended = runtime.block_on(work);
    if let Some(traces) = traces {
        traces.flush();
    }
    // A pull that is under way holds nothing that matters.
    runtime.shutdown_background();
    ended
}

/// A process that runs until it is told to stop: by a signal, if it was [started](Self::start).
#[derive(Default)]
pub struct Process {
    tasks: Tasks,
    reconciles: TaskTracker,
    /// What still answers calls in flight when nothing is written any more.
    servers: Tasks,
    /// Probes: there to the very end.
    probes: JoinSet<()>,
    stop: CancellationToken,
    /// Cancelled at the second signal: whoever sends it does not want to wait.
    hurry: CancellationToken,
    leader: Option<Leader>,
}

/// They return their name if they must go on for good, and nothing otherwise.
type Tasks = JoinSet<&'static str>;

impl Process {
    /// Listens to SIGTERM and SIGINT from now on.
    pub fn start() -> Result<Self, Error> {
        let process = Self::default();
        stop_at_signals(&process.stop, &process.hurry).map_err(Error::Signal)?;
        Ok(process)
    }

    /// Cancelled when the process is to stop: from then on nothing may be written.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// For reconciles: the process ends when all of them have ended.
    pub fn reconciles(&self) -> TaskTracker {
        self.reconciles.clone()
    }

    /// Adds a task, which returns its name if its end is a bug, and an empty text if not.
    pub fn spawn(&mut self, task: impl Future<Output = &'static str> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Adds a task that must go on: if it ends, so does the process, with an error that names it.
    pub fn spawn_endless(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(named(name, task));
    }

    /// Adds a server, which ends by itself soon after [`Self::stop`].
    pub fn spawn_server(&mut self, name: &'static str, server: impl Future<Output = ()> + Send + 'static) {
        self.servers.spawn(named(name, server));
    }

    /// Serves what a program says about itself (probes, metrics) as plain HTTP, to the very end; nothing if `address`, which
    /// `flag` names, is none.
    pub async fn serve_plainly(
        &mut self,
        flag: &'static str,
        address: &Address,
        router: axum::Router,
    ) -> Result<(), Error> {
        let Some(listener) = listen(flag, address).await? else { return Ok(()) };
        self.probes.spawn(server::serve(listener, Plain, router, PROBES, (CancellationToken::new(), Duration::ZERO)));
        Ok(())
    }

    /// Waits until this process leads, if several are to be one; `None` if it was told to stop before. The Lease is given by
    /// namespace and name.
    ///
    /// # Errors
    /// [`Error::Leader`], where election cannot begin; [`Error::Ended`].
    pub async fn lead(
        mut self,
        client: Client,
        (namespace, lease): (&str, &str),
        election: Option<LeaderElection>,
        readiness: &Readiness,
    ) -> Result<Option<Self>, Error> {
        let Some(times) = election else {
            metrics::set_leads(true);
            return Ok(Some(self));
        };
        let candidate = Candidate::new(client, namespace, lease, times)?;
        // Who only stands by watches nothing; a rollout waits for it to be ready all the same.
        readiness.caches(Ok(()));
        let ended = tokio::select! {
            elected = candidate.elected() => {
                self.leader = Some(elected);
                metrics::set_leads(true);
                readiness.caches(Err("not yet".to_owned()));
                return Ok(Some(self));
            }
            ended = ended(&mut self.tasks, &mut self.servers, &self.stop) => ended,
        };
        self.end(ended).await.map(|()| None)
    }

    /// Goes on until a signal, or the end of a task that must go on. When leadership is lost, the program begins anew in the same
    /// process, and stands by.
    ///
    /// # Errors
    /// [`Error::Ended`], or [`Error::Again`].
    pub async fn go_on(mut self) -> Result<(), Error> {
        let ended = tokio::select! {
            ended = ended(&mut self.tasks, &mut self.servers, &self.stop) => ended,
            (leader, lost) = lost(&mut self.leader) => {
                let time = leader.time_to_stop(&lost);
                self.leader = None;
                tracing::warn!(error = %Chain(&lost), "leading no more; standing by");
                self.begin_anew(time).await
            }
        };
        self.end(ended).await
    }

    /// Ends all work within `time`, and has this program take its own place (execve); returns if it cannot, or is to stop.
    ///
    /// That stops threads that block and tasks that nobody waits for, which nothing else in this process could, as surely as its end
    /// would. But the end of a container counts as a crash, and after some the kubelet waits for minutes before it starts another.
    async fn begin_anew(&mut self, time: Duration) -> Result<(), Error> {
        // Children are ended, and of attempts under way it is noted that they were no crashes.
        let _ = tokio::time::timeout(END_DEADLINE.min(time), self.end_work()).await;
        if self.stop.is_cancelled() { Ok(()) } else { Err(Error::Again(start_again())) }
    }

    /// Aborts all tasks and reconciles; returns when none runs any more.
    async fn end_work(&mut self) {
        self.tasks.shutdown().await;
        self.reconciles.close();
        self.reconciles.wait().await;
    }

    /// Every write is one request that the next process finds in the cluster; so stopping is simply stopping. The Lease is
    /// given back once nothing can write any more; only then are calls in flight waited for.
    async fn end(mut self, ended: Result<(), Error>) -> Result<(), Error> {
        tracing::info!("stopping");
        self.stop.cancel();
        let still = tokio::time::timeout(END_DEADLINE, self.end_work()).await;
        match self.leader {
            Some(leader) if still.is_ok() => leader.release().await,
            Some(_) => tracing::warn!("a reconcile does not end; the Lease runs out by itself"),
            None => {}
        }
        metrics::set_leads(false);
        tokio::select! {
            () = async { while self.servers.join_next().await.is_some() {} } => {}
            () = self.hurry.cancelled() => tracing::warn!("another signal: not waiting for calls in flight"),
        }
        ended
    }
}

/// Starts to listen on the address that `flag` names; `None` if it is none.
pub async fn listen(flag: &'static str, address: &Address) -> Result<Option<TcpListener>, Error> {
    address.listen().await.map_err(|source| Error::Listen { address: address.clone(), flag, source })
}

/// Returns the name of `task` at its end.
async fn named(name: &'static str, task: impl Future<Output = ()>) -> &'static str {
    task.await;
    name
}

/// Cancels `stop` at SIGTERM and at SIGINT, and `hurry` at the next.
fn stop_at_signals(stop: &CancellationToken, hurry: &CancellationToken) -> io::Result<()> {
    let (stop, hurry) = (stop.clone(), hurry.clone());
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        for token in [stop, hurry] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            token.cancel();
        }
    });
    Ok(())
}

/// Waits for a signal, or for the end of a task or a server that must go on.
async fn ended(tasks: &mut Tasks, servers: &mut Tasks, stop: &CancellationToken) -> Result<(), Error> {
    loop {
        let task = tokio::select! {
            // First: the servers end because of it.
            biased;
            () = stop.cancelled() => return Ok(()),
            // While this process stands by there may be none left.
            Some(task) = tasks.join_next() => task,
            Some(server) = servers.join_next() => server,
        };
        match task {
            Ok("") => {}
            Ok(name) => return Err(Error::Ended(name)),
            Err(error) => {
                tracing::error!(%error, "a task failed");
                return Err(Error::Ended("a task"));
            }
        }
    }
}

/// Returns when leadership is lost: never, without leader election.
async fn lost(leader: &mut Option<Leader>) -> (&Leader, Lost) {
    let Some(leader) = leader else { return std::future::pending().await };
    let lost = leader.keep().await;
    (leader, lost)
}

/// Has this program, with the same arguments, take its own place; returns only why it did not.
fn start_again() -> io::Error {
    let mut arguments = env::args_os();
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let name = arguments.next().unwrap_or_else(|| program.clone().into());
    Command::new(program).arg0(name).args(arguments).exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_without_tasks_waits_for_the_signal() {
        let (mut tasks, mut servers, stop) = (JoinSet::new(), JoinSet::new(), CancellationToken::new());
        let mut ended = std::pin::pin!(ended(&mut tasks, &mut servers, &stop));
        assert!(futures::poll!(ended.as_mut()).is_pending());
        stop.cancel();
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn the_end_of_a_task_that_must_go_on_is_a_mistake() {
        for is_server in [false, true] {
            let (mut tasks, mut servers, stop) = (JoinSet::new(), JoinSet::new(), CancellationToken::new());
            tasks.spawn(async { "" });
            let ends = if is_server { &mut servers } else { &mut tasks };
            ends.spawn(async { "the watch" });
            let error = ended(&mut tasks, &mut servers, &stop).await.unwrap_err();
            assert_eq!(error.to_string(), "the watch ended: a bug in this program");
        }
    }
}
