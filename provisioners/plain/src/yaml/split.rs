//! Files to documents, as kubectl's reader does it: at each line that is `---`, before any YAML is parsed.
//!
//! A line that begins with `---` is a document marker to YAML wherever it stands, in block scalars too, so this is
//! what a YAML parser would see. Two things differ from kubectl, which refuses both: content behind the marker
//! (`--- {a: b}`) is read, and a document may begin with directives (`%YAML 1.1`).

/// The text of one document.
#[derive(Debug, PartialEq)]
pub(super) struct Chunk<'a> {
    pub text: &'a str,
    /// The line of the file, from 1, that `text` begins at.
    pub line: usize,
}

/// What the lines seen so far amount to.
#[derive(Clone, Copy, PartialEq)]
enum Content {
    /// White space and comments.
    None,
    /// And directives.
    Directives,
    Some,
}

/// The documents of `text` that hold more than white space and comments.
pub(super) fn chunks(text: &str) -> impl Iterator<Item = Chunk<'_>> {
    let mut lines = Lines { text, at: 0, line: 0 };
    let mut start = Start { at: 0, line: 1 };
    let mut content = Content::None;
    std::iter::from_fn(move || {
        loop {
            if content == Content::Some {
                lines.skip_to_marker();
            }
            let Some((at, line_text)) = lines.next() else {
                if content == Content::None {
                    return None;
                }
                content = Content::None;
                return Some(Chunk { text: &text[start.at..], line: start.line });
            };
            let Some(after) = marker(line_text) else {
                content = content.with(line_text);
                continue;
            };
            let is_bare = after.is_empty() || after.starts_with('#');
            let before = content;
            if before == Content::Directives {
                content = Content::Some; // the marker ends the directives, not the document
                continue;
            }
            let chunk = Chunk { text: &text[start.at..at], line: start.line };
            start = if is_bare { Start { at: lines.at, line: lines.line + 1 } } else { Start { at, line: lines.line } };
            content = if is_bare { Content::None } else { Content::Some };
            if before == Content::Some {
                return Some(chunk);
            }
        }
    })
}

struct Start {
    at: usize,
    line: usize,
}

struct Lines<'a> {
    text: &'a str,
    /// Where the next line begins.
    at: usize,
    /// How many lines were returned.
    line: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        let at = self.at;
        let rest = &self.text[at..];
        if rest.is_empty() {
            return None;
        }
        let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
        self.at += length;
        self.line += 1;
        Some((at, &rest[..length]))
    }

    /// Passes over lines that do not begin with `---`. Some line was returned before.
    fn skip_to_marker(&mut self) {
        if self.at == self.text.len() {
            return;
        }
        // Something follows, so the line before ended: its end is part of what is looked for.
        let from = self.at.saturating_sub(1);
        let bytes = self.text.as_bytes();
        let next = memchr::memmem::find(&bytes[from..], b"\n---").map_or(bytes.len(), |found| from + found + 1);
        self.line += memchr::memchr_iter(b'\n', &bytes[self.at..next]).count();
        self.at = next;
    }
}

/// What stands behind a document marker; `None` if the line is not one.
fn marker(line: &str) -> Option<&str> {
    let after = line.strip_prefix("---")?;
    let is_marker = after.is_empty() || after.starts_with([' ', '\t', '\r', '\n']);
    is_marker.then(|| after.trim())
}

impl Content {
    fn with(self, line: &str) -> Self {
        if self == Self::Some {
            return self;
        }
        match line.trim_start().as_bytes().first() {
            None | Some(b'#') => self,
            Some(b'%') if line.starts_with('%') => Self::Directives,
            Some(_) => Self::Some,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(&str, usize)> {
        chunks(text).map(|chunk| (chunk.text, chunk.line)).collect()
    }

    #[test]
    fn splits_at_marker_lines_alone() {
        assert_eq!(split("a\n---\nb\n"), [("a\n", 1), ("b\n", 3)]);
        assert_eq!(split("a\r\n--- \t\r\nb"), [("a\r\n", 1), ("b", 3)]);
        assert_eq!(split("a\n--- # comment\nb\n"), [("a\n", 1), ("b\n", 3)]);
        assert_eq!(split("a\n ---\n---b\n"), [("a\n ---\n---b\n", 1)]);
        assert_eq!(split("a: |\n  x\n---\nb"), [("a: |\n  x\n", 1), ("b", 4)]);
    }

    #[test]
    fn lines_are_counted_over_long_documents() {
        let document = "a: |\n  -- -\n  ---x\n---x: 1\n".repeat(50);
        let text = format!("{document}---\nb\nc\n---\nd");
        assert_eq!(split(&text), [(document.as_str(), 1), ("b\nc\n", 202), ("d", 205)]);
        assert_eq!(split("a\nb: \u{fc}"), [("a\nb: \u{fc}", 1)]);
    }

    #[test]
    fn leaves_out_what_is_empty() {
        for empty in ["", "\n", "---", "---\n---\n", "# a\n---\n  # b\n---\n\n"] {
            assert_eq!(split(empty), [], "{empty:?}");
        }
        assert_eq!(split("# licence\n---\na\n---\n"), [("a\n", 3)]);
    }

    #[test]
    fn reads_what_kubectl_refuses() {
        assert_eq!(split("a\n--- {b: c}\n---\nd"), [("a\n", 1), ("--- {b: c}\n", 2), ("d", 4)]);
        assert_eq!(split("%YAML 1.1\n---\na\n---\nb"), [("%YAML 1.1\n---\na\n", 1), ("b", 5)]);
    }
}
