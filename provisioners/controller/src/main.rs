//! The binary `rukpak-controller`.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use rukpak_controller::args::{LogFormat, Options};
use rukpak_controller::error::Chain;
use tracing_subscriber::EnvFilter;

/// The hidden subcommand that git fetches run in. See `rukpak_source::git`.
const GIT_CHILD: &str = "git-child";

/// Threads that run reconcilers: they wait for the network nearly always.
const WORKERS: usize = 2;
/// Threads for disk, inflate and parsing at most; they end when there is nothing to do.
const BLOCKING_THREADS: usize = 32;
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    // Before flags and runtime: the child sets limits for its process and must be the only thread.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == GIT_CHILD) {
        return rukpak_source::git::child::main(io::stdin(), io::stdout());
    }
    let options = Options::parse();
    match start(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", Chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn start(options: Options) -> anyhow::Result<()> {
    log_to_stderr(&options)?;
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a second TLS provider is installed"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(BLOCKING_KEEP_ALIVE)
        .enable_all()
        .build()
        .context("start the threads of the runtime")?;
    let ended = runtime.block_on(rukpak_controller::run::run(options));
    // A pull that is under way holds nothing that matters.
    runtime.shutdown_background();
    Ok(ended?)
}

fn log_to_stderr(options: &Options) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&options.log_filter)
        .with_context(|| format!("--log-level={}: write a level such as info or debug", options.log_filter))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match options.log_format {
        LogFormat::Json => lines.json().flatten_event(true).init(),
        LogFormat::Text => lines.init(),
    }
    Ok(())
}
