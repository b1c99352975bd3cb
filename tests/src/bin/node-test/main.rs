//! The manifests and the image, as they are, on a real node: containerd, kubelet, kube-proxy and kube-scheduler beside the control
//! plane of the tests. Started by `tests/tools/node.sh`, which makes the namespaces and cgroups that all of it stays in.

mod daemon;
mod extension;
mod kernel;
mod kubectl;
mod node;
mod programs;
mod steps;
mod upgrade;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;

/// Installs RukPak on a node of its own and uses it. `tests/tools/node.sh` starts it where that harms nothing.
#[derive(Parser)]
#[command(name = "node-test")]
pub struct Arguments {
    /// Folder that `make image` wrote to
    #[arg(long)]
    image: PathBuf,
    /// Folder that `make manifests` wrote to
    #[arg(long)]
    manifests: PathBuf,
    /// Folder with image/ and manifests/ of the version before, which is installed first [default: none is]
    #[arg(long)]
    before: Option<PathBuf>,
    /// Folder with kubelet, kube-proxy and kube-scheduler
    #[arg(long)]
    kubernetes: PathBuf,
    /// The kubectl to use
    #[arg(long)]
    kubectl: PathBuf,
    /// The static program of the containers
    #[arg(long)]
    pod: PathBuf,
    /// Folder for everything that the node writes; whoever starts this removes it
    #[arg(long)]
    folder: PathBuf,
}

/// What happened, and when.
pub struct Clock(Instant);

impl Clock {
    /// Says on stdout what has been seen.
    pub fn say(&self, what: &str) {
        println!("[{:6.1}s] {what}", self.0.elapsed().as_secs_f64());
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let clock = Clock(Instant::now());
    match run(&arguments, &clock).await {
        Ok(()) => {
            clock.say("all of it works");
            ExitCode::SUCCESS
        }
        Err(error) => {
            clock.say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments, clock: &Clock) -> Result<()> {
    let mut node = node::Node::start(arguments, clock).await?;
    let result = steps::all(&mut node, arguments.before.as_deref(), clock).await;
    if result.is_err() {
        node.tell_what_is_wrong();
    }
    result
}
