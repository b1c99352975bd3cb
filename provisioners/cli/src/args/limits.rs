//! A flag for each limit on content, named as in refusals.

use std::time::Duration;

use clap::Args;
use rukpak_content::Limits;

/// [`Limits`] as flags. Shown by `--help`, not by `-h`.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits on content")]
pub(super) struct LimitArgs {
    /// Bytes fetched over the network, compressed
    #[arg(long = "limit-download-bytes", value_name = "BYTES", default_value_t = Limits::default().download_bytes, hide_short_help = true)]
    download_bytes: u64,
    /// Bytes of all files
    #[arg(long = "limit-tree-bytes", value_name = "BYTES", default_value_t = Limits::default().tree_bytes, hide_short_help = true)]
    tree_bytes: u64,
    /// Unpacked bytes for each compressed byte
    #[arg(long = "limit-ratio", value_name = "COUNT", default_value_t = Limits::default().ratio, hide_short_help = true)]
    ratio: u64,
    /// Files and folders
    #[arg(long = "limit-entries", value_name = "COUNT", default_value_t = Limits::default().entries, hide_short_help = true)]
    entries: u64,
    /// Bytes of one path
    #[arg(long = "limit-path-bytes", value_name = "BYTES", default_value_t = Limits::default().path_bytes, hide_short_help = true)]
    path_bytes: u64,
    /// Levels of folders
    #[arg(long = "limit-depth", value_name = "COUNT", default_value_t = Limits::default().depth, hide_short_help = true)]
    depth: u64,
    /// Bytes of one manifest file
    #[arg(long = "limit-manifest-bytes", value_name = "BYTES", default_value_t = Limits::default().manifest_bytes, hide_short_help = true)]
    manifest_bytes: u64,
    /// Objects
    #[arg(long = "limit-objects", value_name = "COUNT", default_value_t = Limits::default().objects, hide_short_help = true)]
    objects: u64,
    /// YAML and JSON nodes, aliases expanded
    #[arg(long = "limit-yaml-nodes", value_name = "COUNT", default_value_t = Limits::default().yaml_nodes, hide_short_help = true)]
    yaml_nodes: u64,
    /// Bytes of all manifests and metadata, aliases expanded
    #[arg(long = "limit-text-bytes", value_name = "BYTES", default_value_t = Limits::default().text_bytes, hide_short_help = true)]
    text_bytes: u64,
    /// Seconds for pulling an image
    #[arg(long = "limit-pull-seconds", value_name = "SECONDS", default_value_t = Limits::default().pull_time.as_secs(), hide_short_help = true)]
    pull_seconds: u64,
}

impl Default for LimitArgs {
    /// As the flags say where none is given.
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            download_bytes: limits.download_bytes,
            tree_bytes: limits.tree_bytes,
            ratio: limits.ratio,
            entries: limits.entries,
            path_bytes: limits.path_bytes,
            depth: limits.depth,
            manifest_bytes: limits.manifest_bytes,
            objects: limits.objects,
            yaml_nodes: limits.yaml_nodes,
            text_bytes: limits.text_bytes,
            pull_seconds: limits.pull_time.as_secs(),
        }
    }
}

impl LimitArgs {
    pub(super) fn to_limits(&self) -> Limits {
        Limits {
            download_bytes: self.download_bytes,
            tree_bytes: self.tree_bytes,
            ratio: self.ratio,
            entries: self.entries,
            path_bytes: self.path_bytes,
            depth: self.depth,
            manifest_bytes: self.manifest_bytes,
            objects: self.objects,
            yaml_nodes: self.yaml_nodes,
            text_bytes: self.text_bytes,
            pull_time: Duration::from_secs(self.pull_seconds),
            ..Limits::default()
        }
    }
}
