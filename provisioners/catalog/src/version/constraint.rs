//! Ranges of versions as OLM v1 reads them: the grammar and meaning of the Go library `Masterminds/semver`.

use std::fmt;

use super::{Error, Version};

/// The most alternatives of a constraint.
const MAX_ALTERNATIVES: usize = 32;

/// A set of versions: `>=1.2 <2`, `^1.2 || 3.x`, `1.2`.
///
/// ```text
/// constraint = all { "||" all }                          any of them
/// all        = comparison { ( " " | "," ) comparison }   every one of them
/// comparison = [ operator ] version                      spaces may stand between
/// operator   = "=" "!=" ">" "<" ">=" "=>" "<=" "=<" "~" "~>" "^"
/// ```
///
/// A version may lack numbers, or have `x`, `X` or `*` in their place: `1.2` is any 1.2.z. Prereleases are held only by alternatives
/// that name one. Neither build metadata nor releases count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    text: String,
    /// Neither this nor any of its members is empty.
    any: Vec<Vec<Comparison>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparison {
    operator: Operator,
    /// What is not given is 0.
    version: semver::Version,
    given: Given,
}

/// Which numbers of a version are given. Of those that are not the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    All,
    MajorMinor,
    Major,
    /// A wildcard alone.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

/// The longer ones first: each begins with none that stands before it.
const OPERATORS: [(&str, Operator); 11] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("=<", Operator::LessOrEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];

impl Constraint {
    /// Reads a constraint.
    ///
    /// # Errors
    /// [`Error::Constraint`], in the library's words.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Constraint { text: text.to_owned() };
        let alternatives: Vec<&str> = text.split("||").collect();
        if alternatives.len() > MAX_ALTERNATIVES {
            return Err(wrong());
        }
        let any: Option<Vec<_>> = alternatives.into_iter().map(comparisons).collect();
        Ok(Self { text: text.to_owned(), any: any.ok_or_else(wrong)? })
    }

    /// Whether the constraint holds `version`.
    pub fn contains(&self, version: &Version) -> bool {
        let version = version.semver();
        self.any.iter().any(|all| {
            let admits_prereleases = all.iter().any(|comparison| !comparison.version.pre.is_empty());
            (version.pre.is_empty() || admits_prereleases) && all.iter().all(|comparison| comparison.admits(version))
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// As it was written.
impl fmt::Display for Constraint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// The comparisons of one alternative; `None` if there is none, or something else.
fn comparisons(text: &str) -> Option<Vec<Comparison>> {
    let mut rest = text.trim();
    let mut all = Vec::new();
    loop {
        let (operator, behind) = OPERATORS
            .iter()
            .find_map(|(sign, operator)| Some((*operator, rest.strip_prefix(sign)?)))
            .unwrap_or((Operator::Equal, rest));
        let behind = behind.trim_start();
        let end = behind.find(|letter: char| letter.is_whitespace() || letter == ',').unwrap_or(behind.len());
        let (version, given) = version(&behind[..end])?;
        all.push(Comparison { operator, version, given });
        let after = behind[end..].trim_start();
        match after.strip_prefix(',') {
            // Something has to follow a comma.
            Some(after) => rest = after.trim_start(),
            None if after.is_empty() => return Some(all),
            None => rest = after,
        }
    }
}

/// A version of one to three numbers, or with wildcards.
fn version(text: &str) -> Option<(semver::Version, Given)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let core_end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, suffix) = text.split_at(core_end);
    let parts: Vec<&str> = core.split('.').collect();
    let is_wildcard = |part: &&str| matches!(*part, "x" | "X" | "*");
    let known: Vec<&str> = parts.iter().copied().take_while(|part| !is_wildcard(part)).collect();
    let (given, rest) = match (parts.len(), known.len()) {
        (1..=3, 0) => (Given::Nothing, ".0.0"),
        (1..=3, 1) => (Given::Major, ".0.0"),
        (2..=3, 2) => (Given::MajorMinor, ".0"),
        (3, 3) => (Given::All, ""),
        _ => return None,
    };
    // What stands behind a wildcard does not count, but has to be a number.
    let is_number = |part: &&str| part.parse::<u64>().is_ok();
    if !parts[known.len()..].iter().all(|part| is_wildcard(part) || is_number(part)) {
        return None;
    }
    let known = if known.is_empty() { "0".to_owned() } else { known.join(".") };
    Some((semver::Version::parse(&format!("{known}{rest}{suffix}")).ok()?, given))
}

impl Comparison {
    /// Whether prereleases are admitted is decided by whoever has all comparisons.
    fn admits(&self, version: &semver::Version) -> bool {
        let wanted = &self.version;
        let order = version.cmp_precedence(wanted);
        match self.operator {
            Operator::Equal if self.given == Given::All => order.is_eq(),
            Operator::Equal | Operator::Tilde => self.tilde(version),
            Operator::NotEqual => match self.given {
                Given::Major => version.major != wanted.major,
                Given::MajorMinor => (version.major, version.minor) != (wanted.major, wanted.minor),
                Given::All | Given::Nothing => order.is_ne(),
            },
            // Above all that is meant, not above its first.
            Operator::Greater => match self.given {
                Given::Major => version.major > wanted.major,
                Given::MajorMinor => (version.major, version.minor) > (wanted.major, wanted.minor),
                Given::All | Given::Nothing => order.is_gt(),
            },
            Operator::Less => order.is_lt(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::LessOrEqual => match self.given {
                Given::Major => version.major <= wanted.major,
                Given::MajorMinor | Given::Nothing => (version.major, version.minor) <= (wanted.major, wanted.minor),
                Given::All => order.is_le(),
            },
            Operator::Caret => order.is_ge() && self.caret(version),
        }
    }

    fn tilde(&self, version: &semver::Version) -> bool {
        let wanted = &self.version;
        let is_everything = (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0)
            && matches!(self.given, Given::All | Given::Nothing)
            && wanted.pre.is_empty();
        let is_same = match self.given {
            Given::Major => version.major == wanted.major,
            _ => (version.major, version.minor) == (wanted.major, wanted.minor),
        };
        is_everything || (version.cmp_precedence(wanted).is_ge() && is_same)
    }

    /// Up to the first number that is not 0.
    fn caret(&self, version: &semver::Version) -> bool {
        let wanted = &self.version;
        if wanted.major > 0 || self.given == Given::Major {
            version.major == wanted.major
        } else if wanted.minor > 0 || self.given == Given::MajorMinor {
            (version.major, version.minor) == (0, wanted.minor)
        } else {
            (version.major, version.minor, version.patch) == (0, 0, wanted.patch)
        }
    }
}
