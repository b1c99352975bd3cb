//! This program as a child of itself: what reads the work of others with tools that may fail at it runs in a process of
//! its own, with little memory and few rights. See `rukpak_sandbox`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use rukpak_runtime::error::Chain;
use rukpak_sandbox::{Attempts, Findings};
use rukpak_source::decompress::confined;
use rukpak_source::git::{Auth, Fetcher, Reference, Request};

use crate::bundle;
use crate::metrics;

/// The subcommand of a git fetch. See `rukpak_source::git`.
pub const GIT: &str = "git-child";

/// The service account's token: what a child must not get at.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Runs as a child, if that is what the arguments ask for. Call it first of all, while there is one thread.
pub fn main() -> Option<ExitCode> {
    if let Some(code) = confined::enter() {
        return Some(code);
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let argument = |place: usize| arguments.get(place).map(OsString::as_os_str);
    match argument(1).and_then(OsStr::to_str) {
        Some(GIT) => Some(rukpak_source::git::child::main(argument(2), io::stdin(), io::stdout())),
        Some(bundle::CHECK_CHILD) => Some(bundle::check_child(argument(2), argument(3))),
        _ => None,
    }
}

/// Has a child try what it must not be able to do, and says what came of it: in the log, and as a metric.
pub async fn report(git: &Fetcher, program: &Path) -> Findings {
    let findings = match probe(git, program).await {
        Ok(findings) => findings,
        Err(error) => {
            tracing::warn!(error = %Chain(&error), "cannot find out how far child processes are confined");
            Findings::default()
        }
    };
    metrics::set_confinement(findings);
    let Findings { files, memory, ports, programs } = findings;
    if findings.is_all_refused() {
        tracing::info!(files, memory, ports, programs, "child processes are confined");
    } else {
        tracing::warn!(
            files,
            memory,
            ports,
            programs,
            "child processes are not confined in everything: this kernel lacks landlock (Linux 5.13, for ports 6.7) or seccomp"
        );
    }
    findings
}

async fn probe(git: &Fetcher, program: &Path) -> Result<Findings, rukpak_source::git::Error> {
    let token = Path::new(TOKEN);
    let file = if token.exists() { token } else { program };
    let request = Request {
        repository: "https://127.0.0.1/probe".to_owned(),
        reference: Reference::DefaultBranch,
        directory: None,
        auth: Auth::None,
        insecure_skip_verify: false,
        strict_host_keys: false,
    };
    // Nobody listens there, and landlock refuses before that is found out.
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    git.probe(request, Attempts { file: file.to_owned(), address }).await
}
