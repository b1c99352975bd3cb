//! An error in one line.

use std::error::Error;

/// The error and what caused it.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.extend([": ", &error.to_string()]);
        source = error.source();
    }
    text
}
