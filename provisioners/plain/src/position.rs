//! Where something stands.

use std::fmt;
use std::sync::Arc;

use saphyr_parser::Marker;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file's path as the caller named it.
    pub file: Arc<str>,
    /// Which document, from 1. Documents of comments and white space alone do not count.
    pub document: usize,
    /// The line in the file, from 1.
    pub line: usize,
}

impl Position {
    /// The same document, `marker` lines further: the place is where the parsed text begins.
    pub(crate) fn at_line_of(&self, marker: Marker) -> Self {
        Self { line: self.line + marker.line().saturating_sub(1), ..self.clone() }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, document {} (line {})", self.file, self.document, self.line)
    }
}
