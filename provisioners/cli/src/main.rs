//! The binary `rukpakctl`.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use rukpakctl::exit::Exit;

fn main() -> ExitCode {
    match start() {
        Ok(exit) => exit.into(),
        Err(error) => {
            // Nobody may be listening; that is no reason to die of it.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            Exit::Unknown.into()
        }
    }
}

fn start() -> anyhow::Result<Exit> {
    let command = rukpakctl::args::parse();
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a second TLS provider is installed"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the threads of the runtime")?;
    let exit = runtime.block_on(rukpakctl::run(&command));
    // A pull that was given up may still hold a thread.
    runtime.shutdown_background();
    Ok(exit)
}
