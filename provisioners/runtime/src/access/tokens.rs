//! Bearer tokens before anybody is asked about them: what cannot be one, and what was no good a moment ago.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// Longest token. Those of people with hundreds of groups have some kilobytes.
const LONGEST: usize = 16 * 1024;
/// How long a token that was no good is not asked about again.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// Refused tokens that are remembered.
const REMEMBERED: usize = 4096;

/// Whether it is worth a question: visible ASCII and, if it has the three parts of a JSON Web Token, the header of one. API
/// servers take tokens of other forms, too.
pub fn is_plausible(token: &str) -> bool {
    let is_text = (1..=LONGEST).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
    let parts: Vec<&str> = token.split('.').collect();
    is_text && (parts.len() != 3 || has_header(parts[0]))
}

fn has_header(part: &str) -> bool {
    let Ok(json) = BASE64_URL_SAFE_NO_PAD.decode(part) else { return false };
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&json)
        .is_ok_and(|header| header.contains_key("alg"))
}

/// Tokens that were no good a moment ago, by their SHA-256. Bounded; the oldest are forgotten first.
#[derive(Debug, Default)]
pub struct Refused {
    order: VecDeque<(Instant, Name)>,
    names: HashSet<Name>,
}

type Name = [u8; 32];

impl Refused {
    /// Whether it was refused just before `now`.
    pub fn contains(&mut self, token: &str, now: Instant) -> bool {
        self.forget(now);
        self.names.contains(&name(token))
    }

    /// Remembers that it was refused.
    pub fn insert(&mut self, token: &str, now: Instant) {
        self.forget(now);
        let name = name(token);
        if self.names.insert(name) {
            self.order.push_back((now, name));
        }
        if self.order.len() > REMEMBERED
            && let Some((_, oldest)) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }

    fn forget(&mut self, now: Instant) {
        while let Some((at, name)) = self.order.front()
            && now.duration_since(*at) >= REFUSED_FOR
        {
            self.names.remove(name);
            self.order.pop_front();
        }
    }
}

fn name(token: &str) -> Name {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_token_is_known_without_a_question() {
        let long = "x".repeat(LONGEST);
        for token in
            ["nonsense", "sha256~Zm9v", "abcdef.0123456789abcdef", "eyJhbGciOiJSUzI1NiJ9.e30.AAAA", "a:b", &long]
        {
            assert!(is_plausible(token), "{token}");
        }
        let longer = "x".repeat(LONGEST + 1);
        for token in ["", "two words", "t\u{e4}ken", "a\tb", "a.b.c", "e30.e30.AAAA", "..", "W10.e30.AAAA", &longer] {
            assert!(!is_plausible(token), "{token}");
        }
    }

    #[test]
    fn a_refused_token_is_remembered_for_ten_seconds() {
        let (mut refused, now) = (Refused::default(), Instant::now());
        assert!(!refused.contains("a", now));
        refused.insert("a", now);
        let almost = Duration::from_millis(9_999);
        assert!(refused.contains("a", now + almost));
        assert!(!refused.contains("b", now));
        refused.insert("a", now + almost);
        assert!(!refused.contains("a", now + REFUSED_FOR), "asking again does not make it longer");
        assert_eq!((refused.order.len(), refused.names.len()), (0, 0));
    }

    #[test]
    fn ever_new_tokens_take_no_more_memory() {
        let (mut refused, now) = (Refused::default(), Instant::now());
        for token in 0..REMEMBERED + 10 {
            refused.insert(&token.to_string(), now);
        }
        assert_eq!((refused.order.len(), refused.names.len()), (REMEMBERED, REMEMBERED));
        assert!(!refused.contains("9", now) && refused.contains("10", now));
    }
}
