//! YAML and JSON as kubectl reads them: bytes to JSON values, each with the place it stands at.
//!
//! [`parse`] is pure and total: any bytes give documents or an [`Error`], in time and memory bounded by the
//! length of the input and a [`Budget`] that all files of a bundle share.

use std::sync::Arc;

use rukpak_content::LimitExceeded;
use serde_json::Value;

use crate::Budget;
pub use crate::position::Position;

mod anchor;
mod document;
mod json;
mod loader;
mod path;
mod reindent;
mod scalar;
mod split;
mod text;

/// How many mappings and sequences may lie in each other. One more is refused.
///
/// The API server's answers are read with a bound of 128, and what a server adds around an object (a list, the
/// record of managed fields) takes some of it.
pub const MAX_DEPTH: usize = 100;

/// One document of a file. Empty documents are left out.
#[derive(Debug, PartialEq)]
pub struct Document {
    /// Where it begins.
    pub place: Position,
    /// What it says; never null.
    pub value: Value,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are not UTF-8, or UTF-16 with a byte order mark.
    #[error("{file} (line {line}): not UTF-8 text: save the file as UTF-8")]
    Encoding {
        /// The file.
        file: Arc<str>,
        /// The line, from 1.
        line: usize,
    },
    /// A control character stands in YAML.
    #[error("{file} (line {line}): control characters are not allowed: write {escape} in a double quoted string")]
    Control {
        /// The file.
        file: Arc<str>,
        /// The line, from 1.
        line: usize,
        /// The character as YAML escapes it.
        escape: String,
    },
    /// Neither YAML nor, where it begins with `{`, JSON.
    #[error("{place}, column {column}: {problem}")]
    Syntax {
        /// Where.
        place: Position,
        /// The column in characters, from 1.
        column: usize,
        /// The parser's words.
        problem: String,
    },
    /// A scalar, key, merge or alias that has no meaning.
    #[error("{place}, {path}: {problem}")]
    Meaning {
        /// Where.
        place: Position,
        /// The field, such as `spec.ports[0]`.
        path: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// More nested than [`MAX_DEPTH`].
    #[error("{0}: nested deeper than {MAX_DEPTH} levels")]
    Depth(Position),
    /// Larger than a limit allows.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
}

/// What people most often take for a manifest: a file of a Helm chart.
const NOT_RENDERED: &str = "; templates are not rendered: render it first, or quote the value";

impl Error {
    /// With a hint where the line at fault, of the `text` that begins at `begin`, has a template in it.
    fn with_hint(mut self, begin: &Position, text: &str) -> Self {
        if let Self::Syntax { place, problem, .. } | Self::Meaning { place, problem, .. } = &mut self {
            let line = place.line.checked_sub(begin.line).and_then(|index| text.lines().nth(index));
            if line.is_some_and(|line| line.contains("{{")) {
                problem.push_str(NOT_RENDERED);
            }
        }
        self
    }
}

/// Reads all documents of a file.
///
/// `file` is only used in messages. A file that begins with `{` is read as concatenated JSON values, and as YAML if
/// that fails. What is read counts, and warnings go, to `budget`.
pub fn parse(file: &Arc<str>, bytes: &[u8], budget: &mut Budget<'_>) -> Result<Vec<Document>, Error> {
    let text = text::decode(file, bytes)?;
    let mut json_error = None;
    if text.trim_start().starts_with('{') {
        let mark = budget.mark();
        match json::parse(file, &text, budget) {
            Ok(documents) => return Ok(documents),
            Err(error @ Error::Syntax { .. }) => json_error = Some(error),
            Err(error) => return Err(error),
        }
        budget.rewind(mark);
    }
    match parse_yaml(file, &text, budget) {
        Err(error) if is_json(file) => Err(json_error.unwrap_or(error)),
        documents => documents,
    }
}

/// Counts the nodes and texts of JSON that stands in a text, before somebody makes values of it. `place` names the text.
///
/// JSON that is not well-formed counts as far as it can be read, and is no error here.
pub fn count_json(place: &str, text: &str, budget: &mut Budget<'_>) -> Result<(), LimitExceeded> {
    json::count(place, text, budget)
}

fn is_json(file: &str) -> bool {
    file.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case("json"))
}

fn parse_yaml(file: &Arc<str>, text: &str, budget: &mut Budget<'_>) -> Result<Vec<Document>, Error> {
    text::check_characters(file, text)?;
    let mut documents = Vec::new();
    for (index, chunk) in split::chunks(text).enumerate() {
        let place = Position { file: Arc::clone(file), document: index + 1, line: chunk.line };
        let loaded = document::load(&place, chunk.text, budget);
        let (value, line) = loaded.map_err(|error| error.with_hint(&place, chunk.text))?;
        if !value.is_null() {
            documents.push(Document { place: Position { line, ..place }, value });
        }
    }
    Ok(documents)
}

#[cfg(test)]
#[path = "yaml/tests.rs"]
mod tests;
