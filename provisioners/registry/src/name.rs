//! Names of generated objects, bit for bit those of the reference, so that an upgrade from one to the other renames nothing.

use num_bigint::BigUint;
use serde::Serialize;
use sha2::{Digest, Sha224};

/// The longest name that a label value, and so a Service, can have.
const MAX_BYTES: usize = 63;

/// `<base>-<suffix>`; the base is cut so that the name has at most 63 bytes.
///
/// As in the reference, a base and a suffix of exactly 63 bytes together give a name of 64, and a cut base may end
/// in `-` or `.`.
pub fn object_name(base: &str, suffix: &str) -> String {
    let cut = if base.len() + suffix.len() > MAX_BYTES {
        &base[..base.floor_char_boundary((MAX_BYTES - 1).saturating_sub(suffix.len()))]
    } else {
        base
    };
    format!("{cut}-{suffix}")
}

/// The reference's hash of a value: SHA-224 over its Go JSON and a newline, in lower-case base 36.
///
/// Fields are hashed in the order `value` serialises them in.
pub fn hash<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let mut json = go_escaped(&serde_json::to_string(value)?);
    json.push('\n');
    Ok(BigUint::from_bytes_be(&Sha224::digest(json.as_bytes())).to_str_radix(36))
}

/// JSON text as Go's encoder writes it: `<`, `>`, `&`, U+2028 and U+2029 are escaped. They only occur in strings.
pub(crate) fn go_escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::Permission;

    fn permission(json: &str) -> Permission {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_hash_is_over_go_json() {
        // Worked out apart: base 36 of SHA-224 over the bytes that Go's json.Encoder writes.
        let absent = permission(r#"{"serviceAccountName":"a<b","rules":[{"apiGroups":[]}]}"#);
        assert_eq!(
            go_escaped(&serde_json::to_string(&absent).unwrap()),
            r#"{"serviceAccountName":"a\u003cb","rules":[{"verbs":null}]}"#
        );
        assert_eq!(hash(&absent).unwrap(), "2wod2owk0yga5st2vc2bj1za280ryaxcdsdkmauuvu5a");
        let no_rules = permission("{}");
        assert_eq!(serde_json::to_string(&no_rules).unwrap(), r#"{"serviceAccountName":"","rules":null}"#);
        let all = permission(
            r#"{"rules":[{"nonResourceURLs":["/"],"resourceNames":["n"],"resources":["r"],"apiGroups":[""],"verbs":[]}]}"#,
        );
        assert_eq!(
            serde_json::to_string(&all).unwrap(),
            r#"{"serviceAccountName":"","rules":[{"verbs":[],"apiGroups":[""],"resources":["r"],"resourceNames":["n"],"nonResourceURLs":["/"]}]}"#
        );
    }

    #[test]
    fn the_base_is_cut_as_the_reference_cuts_it() {
        assert_eq!(object_name("base", "suffix"), "base-suffix");
        assert_eq!(object_name(&"b".repeat(60), "end").len(), 64);
        assert_eq!(object_name(&"b".repeat(61), "end").len(), 63);
        assert_eq!(object_name("é", &"s".repeat(62)), format!("-{}", "s".repeat(62)));
        assert_eq!(object_name("b", &"s".repeat(80)), format!("-{}", "s".repeat(80)));
    }
}
