//! Versions and ranges as OLM reads them, which is neither npm's grammar nor Cargo's: [`Range`] in catalogs and before v1 (the Go
//! package `blang/semver`), [`Constraint`] in v1's extensions (`Masterminds/semver`).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use semver::Prerelease;

mod constraint;
mod range;
#[cfg(test)]
mod tests;

pub use constraint::Constraint;
pub use range::Range;

/// The longest release, in bytes. OLM's limit: a release becomes part of names.
pub const MAX_RELEASE: usize = 20;

/// A semantic version and, where the catalog has one, the release of its packaging.
///
/// [`Version::precedence`] is OLM's order: semantic precedence (build metadata does not count), then the release, compared
/// as a prerelease is; no release comes before any. `Ord` goes on to compare build metadata, so that of `1.0.0+1` and
/// `1.0.0+2`, which may stand in one package, the second is always the higher: older catalogs keep the release there.
/// `Ord` therefore agrees with `Eq`, and choosing the highest does not depend on any order of reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    semver: semver::Version,
    /// Never empty.
    release: Option<Prerelease>,
}

/// Why a text is no version, no release or no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a semantic version.
    #[error("{text:?} is not a semantic version such as 1.2.3: {problem}")]
    Version {
        /// As given.
        text: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Not a release.
    #[error("{text:?} is not a release such as 1 or 2.rc1: {problem}")]
    Release {
        /// As given.
        text: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Not a range as OLM v1 reads them. The words are the library's.
    #[error("improper constraint: {text}")]
    Constraint {
        /// As given.
        text: String,
    },
    /// Not a range.
    #[error("{text:?} is not a range of versions such as \">=1.0.0 <2.0.0\": {problem}")]
    Range {
        /// As given.
        text: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

impl Version {
    /// Reads a full version of three numbers, without a leading `v`. Numbers are at most 64 bits long, also in the
    /// prerelease.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let semver = parse_strict(text).map_err(|problem| Error::Version { text: text.to_owned(), problem })?;
        Ok(Self { semver, release: None })
    }

    /// Reads a version with the release of its packaging, as the property `olm.package` has them. An empty release is none.
    pub fn with_release(text: &str, release: &str) -> Result<Self, Error> {
        Ok(Self { release: parse_release(release)?, ..Self::parse(text)? })
    }

    /// The version without its release.
    pub fn semver(&self) -> &semver::Version {
        &self.semver
    }

    /// The release.
    pub fn release(&self) -> Option<&str> {
        self.release.as_deref()
    }

    /// OLM's order: semantic precedence, then the release. Build metadata does not count.
    pub fn precedence(&self, other: &Self) -> Ordering {
        self.semver.cmp_precedence(&other.semver).then_with(|| self.release.cmp(&other.release))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.precedence(other).then_with(|| self.semver.build.cmp(&other.semver.build))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

/// Without the release, which is no part of a version.
impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.semver.fmt(formatter)
    }
}

/// A version by the rules of `blang/semver`, or what is wrong with the text.
fn parse_strict(text: &str) -> Result<semver::Version, String> {
    let version = semver::Version::parse(text).map_err(|error| advice(text, &error))?;
    fits_numbers(&version.pre)?;
    Ok(version)
}

/// blang reads the numbers of a prerelease into 64 bits.
fn fits_numbers(identifiers: &Prerelease) -> Result<(), String> {
    let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mut numbers = identifiers.split('.').filter(|part| !part.is_empty()).filter(is_number);
    numbers
        .find(|part| part.parse::<u64>().is_err())
        .map_or(Ok(()), |part| Err(format!("the number {part} is too large")))
}

fn advice(text: &str, error: &semver::Error) -> String {
    let trimmed = text.trim();
    let bare = trimmed.strip_prefix(['v', 'V']).unwrap_or(trimmed);
    let missing = match bare.matches('.').count() {
        0 => ".0.0",
        1 => ".0",
        _ => "",
    };
    let full = format!("{bare}{missing}");
    match semver::Version::parse(&full) {
        Ok(_) => format!("{error}; write {full}"),
        Err(_) => error.to_string(),
    }
}

fn parse_release(text: &str) -> Result<Option<Prerelease>, Error> {
    let fault = |problem: String| Error::Release { text: text.to_owned(), problem };
    if text.len() > MAX_RELEASE {
        return Err(fault(format!("it has {} characters, and at most {MAX_RELEASE} are allowed", text.len())));
    }
    let release = Prerelease::new(text).map_err(|error| {
        fault(format!(
            "{error}; write letters, digits and hyphens, separated by dots, and numbers without leading zeros"
        ))
    })?;
    fits_numbers(&release).map_err(fault)?;
    Ok((!release.is_empty()).then_some(release))
}
