//! Where a YAML document ends: before the next line that is a `---` marker.

/// Looks for the end of a document piece by piece.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    /// How far was looked.
    seen: usize,
}

impl Splitter {
    /// The length of the first document of `text`, with the marker that it begins with and without the next one. `None` if
    /// more must be read, which is never so if `is_all`.
    pub(super) fn split(&mut self, text: &[u8], is_all: bool) -> Option<usize> {
        while let Some(found) = memchr::memmem::find(&text[self.seen..], b"\n---") {
            let marker = self.seen + found + 1;
            let is_marker = match text.get(marker + 3) {
                Some(after) => matches!(after, b' ' | b'\t' | b'\r' | b'\n'),
                None if is_all => true,
                None => {
                    self.seen = marker - 1;
                    return None;
                }
            };
            self.seen = marker;
            if is_marker && !is_directives(&text[..marker]) {
                return Some(marker);
            }
        }
        // A marker may begin with the last bytes.
        self.seen = self.seen.max(text.len().saturating_sub(3));
        is_all.then_some(text.len())
    }
}

/// Whether there is nothing but directives (`%YAML 1.1`), which belong to what follows the marker.
fn is_directives(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut is_any = false;
    let is_all = lines.all(|line| {
        let is_directive = line.first() == Some(&b'%');
        is_any |= is_directive;
        is_directive || line.is_empty() || line.first() == Some(&b'#')
    });
    is_all && is_any
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits text that comes in pieces of `step` bytes.
    fn split(text: &str, step: usize) -> Vec<&str> {
        let (mut parts, mut start, mut read) = (Vec::new(), 0, 0);
        while start < text.len() {
            let mut splitter = Splitter::default();
            let length = loop {
                let is_all = read == text.len();
                match splitter.split(&text.as_bytes()[start..read], is_all) {
                    Some(length) => break length,
                    None => read = (read + step).min(text.len()),
                }
            };
            parts.push(&text[start..start + length]);
            start += length;
        }
        parts
    }

    #[test]
    fn documents_end_before_markers() {
        for (text, parts) in [
            ("a\n---\nb\n", vec!["a\n", "---\nb\n"]),
            ("---\na\n---\nb", vec!["---\na\n", "---\nb"]),
            ("a: |\n  x\n --- \n---b\n---", vec!["a: |\n  x\n --- \n---b\n", "---"]),
            ("a\r\n---\r\nb\n--- c\n---\td", vec!["a\r\n", "---\r\nb\n", "--- c\n", "---\td"]),
            ("# c\n%YAML 1.1\n---\na\n---\nb", vec!["# c\n%YAML 1.1\n---\na\n", "---\nb"]),
            ("a\n\n----\nb", vec!["a\n\n----\nb"]),
        ] {
            for step in [1, 2, 3, 4, 5, 7, 100] {
                assert_eq!(split(text, step), parts, "{step}");
            }
        }
    }
}
