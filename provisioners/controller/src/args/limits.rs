//! `--limit`: upper bounds on content and on uploads, by their names.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use rukpak_content::Limits;
use rukpak_unpack::content_service::UploadLimits;

use super::count;

/// Upper bounds that `--limit` moves, by name.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArgs {
    /// Upper bound on content or on uploads, such as tree-bytes=1073741824; may be repeated, or have commas
    #[arg(id = "limit", long = "limit", value_name = "NAME=VALUE", value_delimiter = ',', value_parser = setting, long_help = long_help())]
    settings: Vec<Setting>,
}

/// An upper bound that has a name.
#[derive(Debug)]
pub struct NamedLimit {
    /// Its name, which ends with the unit if that is bytes or seconds.
    pub name: &'static str,
    /// What is bounded, beginning with the unit.
    pub meaning: &'static str,
    field: fn(&mut Bounds) -> Field<'_>,
}

/// What one `NAME=VALUE` says.
#[derive(Clone, Copy, Debug)]
struct Setting {
    limit: &'static NamedLimit,
    value: u64,
}

/// All bounds.
#[derive(Debug, Default)]
struct Bounds {
    content: Limits,
    uploads: UploadLimits,
}

/// Where the value of a bound is kept.
enum Field<'a> {
    Number(&'a mut u64),
    /// How many there are at once, within what [`count`] takes.
    AtOnce(&'a mut usize),
    Seconds(&'a mut Duration),
}

/// All names, those of content first.
pub static LIMITS: [NamedLimit; 20] = [
    named("download-bytes", "Bytes fetched over the network for one bundle, compressed", |all| {
        Field::Number(&mut all.content.download_bytes)
    }),
    named("tree-bytes", "Bytes of all files of one bundle", |all| Field::Number(&mut all.content.tree_bytes)),
    named("layers", "Layers of one image", |all| Field::Number(&mut all.content.layers)),
    named("ratio", "Unpacked bytes for each compressed byte", |all| Field::Number(&mut all.content.ratio)),
    named("entries", "Files and folders of one bundle", |all| Field::Number(&mut all.content.entries)),
    named("path-bytes", "Bytes of one path", |all| Field::Number(&mut all.content.path_bytes)),
    named("depth", "Levels of folders", |all| Field::Number(&mut all.content.depth)),
    named("manifest-bytes", "Bytes of one manifest file", |all| Field::Number(&mut all.content.manifest_bytes)),
    named("objects", "Objects of one bundle", |all| Field::Number(&mut all.content.objects)),
    named("yaml-nodes", "YAML and JSON nodes of one bundle, aliases expanded", |all| {
        Field::Number(&mut all.content.yaml_nodes)
    }),
    named("text-bytes", "Bytes of all manifests and metadata of one bundle, aliases expanded", |all| {
        Field::Number(&mut all.content.text_bytes)
    }),
    named("git-bytes", "Bytes of one git fetch", |all| Field::Number(&mut all.content.git_bytes)),
    named("git-seconds", "Seconds for one git fetch", |all| Field::Seconds(&mut all.content.git_time)),
    named("pull-seconds", "Seconds for one image pull", |all| Field::Seconds(&mut all.content.pull_time)),
    named(
        "child-bytes",
        "Bytes of memory of one child process, which fetches from git, checks a bundle or renders a chart",
        |all| Field::Number(&mut all.content.child_bytes),
    ),
    named("check-seconds", "Seconds for the check of one bundle, and for the rendering of one chart", |all| {
        Field::Seconds(&mut all.content.check_time)
    }),
    named("uploads", "Uploads at once, from 1 to 1024", |all| Field::AtOnce(&mut all.uploads.at_once)),
    named("upload-seconds", "Seconds for one upload", |all| Field::Seconds(&mut all.uploads.time)),
    named(
        "upload-bytes-per-second",
        "Least bytes a second of an upload, on average after the first 30 seconds; 0 for none",
        |all| Field::Number(&mut all.uploads.bytes_per_second),
    ),
    named("upload-store-bytes", "Bytes of all uploads together", |all| Field::Number(&mut all.uploads.store_bytes)),
];

const fn named(name: &'static str, meaning: &'static str, field: fn(&mut Bounds) -> Field<'_>) -> NamedLimit {
    NamedLimit { name, meaning, field }
}

impl NamedLimit {
    /// Returns the value that applies where `--limit` does not name this limit.
    pub fn default_value(&self) -> u64 {
        match (self.field)(&mut Bounds::default()) {
            Field::Number(number) => *number,
            Field::AtOnce(count) => *count as u64,
            Field::Seconds(time) => time.as_secs(),
        }
    }

    fn parse(&self, text: &str) -> Result<u64, String> {
        match (self.field)(&mut Bounds::default()) {
            Field::AtOnce(_) => Ok(count(text)? as u64),
            Field::Number(_) | Field::Seconds(_) => text.parse().map_err(|_| format!("{text:?} is not a whole number")),
        }
    }
}

impl LimitArgs {
    /// Returns the bounds on content.
    pub(super) fn content(&self) -> Limits {
        self.bounds().content
    }

    /// Returns the bounds on uploads.
    pub(super) fn uploads(&self) -> UploadLimits {
        self.bounds().uploads
    }

    fn bounds(&self) -> Bounds {
        let mut bounds = Bounds::default();
        // In their order: of a name that is given twice the last value counts, as of any flag.
        for Setting { limit, value } in &self.settings {
            match (limit.field)(&mut bounds) {
                Field::Number(number) => *number = *value,
                Field::AtOnce(count) => *count = usize::try_from(*value).unwrap_or(usize::MAX),
                Field::Seconds(time) => *time = Duration::from_secs(*value),
            }
        }
        bounds
    }
}

fn setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not a limit: write NAME=VALUE"))?;
    let limit = LIMITS.iter().find(|limit| limit.name == name).ok_or_else(|| {
        let names: Vec<&str> = LIMITS.iter().map(|limit| limit.name).collect();
        format!("there is no limit {name:?}, only {}", names.join(", "))
    })?;
    Ok(Setting { limit, value: limit.parse(value)? })
}

fn long_help() -> String {
    let mut help =
        "Upper bound on content or on uploads, such as tree-bytes=1073741824; may be repeated, or have commas. The \
                    names, with what applies otherwise:\n"
            .to_owned();
    for limit in &LIMITS {
        _ = write!(help, "\n{}={}: {}", limit.name, limit.default_value(), limit.meaning);
    }
    help
}
