//! Quoted text whose later lines stand no further right than its key.
//!
//! ```yaml
//!   properties:
//!     apiVersion:
//!       description: 'APIVersion defines the versioned schema of this representation
//!     of an object.'
//! ```
//!
//! go-yaml reads this, and published bundles have it; the parser, strict about YAML 1.2, does not. White space at the
//! begin of such a line means nothing, so lines of this kind are moved to the right and the text is parsed again. What
//! is quoted text is guessed line by line; [`Moved`] then holds the guess against what the parser found, so
//! a wrong one cannot change a value.

use std::collections::VecDeque;

use saphyr_parser::{ScanError, Span};

/// Text with some lines moved to the right.
pub(super) struct Reindented {
    pub text: String,
    pub moved: Moved,
}

/// Numbers of the moved lines, from 1, ascending.
#[derive(Default)]
pub(super) struct Moved(VecDeque<usize>);

impl Moved {
    /// Takes out the lines that begin inside a quoted scalar. Called for all of them in order: a line that no scalar
    /// holds stays in front for good.
    pub(super) fn see_quoted(&mut self, span: Span) {
        while self.0.front().is_some_and(|&line| span.start.line() < line && line <= span.end.line()) {
            self.0.pop_front();
        }
    }

    /// Whether none is left: the guess was right.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether moving lines may help.
pub(super) fn is_cause(error: &ScanError) -> bool {
    matches!(error.info(), "invalid indentation in quoted scalar" | "tab cannot be used as indentation")
}

/// How many bytes moving may add for each byte of the text: what goes further is not a slip of an author.
const MOST_ADDED: usize = 2;

/// Moves the later lines of every multi-line quoted scalar that begins a value; `None` if there are none, or if the text would
/// become several times as long.
pub(super) fn reindent(text: &str) -> Option<Reindented> {
    let mut moved = VecDeque::new();
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut open: Option<Open> = None;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let Some(Open { quote, column }) = open else {
            out.push_str(line);
            open = Open::at_start_of(line);
            continue;
        };
        let indent = line.len() - line.trim_start_matches(' ').len();
        let is_blank = line.trim().is_empty();
        if indent <= column && !is_blank {
            if out.len() + column > (1 + MOST_ADDED) * text.len() + 1024 {
                return None;
            }
            out.extend(std::iter::repeat_n(' ', column + 1 - indent));
            moved.push_back(index + 1);
        }
        out.push_str(line);
        if closes(line, quote) {
            open = None;
        }
    }
    (!moved.is_empty()).then_some(Reindented { text: out, moved: Moved(moved) })
}

/// A quoted scalar that goes on in the next line.
#[derive(Clone, Copy)]
struct Open {
    quote: u8,
    /// Where its key or dash stands.
    column: usize,
}

impl Open {
    /// The quoted scalar that is the value in `line` (`key: '...`, `- '...`) and does not end there.
    fn at_start_of(line: &str) -> Option<Self> {
        let mut column = 0;
        let mut rest = line;
        loop {
            let trimmed = rest.trim_start_matches(' ');
            column += rest.len() - trimmed.len();
            rest = trimmed;
            match rest.strip_prefix("- ") {
                Some(item) => {
                    column += 2;
                    rest = item;
                }
                None => break,
            }
        }
        let value = match rest.as_bytes().first()? {
            b'\'' | b'"' => rest,
            b'#' => return None,
            _ => rest.split_once(": ")?.1.trim_start(),
        };
        let quote = *value.as_bytes().first().filter(|byte| matches!(byte, b'\'' | b'"'))?;
        (!closes(&value[1..], quote)).then_some(Self { quote, column })
    }
}

/// Whether quoted text ends in this part of it. Only looks at one line: no escape goes over a line's end.
fn closes(text: &str, quote: u8) -> bool {
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' && quote == b'"' {
            bytes.next();
        } else if byte == quote {
            if quote == b'\'' && bytes.peek() == Some(&b'\'') {
                bytes.next();
            } else {
                return true;
            }
        }
    }
    false
}
