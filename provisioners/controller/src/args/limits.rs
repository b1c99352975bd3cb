//! One flag for each limit on content.

use std::time::Duration;

use clap::Args;
use rukpak_content::Limits;

/// [`Limits`] as flags.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits on content")]
pub(super) struct LimitArgs {
    /// Bytes fetched over the network for one bundle, compressed
    #[arg(long = "limit-download-bytes", value_name = "BYTES", default_value_t = Limits::default().download_bytes)]
    download_bytes: u64,
    /// Bytes of all files of one bundle
    #[arg(long = "limit-tree-bytes", value_name = "BYTES", default_value_t = Limits::default().tree_bytes)]
    tree_bytes: u64,
    /// Layers of one image
    #[arg(long = "limit-layers", value_name = "COUNT", default_value_t = Limits::default().layers)]
    layers: u64,
    /// Unpacked bytes for each compressed byte
    #[arg(long = "limit-ratio", value_name = "COUNT", default_value_t = Limits::default().ratio)]
    ratio: u64,
    /// Files and folders of one bundle
    #[arg(long = "limit-entries", value_name = "COUNT", default_value_t = Limits::default().entries)]
    entries: u64,
    /// Bytes of one path
    #[arg(long = "limit-path-bytes", value_name = "BYTES", default_value_t = Limits::default().path_bytes)]
    path_bytes: u64,
    /// Levels of folders
    #[arg(long = "limit-depth", value_name = "COUNT", default_value_t = Limits::default().depth)]
    depth: u64,
    /// Bytes of one manifest file
    #[arg(long = "limit-manifest-bytes", value_name = "BYTES", default_value_t = Limits::default().manifest_bytes)]
    manifest_bytes: u64,
    /// Objects of one bundle
    #[arg(long = "limit-objects", value_name = "COUNT", default_value_t = Limits::default().objects)]
    objects: u64,
    /// YAML and JSON nodes of one bundle, aliases expanded
    #[arg(long = "limit-yaml-nodes", value_name = "COUNT", default_value_t = Limits::default().yaml_nodes)]
    yaml_nodes: u64,
    /// Bytes of all manifests and metadata of one bundle, aliases expanded
    #[arg(long = "limit-text-bytes", value_name = "BYTES", default_value_t = Limits::default().text_bytes)]
    text_bytes: u64,
    /// Bytes of one git fetch
    #[arg(long = "limit-git-bytes", value_name = "BYTES", default_value_t = Limits::default().git_bytes)]
    git_bytes: u64,
    /// Seconds for one git fetch
    #[arg(long = "limit-git-seconds", value_name = "SECONDS", default_value_t = Limits::default().git_time.as_secs())]
    git_seconds: u64,
    /// Seconds for one image pull
    #[arg(long = "limit-pull-seconds", value_name = "SECONDS", default_value_t = Limits::default().pull_time.as_secs())]
    pull_seconds: u64,
    /// Bytes of memory of one child process, which fetches from git or checks a bundle
    #[arg(long = "limit-child-bytes", value_name = "BYTES", default_value_t = Limits::default().child_bytes)]
    child_bytes: u64,
    /// Seconds for the check of one bundle
    #[arg(long = "limit-check-seconds", value_name = "SECONDS", default_value_t = Limits::default().check_time.as_secs())]
    check_seconds: u64,
}

impl From<LimitArgs> for Limits {
    fn from(args: LimitArgs) -> Self {
        Self {
            download_bytes: args.download_bytes,
            tree_bytes: args.tree_bytes,
            layers: args.layers,
            ratio: args.ratio,
            entries: args.entries,
            path_bytes: args.path_bytes,
            depth: args.depth,
            manifest_bytes: args.manifest_bytes,
            objects: args.objects,
            yaml_nodes: args.yaml_nodes,
            text_bytes: args.text_bytes,
            git_bytes: args.git_bytes,
            git_time: Duration::from_secs(args.git_seconds),
            pull_time: Duration::from_secs(args.pull_seconds),
            child_bytes: args.child_bytes,
            check_time: Duration::from_secs(args.check_seconds),
        }
    }
}
