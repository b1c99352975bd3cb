//! The binary `rukpak-webhook`.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use rukpak_webhook::options::{LogFormat, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let options = Options::parse();
    match start(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn start(options: Options) -> anyhow::Result<()> {
    log_to_stderr(options.log_format, options.log_level.as_deref());
    open_many_files();
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a second TLS provider is installed"))?;
    rukpak_webhook::run::run(options).await.context("the webhook stopped")
}

/// As many connections as are let in are files. Go programs raise the soft limit by themselves, and this one is no less.
fn open_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // What cannot be raised is said by `accept`.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn log_to_stderr(format: LogFormat, level: Option<&str>) {
    let from_environment = || EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let filter = level.map_or_else(from_environment, EnvFilter::new);
    let ansi = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi);
    match format {
        LogFormat::Json => builder.json().flatten_event(true).init(),
        LogFormat::Text => builder.init(),
    }
}
