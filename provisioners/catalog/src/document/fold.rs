//! Names of fields, whose case does not count.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Visitor};

/// A name without its case, as Unicode folds it: the long s and the Kelvin sign are letters of `schema` and `package` too.
///
/// Capitals first and small letters then is the full folding of every letter but a few of Cherokee and Georgian.
pub(super) fn fold(name: &str) -> Cow<'_, str> {
    let is_small = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    if name.bytes().all(is_small) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect())
}

/// Whether `key` is the field `name` (ASCII) in some case.
pub(super) fn is_same(key: &str, name: &str) -> bool {
    if key.is_ascii() { key.eq_ignore_ascii_case(name) } else { fold(key).eq_ignore_ascii_case(name) }
}

/// Reads a key and gives what the function makes of it, without keeping the text.
pub(super) struct Name<F>(pub F);

impl<'de, T, F: FnOnce(&str) -> T> DeserializeSeed<'de> for Name<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for Name<F> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<T, E> {
        Ok(self.0(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_folded_as_unicode_does() {
        for (key, folded) in [
            ("schema", "schema"),
            ("sCHEMA", "schema"),
            ("\u{17f}chema", "schema"),
            ("pac\u{212a}age", "package"),
            ("\u{df}", "ss"),
            ("SS", "ss"),
            ("\u{3c2}", "\u{3c3}"),
            ("na-me", "na-me"),
        ] {
            assert_eq!(fold(key), folded, "{key}");
        }
        assert!(is_same("DefaultChannel", "defaultChannel") && is_same("pac\u{212a}age", "package"));
        assert!(!is_same("package ", "package"));
    }
}
