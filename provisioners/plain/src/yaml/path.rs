//! Names of fields in messages.

use std::fmt::Write as _;

use crate::warning::shortened;

/// How many bytes of a key are shown: a key can be as long as its file.
const KEY_BYTES: usize = 64;

/// A field's path as kubectl writes it: `spec.ports[0].name`, `metadata.labels["app.kubernetes.io/name"]`.
#[derive(Default)]
pub(super) struct FieldPath(String);

impl FieldPath {
    pub(super) fn key(&mut self, key: &str) {
        let is_plain = !key.is_empty()
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$'));
        if !is_plain {
            let _ = write!(self.0, "[{:?}]", shortened(key, KEY_BYTES)); // writing to a String cannot fail
            return;
        }
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(&shortened(key, KEY_BYTES));
    }

    pub(super) fn index(&mut self, index: usize) {
        let _ = write!(self.0, "[{index}]");
    }

    pub(super) fn finish(self) -> String {
        if self.0.is_empty() { "at the top".to_owned() } else { self.0 }
    }
}
