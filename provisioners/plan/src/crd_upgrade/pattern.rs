//! The API server's regular expressions (Go's RE2) as ours.
//!
//! Both are linear in the text. They differ in a few letters: Go's classes are ASCII, and it takes literally what the
//! `regex` crate reads as a nested class, a set operation or a bad repetition.

use regex::{Regex, RegexBuilder};

/// The largest compiled pattern, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// The pattern, if it can be expressed.
pub(super) fn compile(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(&translate(pattern)).size_limit(MAX_COMPILED_BYTES).build().ok()
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
            out.push_str(&regex::escape(quoted));
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
    use super::compile;

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
                assert!(regex.is_match(text), "{pattern} should match {text}");
            }
            for text in other {
                assert!(!regex.is_match(text), "{pattern} should not match {text}");
            }
        }
    }

    #[test]
    fn what_cannot_be_expressed_is_not_guessed() {
        for pattern in ["(", r"\8", r"\C", "[", &format!("{}{}", "(a{1000}", "){1000}")] {
            assert!(compile(pattern).is_none(), "{pattern}");
        }
    }
}
