//! Printing of error chains, once, at the edge.

use std::error::Error;
use std::fmt;

/// Prints an error and all its sources, `: ` between them.
///
/// Errors of libraries often repeat their source in their own text; a part that the text so far already ends with is left out.
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut source = self.0.source();
        while let Some(error) = source {
            let part = error.to_string();
            if !text.contains(&part) {
                text.push_str(": ");
                text.push_str(&part);
            }
            source = error.source();
        }
        formatter.write_str(&text)
    }
}
