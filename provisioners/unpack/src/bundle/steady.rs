//! Keeps what was said where an answer differs from the one before only by the number that its server gave it, or by a time.
//! Otherwise each attempt would write the status, and wake whoever watches it.

/// The number of a request has at least so many hexadecimal digits.
const SHORTEST: usize = 16;
/// Units of a wait, as servers write it.
const UNITS: [&str; 6] = ["ns", "us", "µs", "ms", "s", "m"];

/// `new`; or `old`, where they differ in nothing but numbers of requests, and times.
pub fn steady<'a>(old: Option<&'a str>, new: &'a str) -> &'a str {
    match old {
        Some(old) if words(old).eq(words(new)) => old,
        _ => new,
    }
}

/// The words and what stands between them. Numbers of requests are all the same, and so are times.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let belongs = |character: char| character.is_alphanumeric() || matches!(character, '-' | '_' | ':' | '.');
    text.split_inclusive(move |character| !belongs(character)).flat_map(move |word| {
        let (word, end) = word.split_at(word.trim_end_matches(|character| !belongs(character)).len());
        // What ends a sentence is no part of a number.
        let bare = word.trim_end_matches([':', '.']);
        [if is_request(bare) || is_time(bare) { "" } else { bare }, &word[bare.len()..], end]
    })
}

/// A number in hexadecimal, with hyphens as in UUIDs or without. A digest has `sha256:` before it, so it is none.
fn is_request(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_hexdigit).count();
    digits >= SHORTEST && digits + word.bytes().filter(|byte| *byte == b'-').count() == word.len()
}

/// A wait such as `13.4ms`, or a time such as `2026-01-01T00:00:00Z`.
fn is_time(word: &str) -> bool {
    let unit = word.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
    let is_wait = unit.len() < word.len() && UNITS.contains(&unit);
    is_wait || word.parse::<jiff::Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_requests_are_no_news() {
        for (old, new) in [
            (
                "answered 503: busy (request 0c6f2a9e-77d1-4a27-9b1c-000000000001)",
                "answered 503: busy (request 0c6f2a9e-77d1-4a27-9b1c-000000000002)",
            ),
            ("429: trace 5759e988bd862e3f.", "429: trace 99b8f04b9e46be04."),
            ("429: retry-after: 13.4ms, allowed: 44000/minute", "429: retry-after: 9ms, allowed: 44000/minute"),
            ("until 2026-01-01T00:00:00Z: busy", "until 2026-01-01T00:00:07.5Z: busy"),
        ] {
            assert_eq!(steady(Some(old), new), old);
            assert_eq!(steady(None, new), new);
        }
    }

    #[test]
    fn everything_else_is_news() {
        for (old, new) in [
            ("the registry answered 503", "the registry answered 404"),
            ("no answer: connection refused", "no answer: timed out"),
            ("a", "a: b"),
            ("a b", "a-b"),
            ("", "a"),
            ("no answer from registry-mirror-01.corp", "no answer from registry-mirror-02.corp"),
            ("configmap pump-manifests-part-1", "configmap pump-manifests-part-2"),
            ("layer sha256:0000000000000001", "layer sha256:0000000000000002"),
            ("127.0.0.1:5000", "127.0.0.1:5001"),
        ] {
            assert_eq!(steady(Some(old), new), new);
        }
    }
}
