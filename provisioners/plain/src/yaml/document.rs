//! The text of one document to its value: runs the parser, and runs it again where quoted text stands too far left.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::Value;

use super::loader::Loader;
use super::reindent::{Moved, Reindented, is_cause, reindent};
use super::{Error, Position};
use crate::{Budget, Warning};

/// Loads the first document of `text`, which begins at `place`. Returns its value and its first line.
pub(super) fn load(place: &Position, text: &str, budget: &mut Budget<'_>) -> Result<(Value, usize), Error> {
    let mark = budget.mark();
    match attempt(place, text, Moved::default(), budget) {
        Ok(loaded) => Ok(loaded),
        Err(Failure::Final(error)) => Err(error),
        Err(Failure::Indentation(error)) => {
            let Some(Reindented { text, moved }) = reindent(text) else { return Err(error) };
            budget.rewind(mark);
            attempt(place, &text, moved, budget).map_err(|failure| match failure {
                Failure::Final(error) => error,
                Failure::Indentation(_) => error,
            })
        }
    }
}

enum Failure {
    Final(Error),
    /// Quoted text stands too far left.
    Indentation(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

fn attempt(place: &Position, text: &str, mut moved: Moved, budget: &mut Budget<'_>) -> Result<(Value, usize), Failure> {
    let mut parser = Parser::new_from_str(text);
    let mut first_line = place.line;
    let mut loader = Loader::new(place, budget);
    let mut is_ended = false;
    let mut ignored = None;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| syntax(place, &error))?;
        match event {
            Event::DocumentStart(_) if is_ended => {
                ignored = Some(place.at_line_of(span.start));
                break;
            }
            Event::DocumentEnd => is_ended = true,
            event => {
                if loader.is_empty() && is_node(&event) {
                    first_line = place.at_line_of(span.start).line;
                }
                if !moved.is_empty() && is_quoted(&event) {
                    moved.see_quoted(span);
                }
                loader.event(event, span)?;
            }
        }
    }
    if !moved.is_empty() {
        let problem = "text in quotes stands no further right than its key: indent it".to_owned();
        return Err(Failure::Indentation(Error::Syntax { place: place.clone(), column: 1, problem }));
    }
    let value = loader.finish();
    budget.release();
    if let Some(Position { file, line, .. }) = ignored {
        budget.warn(|| Warning::IgnoredDocument { file, line });
    }
    Ok((value, first_line))
}

fn is_quoted(event: &Event<'_>) -> bool {
    matches!(event, Event::Scalar(_, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted, ..))
}

fn is_node(event: &Event<'_>) -> bool {
    matches!(event, Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..))
}

fn syntax(place: &Position, error: &ScanError) -> Failure {
    let place = place.at_line_of(*error.marker());
    let syntax = Error::Syntax { place, column: error.marker().col() + 1, problem: error.info().to_owned() };
    if is_cause(error) { Failure::Indentation(syntax) } else { Failure::Final(syntax) }
}
