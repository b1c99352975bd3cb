//! The API server's regular expressions (Go's RE2) as ours.
//!
//! Both are linear in the text. They differ in a few letters: Go's classes are ASCII, and it takes literally what the
//! `regex` crate reads as a nested class, a set operation or a bad repetition.
//!
//! A few bytes of pattern compile to megabytes (`(.{50}){50}`), so all patterns of a schema share one budget. Of the crate
//! `regex` only the engine is used: it says how large a compiled pattern is, and leaves it to us what it keeps beside.

use std::collections::HashMap;

use regex_automata::meta::{Config, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;

use super::effort::Effort;

/// The largest compiled pattern, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;
/// The longest pattern, in bytes: parsing takes a hundred times as much.
const MAX_PATTERN_BYTES: usize = 8 << 10;
/// All patterns of a schema, compiled, in bytes.
pub const MAX_TOTAL_BYTES: usize = 16 << 20;
/// The most different patterns of a schema.
pub const MAX_PATTERNS: usize = 2_000;
/// What all patterns of a schema may keep for speed while they are used, in bytes.
const CACHE_BYTES: usize = 8 << 20;
/// The least that one pattern keeps, in bytes, and the most.
const CACHE_EACH: (usize, usize) = (4 << 10, 256 << 10);

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// Steps for each byte of a text.
    steps: u64,
}

/// The different patterns of a schema. `None` is one that is not checked: it cannot be expressed, or is past the budget.
#[derive(Debug, Default)]
pub(super) struct Patterns<'a>(HashMap<&'a str, Option<Pattern>>);

impl<'a> Patterns<'a> {
    /// Notes a pattern.
    pub fn add(&mut self, text: &'a str) {
        if self.0.len() < MAX_PATTERNS {
            self.0.entry(text).or_default();
        }
    }

    /// Compiles what was noted, as far as the budget goes.
    pub fn compile(&mut self, effort: &Effort<'_>) {
        let mut left = MAX_TOTAL_BYTES;
        let (least, most) = CACHE_EACH;
        let cache_bytes = (CACHE_BYTES / self.0.len().max(1)).clamp(least, most);
        // The cheap ones first, and always the same ones.
        let mut texts: Vec<&str> = self.0.keys().copied().collect();
        texts.sort_unstable_by_key(|text| (text.len(), *text));
        for text in texts {
            if !effort.spend(1 + text.len() as u64) {
                return;
            }
            let most = left.min(MAX_COMPILED_BYTES);
            let compiled = compile(text, most, cache_bytes);
            // One that does not fit has cost as much as one that does.
            left -= compiled.as_ref().map_or(most, |pattern| pattern.regex.memory_usage()).min(left);
            effort.spend(most as u64 / 256);
            self.0.insert(text, compiled);
        }
    }

    /// The pattern, if it is checked.
    pub fn get(&self, text: &str) -> Option<&Pattern> {
        self.0.get(text)?.as_ref()
    }
}

impl Pattern {
    /// Whether the text matches; true as well once there are no steps left.
    pub fn is_match(&self, text: &str, effort: &Effort<'_>) -> bool {
        !effort.spend(1 + (text.len() as u64).saturating_mul(self.steps)) || self.regex.is_match(text)
    }
}

/// The pattern, if it can be expressed in so many bytes.
fn compile(pattern: &str, most_bytes: usize, cache_bytes: usize) -> Option<Pattern> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return None;
    }
    // No captures are asked for; without what would be quicker for those that are, and takes memory for each pattern.
    let config = Config::new()
        .nfa_size_limit(Some(most_bytes))
        .hybrid_cache_capacity(cache_bytes)
        .which_captures(WhichCaptures::Implicit)
        .onepass(false)
        .backtrack(false);
    let builder = Regex::builder().configure(config).syntax(syntax::Config::new()).build(&translate(pattern));
    let regex = builder.ok()?;
    let steps = 1 + regex.memory_usage() as u64 / 4096;
    Some(Pattern { regex, steps })
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut class = Class::Outside;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        rest = match letter {
            '\\' => escape(after, class, &mut out),
            '[' if class == Class::Outside => {
                let (start, end) = class_start(after);
                out.push_str(start);
                class = Class::Inside;
                end
            }
            '[' => match after.strip_prefix(':').and_then(|named| named.find(":]")) {
                Some(end) => {
                    let (named, end) = after.split_at(end + 3);
                    out.push('[');
                    out.push_str(named);
                    end
                }
                None => literal('[', after, &mut out),
            },
            ']' if class == Class::Inside => {
                out.push(']');
                class = Class::Outside;
                after
            }
            '&' | '~' if class == Class::Inside => literal(letter, after, &mut out),
            '-' if class == Class::Inside && after.starts_with('-') => literal('-', after, &mut out),
            '{' if class == Class::Outside && !is_repetition(after) => literal('{', after, &mut out),
            '}' if class == Class::Outside => {
                out.push('}');
                after
            }
            letter => {
                out.push(letter);
                after
            }
        };
    }
    out
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Outside,
    Inside,
}

fn literal<'a>(letter: char, after: &'a str, out: &mut String) -> &'a str {
    out.push('\\');
    out.push(letter);
    after
}

/// The start of a class; a bracket that closes it at once stands for itself.
fn class_start(after: &str) -> (&'static str, &str) {
    if let Some(rest) = after.strip_prefix("^]") {
        ("[^\\]", rest)
    } else if let Some(rest) = after.strip_prefix('^') {
        ("[^", rest)
    } else if let Some(rest) = after.strip_prefix(']') {
        ("[\\]", rest)
    } else {
        ("[", after)
    }
}

fn escape<'a>(after: &'a str, class: Class, out: &mut String) -> &'a str {
    let Some(letter) = after.chars().next() else {
        out.push('\\');
        return after;
    };
    let rest = &after[letter.len_utf8()..];
    let ascii = match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => "[\\t\\n\\x0C\\r ]",
        'S' => "[^\\t\\n\\x0C\\r ]",
        'b' if class == Class::Outside => "(?-u:\\b)",
        // Not negated ASCII: that could split a character, and the crate refuses it.
        'Q' if class == Class::Outside => {
            let (quoted, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
            for letter in quoted.chars() {
                if letter.is_ascii_punctuation() && !matches!(letter, '<' | '>') {
                    out.push('\\');
                }
                out.push(letter);
            }
            return rest;
        }
        '<' | '>' => {
            out.push(letter);
            return rest;
        }
        _ => {
            out.push('\\');
            out.push(letter);
            return rest;
        }
    };
    out.push_str(ascii);
    rest
}

/// Whether this, after `{`, counts: `3}`, `3,}` or `3,5}`.
fn is_repetition(after: &str) -> bool {
    let Some((inside, _)) = after.split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(pattern: &str) -> Option<Pattern> {
        super::compile(pattern, MAX_COMPILED_BYTES, CACHE_EACH.0)
    }

    fn matches(pattern: &Pattern, text: &str) -> bool {
        pattern.is_match(text, &Effort::default())
    }

    #[test]
    fn patterns_mean_what_go_means() {
        // The pattern, texts that match, texts that do not.
        let table: [(&str, &[&str], &[&str]); 15] = [
            (r"^\d+$", &["12"], &["١٢", ""]),
            (r"^\w$", &["a", "_"], &["ä"]),
            (r"^[\w.-]+$", &["a.b-c"], &["a b"]),
            (r"^[\w-.]+$", &["a.b-c"], &["a b"]),
            (r"^\S+$", &["a\u{a0}"], &["a b"]),
            (r"^[[a]+$", &["[a"], &["b"]),
            (r"^[]a]$", &["]", "a"], &["b"]),
            (r"^[^]a]$", &["b"], &["]"]),
            (r"^[a&&b]$", &["&", "a", "b"], &["c"]),
            (r"^[[:alpha:]]+$", &["ab"], &["1", ":"]),
            (r"^{a,}$", &["{a,}"], &["a"]),
            (r"^a{2,3}$", &["aa"], &["a"]),
            (r"^\Qa.b\E$", &["a.b"], &["axb"]),
            (r"^\<a\>$", &["<a>"], &["a"]),
            (
                r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
                &["1Gi", "0.5"],
                &["1GiB"],
            ),
        ];
        for (pattern, matching, other) in table {
            let regex = compile(pattern).unwrap_or_else(|| panic!("{pattern} should compile"));
            for text in matching {
                assert!(matches(&regex, text), "{pattern} should match {text}");
            }
            for text in other {
                assert!(!matches(&regex, text), "{pattern} should not match {text}");
            }
        }
    }

    #[test]
    fn what_cannot_be_expressed_is_not_guessed() {
        for pattern in ["(", r"\8", r"\C", "[", &format!("{}{}", "(a{1000}", "){1000}")] {
            assert!(compile(pattern).is_none(), "{pattern}");
        }
    }
    #[test]
    fn all_patterns_of_a_schema_share_one_budget() {
        let bombs: Vec<String> = (0..100).map(|index| format!("(.{{50}}){{20}}{index}")).collect();
        let mut patterns = Patterns::default();
        patterns.add("^a$");
        for bomb in &bombs {
            patterns.add(bomb);
        }
        patterns.compile(&Effort::default());
        assert!(patterns.get("^a$").is_some(), "the cheap ones are checked");
        let compiled: Vec<_> = patterns.0.values().flatten().collect();
        let bytes: usize = compiled.iter().map(|pattern| pattern.regex.memory_usage()).sum();
        assert!((1..100).contains(&compiled.len()) && bytes <= MAX_TOTAL_BYTES + 4 * MAX_COMPILED_BYTES, "{bytes}");
    }

    #[test]
    fn different_patterns_are_counted_and_those_past_the_limit_not_compiled() {
        let texts: Vec<String> = (0..MAX_PATTERNS + 10).map(|index| format!("^{index:05}$")).collect();
        let mut patterns = Patterns::default();
        for text in texts.iter().chain(&texts) {
            patterns.add(text);
        }
        patterns.compile(&Effort::default());
        let compiled = texts.iter().filter(|text| patterns.get(text).is_some()).count();
        assert!((1_000..=MAX_PATTERNS).contains(&compiled), "{compiled}");
    }

    #[test]
    fn a_long_pattern_is_not_parsed() {
        assert!(compile(&"a".repeat(MAX_PATTERN_BYTES)).is_some());
        assert!(compile(&"a".repeat(MAX_PATTERN_BYTES + 1)).is_none());
    }

    #[test]
    fn whoever_stops_it_is_heard() {
        let bombs: Vec<String> = (0..1_000).map(|index| format!("(.{{50}}){{20}}{index}")).collect();
        let mut patterns = Patterns::default();
        for bomb in &bombs {
            patterns.add(bomb);
        }
        patterns.compile(&Effort::until(&|| true));
        assert!(patterns.0.values().flatten().count() <= 8);
    }
}
