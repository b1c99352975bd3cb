//! Ranges of versions: the grammar of `blang/semver`'s `ParseRange`.

use std::fmt;
use std::str::FromStr;

use super::{Error, Version, parse_strict};

/// A set of versions: `>=1.0.0 <2.0.0 || 3.x`.
///
/// ```text
/// range      = all { "||" all }                              any of them
/// all        = comparison { " " comparison }                 every one of them
/// comparison = [ operator ] ( version | N.x | N.N.x )        no operator: equal; spaces may follow <, > and =
/// operator   = "=" "==" "!" "!=" "<" "<=" ">" ">="
/// ```
///
/// A wildcard stands for the versions from its first: `1.2.x` is `>=1.2.0 <1.3.0`, `>1.2.x` is `>=1.3.0`, `<=1.2.x` is
/// `<1.3.0`, `!=1.2.x` is `<1.2.0 >=1.3.0`, which nothing fulfils. `1.x.x` is `1.0.x`: so OLM reads it. Prereleases are
/// versions like others: `<2.0.0` holds `2.0.0-rc1`. Neither build metadata nor releases count.
///
/// What OLM's parser lets through by accident is refused here: parts of one character, which it drops (`! 1.0.0` would be
/// `=1.0.0`), an empty alternative, and unknown operators before a wildcard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    text: String,
    /// Neither this nor any of its members is empty.
    any: Vec<Vec<Comparator>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparator {
    operator: Operator,
    version: semver::Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Range {
    /// Reads a range.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let any = parse(text).map_err(|problem| Error::Range { text: text.to_owned(), problem })?;
        Ok(Self { text: text.to_owned(), any })
    }

    /// Whether the range holds `version`.
    pub fn contains(&self, version: &Version) -> bool {
        self.any.iter().any(|all| all.iter().all(|comparator| comparator.admits(version.semver())))
    }

    /// The range as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// As it was written.
impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl FromStr for Range {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl Comparator {
    fn admits(&self, version: &semver::Version) -> bool {
        let order = version.cmp_precedence(&self.version);
        match self.operator {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        }
    }
}

fn parse(text: &str) -> Result<Vec<Vec<Comparator>>, String> {
    let parts = split(text);
    if parts.is_empty() {
        return Err("it is empty; leave it out to allow every version".to_owned());
    }
    let alternatives = parts.split(|part| part == "||");
    alternatives
        .map(|all| match all {
            [] => Err("\"||\" stands between two ranges, and one of them is missing".to_owned()),
            all => Ok(all.iter().map(|part| comparators(part)).collect::<Result<Vec<_>, _>>()?.concat()),
        })
        .collect()
}

/// The parts between spaces. A space after an operator is none.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for character in text.chars() {
        match parts.last_mut() {
            Some(part) if character != ' ' => part.push(character),
            Some(part) if part.ends_with(['<', '>', '=']) => {}
            _ => parts.push(String::new()),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// One part is one comparison, or two for a wildcard.
fn comparators(part: &str) -> Result<Vec<Comparator>, String> {
    let start = part.find(|character: char| character.is_ascii_digit());
    let start = start.ok_or_else(|| format!("there is no version in {part:?}"))?;
    let (sign, version) = part.split_at(start);
    let operator = match sign.trim() {
        "" | "=" | "==" => Operator::Equal,
        "!" | "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        other => return Err(format!("there is no operator {other:?}; there are = != < <= > >= and ||")),
    };
    if let Some(wildcard) = Wildcard::read(version) {
        return wildcard.expand(operator).ok_or_else(|| format!("the numbers of {version} are too large"));
    }
    if version.contains(".x") {
        return Err(format!("{version:?}: an x stands for the last number only, as in 1.x and 1.2.x"));
    }
    let version = parse_strict(version).map_err(|problem| format!("{version:?}: {problem}"))?;
    Ok(vec![Comparator { operator, version }])
}

/// `major.x` or `major.minor.x`.
struct Wildcard {
    major: u64,
    minor: Option<u64>,
}

impl Wildcard {
    fn read(text: &str) -> Option<Self> {
        let number = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
            if is_plain { text.parse().ok() } else { None }
        };
        let minor = |text: &str| if text == "x" { Some(0) } else { number(text) };
        match text.split('.').collect::<Vec<_>>()[..] {
            [major, "x"] => Some(Self { major: number(major)?, minor: None }),
            [major, middle, "x"] => Some(Self { major: number(major)?, minor: Some(minor(middle)?) }),
            _ => None,
        }
    }

    /// `None` if there is no number after the largest.
    fn expand(&self, operator: Operator) -> Option<Vec<Comparator>> {
        let first = semver::Version::new(self.major, self.minor.unwrap_or(0), 0);
        let next = || match self.minor {
            Some(minor) => Some(semver::Version::new(self.major, minor.checked_add(1)?, 0)),
            None => Some(semver::Version::new(self.major.checked_add(1)?, 0, 0)),
        };
        let from = |version| Comparator { operator: Operator::GreaterOrEqual, version };
        let below = |version| Comparator { operator: Operator::Less, version };
        Some(match operator {
            Operator::Equal => vec![from(first), below(next()?)],
            Operator::NotEqual => vec![below(first), from(next()?)],
            Operator::Less => vec![below(first)],
            Operator::LessOrEqual => vec![below(next()?)],
            Operator::Greater => vec![from(next()?)],
            Operator::GreaterOrEqual => vec![from(first)],
        })
    }
}
