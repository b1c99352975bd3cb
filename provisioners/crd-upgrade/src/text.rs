//! Findings in words.

use std::fmt::{self, Display, Write as _};

use serde_json::Value;

use super::{Location, Rule, SAFE_UPGRADE_ANNOTATION, UnsafeChange};

/// The longest text of a value, in characters.
const MAX_VALUE_CHARS: usize = 200;

/// The longest list of values, in bytes.
const MAX_LIST_BYTES: usize = 1_000;

/// The longest path, in bytes: a finding has one, and there may be many of both.
pub(super) const MAX_PATH_BYTES: usize = 1_000;

/// How much is said of several findings under one heading, in bytes; the message of a condition holds 32,768.
const MAX_JOINED_BYTES: usize = 8_192;

impl Rule {
    /// Its name, which for the rules of OLM v1 is that of the `crdify` check.
    pub fn name(self) -> &'static str {
        match self {
            Self::StoredVersionRemoval => "storedVersionRemoval",
            Self::DataLoss => "dataLoss",
            Self::ExistingObject => "existingObject",
            Self::ServedVersionRemoval => "servedVersionRemoval",
            Self::Scope => "scope",
            Self::ExistingFieldRemoval => "existingFieldRemoval",
            Self::Default => "default",
            Self::Enum => "enum",
            Self::Maximum => "maximum",
            Self::MaxItems => "maxItems",
            Self::MaxLength => "maxLength",
            Self::MaxProperties => "maxProperties",
            Self::Minimum => "minimum",
            Self::MinItems => "minItems",
            Self::MinLength => "minLength",
            Self::MinProperties => "minProperties",
            Self::Nullable => "nullable",
            Self::OneOf => "oneOf",
            Self::Pattern => "pattern",
            Self::Required => "required",
            Self::Type => "type",
            Self::Unhandled => "unhandled",
        }
    }

    /// What the reference says before the findings of this rule.
    fn heading(self, crd: &str) -> String {
        match self {
            Self::StoredVersionRemoval | Self::ExistingObject => {
                format!("error validating existing CRs against new CRD's schema for {crd:?}: ")
            }
            Self::DataLoss => format!("risk of data loss updating {crd:?}: "),
            _ => format!("validating upgrade for CRD {crd:?}: "),
        }
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One line of a list under the name of the CRD: RukPak's text, or OLM v1's `<version>: <path>: <check>: <text>`.
impl Display for UnsafeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, rule, message, .. } = self;
        match (rule, &self.place) {
            (Rule::StoredVersionRemoval | Rule::DataLoss | Rule::ExistingObject, _) => f.write_str(message),
            (Rule::ExistingFieldRemoval | Rule::ServedVersionRemoval, _) | (_, Location::Definition) => {
                write!(f, "{rule}: {message}")
            }
            (_, Location::Version(version)) => write!(f, "{version}: {path}: {rule}: {message}"),
            (_, Location::Versions { from, to }) => write!(f, "{from} -> {to}: {path}: {rule}: {message}"),
        }
    }
}

/// Why a CRD is not applied: all `changes` of one CRD, whatever their severity, as one text.
///
/// Each kind of finding stands behind the reference's heading, several of a kind in brackets. Of each kind at most 8 KiB are
/// said, and what is left out is counted.
pub fn refusal<'a>(crd: &str, changes: impl IntoIterator<Item = &'a UnsafeChange>) -> String {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for change in changes {
        let heading = change.rule.heading(crd);
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, lines)) => lines.push(change.to_string()),
            None => groups.push((heading, vec![change.to_string()])),
        }
    }
    let texts: Vec<_> = groups.into_iter().map(|(heading, lines)| heading + &aggregate(lines)).collect();
    texts.join("; ")
}

/// The answer of the admission webhook that refuses `operation` (`UPDATE` or `CREATE`) for a reason that [`refusal`] gives.
pub fn denial(operation: &str, crd: &str, reason: &str) -> String {
    let switch = format!("set the {SAFE_UPGRADE_ANNOTATION:?} annotation to \"false\" on the CRD");
    switched(operation, crd, &switch, reason)
}

/// The same for what a ClusterExtension installs. It sets that annotation itself, by its spec.
pub fn denial_for_extension(operation: &str, crd: &str, extension: &str, reason: &str) -> String {
    let switch =
        format!("set spec.install.preflight.crdUpgradeSafety.enforcement of ClusterExtension {extension:?} to None");
    switched(operation, crd, &switch, reason)
}

fn switched(operation: &str, crd: &str, switch: &str, reason: &str) -> String {
    format!(
        "failed to validate safety of {operation} for CRD {crd:?} (NOTE: to disable this validation, {switch}): {reason}"
    )
}

/// Several texts as one, as the reference writes several errors.
pub(super) fn aggregate(texts: impl IntoIterator<Item = String>) -> String {
    let mut texts = texts.into_iter();
    let Some(first) = texts.next().map(|text| cut(text, MAX_JOINED_BYTES)) else { return String::new() };
    let Some(second) = texts.next() else { return first };
    let (mut joined, mut left_out) = (first, 0_usize);
    for text in std::iter::once(second).chain(texts) {
        if joined.len() + text.len() > MAX_JOINED_BYTES {
            left_out += 1;
        } else {
            joined.push_str(", ");
            joined.push_str(&text);
        }
    }
    if left_out > 0 {
        joined.push_str(", and ");
        joined.push_str(&left_out.to_string());
        joined.push_str(" more");
    }
    format!("[{joined}]")
}

/// A list as Go prints it.
pub(super) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut text = String::from("[");
    for item in items {
        if text.len() > 1 {
            text.push(' ');
        }
        if text.len() > MAX_LIST_BYTES {
            text.push('…');
            break;
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{item}");
    }
    text = cut(text, 2 * MAX_LIST_BYTES);
    text.push(']');
    text
}

/// The text, or its beginning and a mark.
pub(super) fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

/// A path of fields; what is longer than anybody reads is left out.
pub(super) fn path(fields: &[&str]) -> String {
    let mut path = String::new();
    for (index, field) in fields.iter().enumerate() {
        if path.len() > MAX_PATH_BYTES {
            break;
        }
        if index > 0 {
            path.push('.');
        }
        path.push_str(&field[..field.floor_char_boundary(MAX_PATH_BYTES)]);
    }
    cut(path, MAX_PATH_BYTES)
}

/// A value as JSON, shortened.
pub(super) fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A word of a schema that changed, by the name that the reference's types give it: `Format "" -> "email"`.
pub(super) fn field_change(word: &str, was: Option<&Value>, now: Option<&Value>) -> String {
    let scalar = |value: Option<&Value>, other: Option<&Value>| match (value, other) {
        (None | Some(Value::Null), Some(Value::String(_))) => Some("\"\"".to_owned()),
        (None | Some(Value::Null), Some(Value::Bool(_))) => Some("false".to_owned()),
        (None | Some(Value::Null), _) => Some("nil".to_owned()),
        (Some(Value::Array(_) | Value::Object(_)), _) => None,
        (Some(value), _) => Some(brief(value)),
    };
    let name = go_name(word);
    match (scalar(was, now), scalar(now, was)) {
        (Some(was), Some(now)) => format!("{name} {was} -> {now}"),
        (None, None) => format!("{name} <complex value> -> <complex value> (changed)"),
        (was, now) => {
            let complex = || "<complex value>".to_owned();
            format!("{name} {} -> {}", was.unwrap_or_else(complex), now.unwrap_or_else(complex))
        }
    }
}

fn go_name(word: &str) -> String {
    let (mut name, rest) = match word.strip_prefix("x-kubernetes-") {
        Some(rest) => (String::from("X"), rest),
        None => (String::new(), word.trim_start_matches('$')),
    };
    for part in rest.split('-') {
        let mut chars = part.chars();
        name.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(chars.as_str());
    }
    name
}
