//! The rules for what one schema says itself, without its fields, list items and map values.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Rule;
use super::effort::Effort;
use super::same::{is_unset, says_the_same};
use super::text;

/// What differs at one path.
pub(super) struct Difference {
    pub rule: Rule,
    pub was: Option<String>,
    pub now: Option<String>,
    pub message: String,
}

type Schema = Map<String, Value>;

const UPPER: [(&str, Rule); 4] = [
    ("maximum", Rule::Maximum),
    ("maxItems", Rule::MaxItems),
    ("maxLength", Rule::MaxLength),
    ("maxProperties", Rule::MaxProperties),
];

const LOWER: [(&str, Rule); 4] = [
    ("minimum", Rule::Minimum),
    ("minItems", Rule::MinItems),
    ("minLength", Rule::MinLength),
    ("minProperties", Rule::MinProperties),
];

/// Words that have a rule of their own, that are looked at where they lead to, or that document.
const HANDLED: [&str; 16] = [
    "default",
    "enum",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minimum",
    "minItems",
    "minLength",
    "minProperties",
    "nullable",
    "oneOf",
    "pattern",
    "required",
    "type",
    "description",
];

impl Difference {
    pub fn new(rule: Rule, was: Option<&Value>, now: Option<&Value>, message: String) -> Self {
        Self { rule, was: was.map(text::brief), now: now.map(text::brief), message }
    }
}

/// Everything that the rules find between two schemas, one difference a rule.
pub(super) fn differences(old: &Schema, new: &Schema, effort: &Effort<'_>, found: &mut dyn FnMut(Difference)) {
    let mut pair = |rule, word: &str, message: Option<String>| {
        if let Some(message) = message {
            found(Difference::new(rule, value(old, word), value(new, word), message));
        }
    };
    pair(Rule::Default, "default", default(value(old, "default"), value(new, "default")));
    pair(Rule::Enum, "enum", allowed_values(old, new));
    for (word, rule) in UPPER {
        pair(rule, word, bound(value(old, word), value(new, word), ["maximum", "decreased"], Ordering::Less));
    }
    for (word, rule) in LOWER {
        pair(rule, word, bound(value(old, word), value(new, word), ["minimum", "increased"], Ordering::Greater));
    }
    pair(Rule::Nullable, "nullable", nullable(old, new));
    pair(Rule::OneOf, "oneOf", one_of(old, new, effort));
    pair(Rule::Pattern, "pattern", pattern(text_of(old, "pattern"), text_of(new, "pattern")));
    pair(Rule::Required, "required", required(old, new));
    let (was, now) = (text_of(old, "type"), text_of(new, "type"));
    pair(Rule::Type, "type", (was != now).then(|| format!("type changed : {was:?} -> {now:?}")));
    if let Some(difference) = unhandled(old, new, effort) {
        found(difference);
    }
}

fn value<'a>(schema: &'a Schema, word: &str) -> Option<&'a Value> {
    schema.get(word).filter(|value| !value.is_null())
}

fn text_of<'a>(schema: &'a Schema, word: &str) -> &'a str {
    value(schema, word).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(schema: &'a Schema, word: &str) -> &'a [Value] {
    value(schema, word).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn default(was: Option<&Value>, now: Option<&Value>) -> Option<String> {
    match (was, now) {
        (None, Some(now)) => Some(format!("default added when there was none previously : {:?}", text::brief(now))),
        (Some(_), None) => Some("default value removed".to_owned()),
        (Some(was), Some(now)) if was != now => {
            Some(format!("default value changed : {:?} -> {:?}", text::brief(was), text::brief(now)))
        }
        _ => None,
    }
}

fn allowed_values(old: &Schema, new: &Schema) -> Option<String> {
    let set = |schema| items(schema, "enum").iter().map(Value::to_string).collect::<BTreeSet<_>>();
    let (was, now) = (set(old), set(new));
    if was.is_empty() && !now.is_empty() {
        return Some(format!("enum constraint added when there was none previously : {}", text::list(&now)));
    }
    // An enum that is gone altogether allows more, but the reference refuses its removal like that of a value.
    let removed: Vec<_> = was.difference(&now).collect();
    (!removed.is_empty()).then(|| format!("allowed enum values removed : {}", text::list(removed)))
}

fn bound(was: Option<&Value>, now: Option<&Value>, [name, moved]: [&str; 2], tighter: Ordering) -> Option<String> {
    let now = now.and_then(Value::as_f64)?;
    match was.and_then(Value::as_f64) {
        None => Some(format!("{name} constraint added when there was none previously : {now}")),
        Some(was) if now.partial_cmp(&was) == Some(tighter) => Some(format!("{name} {moved} : {was} -> {now}")),
        Some(_) => None,
    }
}

fn nullable(old: &Schema, new: &Schema) -> Option<String> {
    let flag = |schema| value(schema, "nullable").is_some_and(|value| value == true);
    match (flag(old), flag(new)) {
        (false, true) => Some("nullable added : false -> true".to_owned()),
        (true, false) => Some("nullable removed : true -> false".to_owned()),
        _ => None,
    }
}

fn one_of(old: &Schema, new: &Schema, effort: &Effort<'_>) -> Option<String> {
    let (was, now) = (items(old, "oneOf"), items(new, "oneOf"));
    let missing = |from: &[Value], other: &[Value]| {
        let missing = from
            .iter()
            .filter(|item| !other.iter().any(|other| effort.is_spent() || says_the_same(item, other, effort)));
        missing.map(text::brief).collect::<Vec<_>>()
    };
    if was.is_empty() && !now.is_empty() {
        let added = text::list(now.iter().map(text::brief));
        return Some(format!("oneOf constraint added when there was none previously: {added}"));
    }
    let (removed, added) = (missing(was, now), missing(now, was));
    let removed = (!removed.is_empty()).then(|| format!("allowed oneOf schemas removed: {}", text::list(removed)));
    let added = (!added.is_empty()).then(|| format!("allowed oneOf schemas added: {}", text::list(added)));
    let messages: Vec<_> = removed.into_iter().chain(added).collect();
    (!messages.is_empty()).then(|| text::aggregate(messages))
}

fn pattern(was: &str, now: &str) -> Option<String> {
    let what = match (was.is_empty(), now.is_empty()) {
        _ if was == now => return None,
        (true, _) => "added",
        (_, true) => "removed",
        _ => "changed",
    };
    Some(format!("pattern {what} : {was:?} -> {now:?}"))
}

fn required(old: &Schema, new: &Schema) -> Option<String> {
    let set = |schema| items(schema, "required").iter().filter_map(Value::as_str).collect::<BTreeSet<_>>();
    let added: Vec<_> = set(new).difference(&set(old)).copied().collect();
    (!added.is_empty()).then(|| format!("new required fields: {}", text::list(added)))
}

fn unhandled(old: &Schema, new: &Schema, effort: &Effort<'_>) -> Option<Difference> {
    let words: BTreeSet<&str> = old.keys().chain(new.keys()).map(String::as_str).collect();
    let mut changed =
        words.into_iter().filter(|word| is_unhandled(word, old.get(*word), new.get(*word), effort)).peekable();
    changed.peek()?;
    let (mut was, mut now, mut texts) = (Schema::new(), Schema::new(), Vec::new());
    for word in changed {
        texts.push(text::field_change(word, old.get(word), new.get(word)));
        was.extend(old.get(word).map(|value| (word.to_owned(), value.clone())));
        now.extend(new.get(word).map(|value| (word.to_owned(), value.clone())));
    }
    let message = format!("unhandled changes found ({})", texts.join("; "));
    Some(Difference::new(Rule::Unhandled, Some(&Value::Object(was)), Some(&Value::Object(now)), message))
}

fn is_unhandled(word: &str, was: Option<&Value>, now: Option<&Value>, effort: &Effort<'_>) -> bool {
    let both_unset = is_unset(was) && is_unset(now);
    match word {
        "properties" => false,
        // A schema here is compared where it leads to; what it was is a removed field, and a new one constrains nothing
        // that could be said before.
        "items" | "additionalProperties" if was.is_some_and(Value::is_object) => false,
        "items" | "additionalProperties" if was.is_none() && now.is_some_and(Value::is_object) => false,
        "additionalProperties" => was != now && (was.is_some() || now.is_some_and(|now| now == false)),
        "allOf" | "anyOf" | "not" => {
            !both_unset && !says_the_same(was.unwrap_or(&Value::Null), now.unwrap_or(&Value::Null), effort)
        }
        _ if HANDLED.contains(&word) => false,
        _ => was != now && !both_unset,
    }
}
