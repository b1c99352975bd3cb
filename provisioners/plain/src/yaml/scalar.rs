//! What a plain scalar means: the rules of go-yaml version 2, which kubectl reads manifests with.
//!
//! They are YAML 1.1 with exceptions: no base 60 numbers, no dates (both stay text), `0o17` is octal too. The
//! table in the crate's README lists them; the tests below hold what kubectl answers for each.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use saphyr_parser::{ScalarStyle, Tag};
use serde_json::{Number, Value};

/// A scalar that has been given its type.
#[derive(Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    /// Only values that do not fit an `i64`.
    Unsigned(u64),
    Float(f64),
    Text(Cow<'a, str>),
}

/// Why a scalar has no meaning. The text of the scalar is left out: it may be a secret.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Error {
    /// An explicit tag asks for a type that the text is not of.
    #[error("cannot decode {found} as a {wanted}")]
    Tag { found: &'static str, wanted: &'static str },
    /// `!!binary` with something else than base64.
    #[error("!!binary value contains invalid base64 data")]
    Binary,
}

/// The type that an explicit tag asks for.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Any,
    Text,
    Bool,
    Integer,
    Float,
    Null,
    Timestamp,
    Binary,
    /// A tag of somebody's own: the text is taken as it stands.
    Unknown,
}

impl Wanted {
    fn of(tag: Option<&Tag>, style: ScalarStyle) -> Self {
        let Some(tag) = tag else {
            return if style == ScalarStyle::Plain { Self::Any } else { Self::Text };
        };
        match core_suffix(tag).as_deref() {
            Some("str") => Self::Text,
            Some("bool") => Self::Bool,
            Some("int") => Self::Integer,
            Some("float") => Self::Float,
            Some("null") => Self::Null,
            Some("timestamp") => Self::Timestamp,
            Some("binary") => Self::Binary,
            _ => Self::Unknown,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Any | Self::Unknown => "value",
            Self::Text => "!!str",
            Self::Bool => "!!bool",
            Self::Integer => "!!int",
            Self::Float => "!!float",
            Self::Null => "!!null",
            Self::Timestamp => "!!timestamp",
            Self::Binary => "!!binary",
        }
    }
}

/// Whether a scalar used as a key is the merge key.
pub(super) fn is_merge(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
    text == "<<"
        && match tag {
            None => style == ScalarStyle::Plain,
            Some(tag) => is_non_specific(tag) || core_suffix(tag).as_deref() == Some("merge"),
        }
}

fn is_non_specific(tag: &Tag) -> bool {
    tag.handle.is_empty() && tag.suffix == "!"
}

fn core_suffix(tag: &Tag) -> Option<Cow<'_, str>> {
    const CORE: &str = "tag:yaml.org,2002:";
    if tag.handle == CORE {
        return Some(Cow::Borrowed(&tag.suffix));
    }
    format!("{}{}", tag.handle, tag.suffix).strip_prefix(CORE).map(|suffix| Cow::Owned(suffix.to_owned()))
}

/// Gives a scalar its type.
pub(super) fn resolve<'a>(text: Cow<'a, str>, style: ScalarStyle, tag: Option<&Tag>) -> Result<Scalar<'a>, Error> {
    let wanted = Wanted::of(tag, style);
    match wanted {
        Wanted::Text | Wanted::Unknown => return Ok(Scalar::Text(text)),
        Wanted::Binary => return binary(&text),
        Wanted::Timestamp if is_timestamp(&text) => return Ok(Scalar::Text(text)),
        _ => {}
    }
    let scalar = untagged(&text).unwrap_or(Scalar::Text(text));
    let found = match scalar {
        Scalar::Null => Wanted::Null,
        Scalar::Bool(_) => Wanted::Bool,
        Scalar::Integer(_) | Scalar::Unsigned(_) => Wanted::Integer,
        Scalar::Float(_) => Wanted::Float,
        Scalar::Text(_) => Wanted::Text,
    };
    match scalar {
        scalar if wanted == Wanted::Any || wanted == found => Ok(scalar),
        #[expect(clippy::cast_precision_loss, reason = "go-yaml converts the same way")]
        Scalar::Integer(integer) if wanted == Wanted::Float => Ok(Scalar::Float(integer as f64)),
        _ => Err(Error::Tag { found: found.name(), wanted: wanted.name() }),
    }
}

/// The value of a plain scalar that is not text.
fn untagged(text: &str) -> Option<Scalar<'static>> {
    let Some(&first) = text.as_bytes().first() else { return Some(Scalar::Null) };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(text),
        b'.' => word(text).or_else(|| separated_float(text)),
        b'0'..=b'9' | b'+' | b'-' => word(text).or_else(|| number(text)),
        _ => None,
    }
}

fn word(text: &str) -> Option<Scalar<'static>> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

fn number(text: &str) -> Option<Scalar<'static>> {
    let plain = if text.contains('_') { Cow::Owned(text.replace('_', "")) } else { Cow::Borrowed(text) };
    integer(&plain).or_else(|| float(&plain)).or_else(|| signed_binary(&plain))
}

/// An integer as Go reads it with base 0: `0x`, `0b`, `0o` and a mere leading zero (octal), an optional sign.
fn integer(text: &str) -> Option<Scalar<'static>> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &unsigned[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &unsigned[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0_i64.checked_sub_unsigned(magnitude).map(Scalar::Integer);
    }
    match i64::try_from(magnitude) {
        Ok(integer) => Some(Scalar::Integer(integer)),
        Err(_) if unsigned.len() == text.len() => Some(Scalar::Unsigned(magnitude)),
        Err(_) => None, // Go reads unsigned numbers without a sign only
    }
}

/// `0b-1` is -1 to go-yaml.
fn signed_binary(text: &str) -> Option<Scalar<'static>> {
    i64::from_str_radix(text.strip_prefix("0b")?, 2).ok().map(Scalar::Integer)
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, which is what Rust reads but for its words: `inf` and `nan`.
fn float(text: &str) -> Option<Scalar<'static>> {
    if text.bytes().any(|byte| byte.is_ascii_alphabetic() && !byte.eq_ignore_ascii_case(&b'e')) {
        return None;
    }
    text.parse().ok().filter(|float: &f64| float.is_finite()).map(Scalar::Float)
}

/// Behind a leading dot Go's own rule for underscores holds: only between digits.
fn separated_float(text: &str) -> Option<Scalar<'static>> {
    let bytes = text.as_bytes();
    let is_digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_digit);
    let is_separated = (1..bytes.len()).filter(|&at| bytes[at] == b'_').all(|at| is_digit(at - 1) && is_digit(at + 1));
    if is_separated { float(&text.replace('_', "")) } else { None }
}

/// A rough check: years of four digits, a month and a day, as every form that go-yaml knows begins.
fn is_timestamp(text: &str) -> bool {
    let date = text.split(['T', 't', ' ']).next().unwrap_or_default();
    let mut parts = date.split('-');
    let mut next = |lengths: std::ops::RangeInclusive<usize>| {
        parts.next().is_some_and(|part| lengths.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    next(4..=4) && next(1..=2) && next(1..=2) && parts.next().is_none()
}

/// Go puts U+FFFD in the place of each byte that is not UTF-8 when it writes JSON.
fn binary(text: &str) -> Result<Scalar<'static>, Error> {
    let base64: String = text.chars().filter(|character| !matches!(character, '\n' | '\r')).collect();
    let bytes = STANDARD.decode(base64).map_err(|_| Error::Binary)?;
    let mut decoded = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        decoded.push_str(chunk.valid());
        decoded.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, chunk.invalid().len()));
    }
    Ok(Scalar::Text(Cow::Owned(decoded)))
}

/// A float as kubectl sends it: `1.0` and `1e3` are the integers 1 and 1000 by the time they are JSON, which
/// matters to API types that hold integers. `None` for infinities and NaN.
pub(super) fn json_float(float: f64) -> Option<Value> {
    // Go writes the shortest digits that mean this float, padded with zeros, and reads those as an integer.
    if float.fract() == 0.0
        && let Ok(integer) = format!("{float}").parse::<i64>()
    {
        return Some(Value::from(integer));
    }
    Number::from_f64(float).map(Value::Number)
}

/// A float used as a key: six significant digits of 32-bit precision before the exponent form sets in.
pub(super) fn float_key(float: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "kubectl prints float keys with 32 bits")]
    let float = float as f32;
    if float.is_nan() {
        return ".nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    format!("{float}")
}

#[cfg(test)]
#[path = "scalar/tests.rs"]
mod tests;
