//! Flags of `install`, `upgrade` and `run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use rukpak_crds::names::CLASS_PLAIN;

use super::wait::duration;
use super::{ClusterArgs, OutputArgs, ServiceArgs, ValuesArgs, WaitArgs};
use crate::format::{self, Format};

/// Flags of `install` and `upgrade`.
#[derive(Args, Debug)]
pub struct InstallArgs {
    /// Name of the BundleDeployment
    pub name: String,
    /// An image (registry.example.com/pump:v1), a git repository (https://example.com/pump.git, ssh://..., git@host:path),
    /// the URL of a tar.gz archive, or a folder or archive of this machine, which is uploaded. What exists here wins
    #[arg(value_name = "SOURCE")]
    pub source: OsString,
    /// Format of the bundle [default: that of the content of a folder or archive; of anything else that it had before, or
    /// plain+v0]
    #[arg(long, value_name = "FORMAT", value_parser = format::parser())]
    pub format: Option<Format>,
    #[command(flatten)]
    pub values: ValuesArgs,
    /// Secret in RukPak's namespace with the login for registry, repository or server
    #[arg(long, value_name = "SECRET")]
    pub secret: Option<String>,
    #[command(flatten)]
    pub git: GitArgs,
    #[command(flatten)]
    pub check: CheckArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Which part of a git repository.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Git")]
pub struct GitArgs {
    /// Tag
    #[arg(long, value_name = "TAG", group = "ref")]
    pub tag: Option<String>,
    /// Branch
    #[arg(long, value_name = "BRANCH", group = "ref")]
    pub branch: Option<String>,
    /// Commit, all 40 characters of it
    #[arg(long, value_name = "COMMIT", group = "ref")]
    pub commit: Option<String>,
    /// Folder of the repository that the bundle is in [default: its root]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<String>,
}

/// Whether what is uploaded is looked at first.
#[derive(Args, Clone, Copy, Debug)]
pub struct CheckArgs {
    /// Validate what is uploaded first, as `rukpakctl validate` does; --validate=false leaves it to the cluster
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set
    )]
    pub validate: bool,
}

/// Flags of `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Name of the BundleDeployment, which is made or changed
    pub name: String,
    /// The folder with manifests/ in it
    pub folder: PathBuf,
    /// Provisioner of the BundleDeployment
    #[arg(long, value_name = "CLASS", default_value = CLASS_PLAIN)]
    pub bundle_deployment_provisioner_class: String,
    /// Provisioner of its Bundle [default: that of its format, as validate finds it: core-rukpak-io-registry for registry+v1,
    /// core-rukpak-io-helm for helm+v3, else core-rukpak-io-plain]
    #[arg(long, value_name = "CLASS")]
    pub bundle_provisioner_class: Option<String>,
    #[command(flatten)]
    pub values: ValuesArgs,
    #[command(flatten)]
    pub check: CheckArgs,
    /// Wait until it is installed and healthy
    #[arg(long)]
    pub wait: bool,
    /// How long to wait for the cluster to make the Bundle [default: 60s], and then with --wait for it to be installed [default:
    /// 5m]: 90s, 5m, 1h30m, or a number of seconds
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}

impl RunArgs {
    /// Returns `--timeout`, or `default` where the flag is not given.
    pub fn timeout_or(&self, default: Duration) -> Duration {
        self.timeout.unwrap_or(default)
    }
}
