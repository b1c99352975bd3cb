//! The text of a `registries.conf`, made sense of.

use serde::Deserialize;

use super::{Mirror, Mirrors, Registry, UseFor};

/// Why a `registries.conf` cannot be used, or lets an image be pulled from nowhere.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Not TOML, a value of another type, or a key that is not known in its table.
    #[error("registries.conf cannot be read")]
    Toml(#[source] toml::de::Error),
    /// The first format of the file, whose tables mean something else.
    #[error("registries.conf is written in format 1, which is obsolete; write [[registry]] tables")]
    FormatOne,
    /// A registry has neither prefix nor location.
    #[error("registries.conf: registry {number} has neither a prefix nor a location")]
    Nameless {
        /// Which one, from 1.
        number: usize,
    },
    /// A prefix or location is not `host[:port][/path]`.
    #[error("registries.conf: {text:?} is no {what}: {why}")]
    Form {
        /// `prefix` or `location`.
        what: &'static str,
        /// The text.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// Two registries have the same prefix.
    #[error("registries.conf: there are two registries with the prefix {prefix:?}; make them one")]
    Twice {
        /// The prefix.
        prefix: String,
    },
    /// Two settings say which references a mirror serves.
    #[error(
        "registries.conf: registry {prefix:?} sets mirror-by-digest-only, and its mirror {location:?} pull-from-mirror; \
         use one of them"
    )]
    TwoRules {
        /// The registry.
        prefix: String,
        /// The mirror.
        location: String,
    },
    /// Everything that could hold the image is blocked.
    #[error("{name}: registry {prefix} is blocked in registries.conf")]
    Blocked {
        /// The image.
        name: String,
        /// The registry's prefix.
        prefix: String,
    },
    /// The location names a host, and the prefix was the whole repository.
    #[error("{name}: in registries.conf the location {location:?} names no repository")]
    NoRepository {
        /// The image.
        name: String,
        /// The location.
        location: String,
    },
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    registry: Vec<RegistryTable>,
    #[serde(default)]
    registries: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RegistryTable {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<MirrorTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MirrorTable {
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    pull_from_mirror: Option<PullFromMirror>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PullFromMirror {
    All,
    DigestOnly,
    TagOnly,
}

pub(super) fn parse(text: &str) -> Result<Mirrors, Error> {
    let file: File = toml::from_str(text).map_err(Error::Toml)?;
    if file.registries.is_some() {
        return Err(Error::FormatOne);
    }
    let mut registries: Vec<Registry> = Vec::new();
    for (index, table) in file.registry.into_iter().enumerate() {
        let registry = registry(table, index + 1)?;
        if registries.iter().any(|other| other.prefix == registry.prefix) {
            return Err(Error::Twice { prefix: registry.prefix });
        }
        registries.push(registry);
    }
    Ok(Mirrors { registries })
}

fn registry(table: RegistryTable, number: usize) -> Result<Registry, Error> {
    let RegistryTable { prefix, location, insecure, blocked, mirror_by_digest_only, mirror } = table;
    if prefix.is_empty() && location.is_empty() {
        return Err(Error::Nameless { number });
    }
    let prefix = match prefix.as_str() {
        "" => place(&location, "location")?,
        wildcard if wildcard.starts_with("*.") => format!("*.{}", place(&wildcard[2..], "prefix")?),
        plain => place(plain, "prefix")?,
    };
    let location = if location.is_empty() { None } else { Some(place(&location, "location")?) };
    let mut mirrors = Vec::new();
    for MirrorTable { location, insecure, pull_from_mirror } in mirror {
        let location = place(&location, "location")?;
        let use_for = match (mirror_by_digest_only, pull_from_mirror) {
            (true, Some(_)) => return Err(Error::TwoRules { prefix, location }),
            (true, None) | (false, Some(PullFromMirror::DigestOnly)) => UseFor::Digests,
            (false, Some(PullFromMirror::TagOnly)) => UseFor::Tags,
            (false, None | Some(PullFromMirror::All)) => UseFor::All,
        };
        mirrors.push(Mirror { location, insecure, use_for });
    }
    Ok(Registry { prefix, location, insecure, blocked, mirrors })
}

/// `host[:port][/path]` without slashes at its end. A prefix may also go on with a tag or digest.
fn place(text: &str, what: &'static str) -> Result<String, Error> {
    let fault = |why| Err(Error::Form { what, text: crate::stage::shortened(text), why });
    if text.contains("://") {
        return fault("write it without a scheme");
    }
    if text.contains('*') {
        return fault("only a prefix may have a wildcard, and only as its first label");
    }
    let odd = |character: char| !(character.is_ascii_alphanumeric() || "._-:/[]@".contains(character));
    if text.contains(odd) {
        return fault("only letters, digits and ._-:/[] may stand in it");
    }
    let trimmed = text.trim_end_matches('/');
    if trimmed.is_empty() || trimmed.starts_with('/') || trimmed.contains("//") {
        return fault("it begins with no host");
    }
    // A login would be sent to the host, and shown.
    if what == "location" && trimmed.contains('@') {
        return fault("it names a place, no image and no login");
    }
    Ok(trimmed.to_owned())
}
