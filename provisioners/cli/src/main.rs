//! The binary `rukpakctl`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use rukpak_source::decompress::confined;
use rukpakctl::{Exit, GIT_CHILD};

fn main() -> ExitCode {
    // Before flags and runtime: a child confines itself and must be the only thread.
    if let Some(code) = confined::enter().or_else(rukpak_helm::enter) {
        return code;
    }
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == GIT_CHILD) {
        let confinement = arguments.next();
        return rukpak_source::git::child::main(confinement.as_deref(), io::stdin(), io::stdout());
    }
    match start() {
        Ok(exit) => exit.into(),
        Err(error) => {
            // Nobody may be listening; that is no reason to die of it.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            Exit::Unknown.into()
        }
    }
}

fn start() -> anyhow::Result<Exit> {
    let command = rukpakctl::parse();
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
