//! How large content may be. One struct, handed down; every refusal names its limit and the flag that moves it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Upper bounds on content. A value *equal* to a limit is accepted, one more is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes fetched over the network for one bundle, compressed.
    pub download_bytes: u64,
    /// Bytes of all files of one tree, uncompressed.
    pub tree_bytes: u64,
    /// Layers of one image, those that are listed again counted each time.
    pub layers: u64,
    /// Uncompressed bytes for each compressed byte, looked at once 1 MiB has come out.
    pub ratio: u64,
    /// Files and folders of one tree.
    pub entries: u64,
    /// Bytes of one path.
    pub path_bytes: u64,
    /// Components of one path.
    pub depth: u64,
    /// Bytes of one file below `manifests/` or `metadata/`.
    pub manifest_bytes: u64,
    /// Objects of one bundle.
    pub objects: u64,
    /// YAML and JSON nodes of all manifests and metadata of one bundle, aliases expanded: mappings, sequences, keys, scalars.
    pub yaml_nodes: u64,
    /// Bytes of manifests and metadata of one bundle, counted twice: as they lie in files, and as the keys and texts that they
    /// say, aliases expanded. Either sum is bounded.
    pub text_bytes: u64,
    /// Bytes of one git fetch.
    pub git_bytes: u64,
    /// Wall time of one git fetch.
    pub git_time: Duration,
    /// Wall time of one image pull.
    pub pull_time: Duration,
    /// Bytes of memory of one child process, which fetches from git or checks a bundle.
    pub child_bytes: u64,
    /// Wall time of the check of one bundle.
    pub check_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            download_bytes: 256 * MIB,
            tree_bytes: 512 * MIB,
            layers: 1_000,
            ratio: 200,
            entries: 20_000,
            path_bytes: 1024,
            depth: 32,
            manifest_bytes: 64 * MIB,
            objects: 20_000,
            yaml_nodes: 2_000_000,
            text_bytes: 128 * MIB,
            git_bytes: 512 * MIB,
            git_time: Duration::from_mins(2),
            pull_time: Duration::from_mins(5),
            child_bytes: 512 * MIB,
            check_time: Duration::from_mins(1),
        }
    }
}

/// Which limit: its words and its flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::download_bytes`].
    DownloadBytes,
    /// [`Limits::tree_bytes`].
    TreeBytes,
    /// [`Limits::layers`].
    Layers,
    /// [`Limits::ratio`].
    Ratio,
    /// [`Limits::entries`].
    Entries,
    /// [`Limits::path_bytes`].
    PathBytes,
    /// [`Limits::depth`].
    Depth,
    /// [`Limits::manifest_bytes`].
    ManifestBytes,
    /// [`Limits::objects`].
    Objects,
    /// [`Limits::yaml_nodes`].
    YamlNodes,
    /// [`Limits::text_bytes`].
    TextBytes,
    /// [`Limits::git_bytes`].
    GitBytes,
    /// [`Limits::git_time`], in seconds.
    GitTime,
    /// [`Limits::pull_time`], in seconds.
    PullTime,
    /// [`Limits::child_bytes`].
    ChildBytes,
    /// [`Limits::check_time`], in seconds.
    CheckTime,
}

impl Limit {
    /// The flag that moves this limit.
    pub fn flag(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::DownloadBytes => ("bytes of compressed download", "--limit=download-bytes"),
            Self::TreeBytes => ("bytes of unpacked content", "--limit=tree-bytes"),
            Self::Layers => ("layers in an image", "--limit=layers"),
            Self::Ratio => ("times the compressed size", "--limit=ratio"),
            Self::Entries => ("files and folders", "--limit=entries"),
            Self::PathBytes => ("bytes in a path", "--limit=path-bytes"),
            Self::Depth => ("levels of folders", "--limit=depth"),
            Self::ManifestBytes => ("bytes in one manifest file", "--limit=manifest-bytes"),
            Self::Objects => ("objects in a bundle", "--limit=objects"),
            Self::YamlNodes => ("YAML and JSON nodes in a bundle, aliases expanded", "--limit=yaml-nodes"),
            Self::TextBytes => ("bytes of manifests in a bundle, aliases expanded", "--limit=text-bytes"),
            Self::GitBytes => ("bytes of a git fetch", "--limit=git-bytes"),
            Self::GitTime => ("seconds for a git fetch", "--limit=git-seconds"),
            Self::PullTime => ("seconds for an image pull", "--limit=pull-seconds"),
            Self::ChildBytes => ("bytes of memory of a child process", "--limit=child-bytes"),
            Self::CheckTime => ("seconds for the check of a bundle", "--limit=check-seconds"),
        }
    }
}

/// Content went past a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: more than the limit of {maximum} {} ({})", .limit.words().0, .limit.words().1)]
pub struct LimitExceeded {
    /// Which limit.
    pub limit: Limit,
    /// Its value.
    pub maximum: u64,
    /// The file, layer or repository at fault.
    pub place: String,
}

impl Limit {
    /// `Err` if `value` is more than `maximum`; `place` names what is at fault and is made only then.
    pub fn check(self, value: u64, maximum: u64, place: impl FnOnce() -> String) -> Result<(), LimitExceeded> {
        if value > maximum { Err(LimitExceeded { limit: self, maximum, place: place() }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_accepted_and_one_more_is_named() {
        assert!(Limit::Entries.check(20_000, 20_000, String::new).is_ok());
        let error = Limit::Entries.check(20_001, 20_000, || "layer 2".into()).unwrap_err();
        assert_eq!(error.to_string(), "layer 2: more than the limit of 20000 files and folders (--limit=entries)");
    }
}
