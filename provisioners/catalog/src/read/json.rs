//! Where a JSON object ends, found piece by piece: braces are counted outside of strings. Whether it is JSON, the parser says.

/// The state between two pieces.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    depth: usize,
    /// How many objects and lists lie in each other at the deepest place so far.
    pub(super) deepest: usize,
    is_in_string: bool,
    /// The last byte was a backslash in a string.
    is_escaped: bool,
}

impl Scanner {
    /// Goes over the next piece. Gives the length of the part that ends the object, if it ends here.
    pub(super) fn scan(&mut self, piece: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < piece.len() {
            if self.is_escaped {
                self.is_escaped = false;
                at += 1;
                continue;
            }
            if self.is_in_string {
                at += memchr::memchr2(b'"', b'\\', &piece[at..])?;
                self.is_escaped = piece[at] == b'\\';
                self.is_in_string = self.is_escaped;
                at += 1;
                continue;
            }
            match piece[at] {
                b'"' => self.is_in_string = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    self.deepest = self.deepest.max(self.depth);
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_object_ends_with_its_last_brace() {
        for (text, end) in [
            ("{}", Some(2)),
            ("{}{}", Some(2)),
            (r#"{"a": "}"} "#, Some(10)),
            (r#"{"a\"}": [{}, {"b": "\\"}]}x"#, Some(27)),
            (r#"{"a": "\\\"}"}"#, Some(14)),
            ("{", None),
            (r#"{"a}"#, None),
        ] {
            assert_eq!(Scanner::default().scan(text.as_bytes()), end, "{text}");
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in r#"\{["\\{}\[\]ab]{0,40}"#, cut in 0usize..41) {
            let bytes = text.as_bytes();
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            let mut scanner = Scanner::default();
            let found = scanner.scan(head).or_else(|| scanner.scan(tail).map(|end| end + head.len()));
            prop_assert_eq!(found, Scanner::default().scan(bytes));
        }
    }
}
