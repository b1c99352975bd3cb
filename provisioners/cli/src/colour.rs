//! Colours, where somebody looks: on a terminal that knows them, unless `NO_COLOR` is set (<https://no-color.org>).

use std::env;
use std::io::IsTerminal;

/// What a word is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it should be: green.
    Good,
    /// Under way: yellow.
    Pending,
    /// Wrong: red.
    Bad,
}

/// Paints words, or leaves them as they are.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    is_on: bool,
}

impl Palette {
    /// For what is written to `stream`.
    pub fn of(stream: &impl IsTerminal) -> Self {
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { is_on: stream.is_terminal() && !is_set("NO_COLOR") && !is_dumb }
    }

    #[cfg(test)]
    pub(crate) fn on() -> Self {
        Self { is_on: true }
    }

    /// The cell of a table in the colour of what it says. Cells of other columns stay as they are.
    pub fn cell(self, column: &str, cell: &str) -> String {
        let tone = match (column, cell) {
            ("READY" | "INSTALLED", "True") | ("RESULT", "Healthy") | ("PROGRESSING", "Succeeded") => Tone::Good,
            ("READY" | "INSTALLED", "False")
            | ("RESULT", "Failed" | "DeadlineExceeded")
            | ("PROGRESSING", "Blocked") => Tone::Bad,
            ("READY" | "INSTALLED", "Unknown") | ("RESULT", "Installed") | ("PROGRESSING", "Retrying") => Tone::Pending,
            _ => return cell.to_owned(),
        };
        self.paint(tone, cell)
    }

    /// The word in its colour.
    pub fn paint(self, tone: Tone, word: &str) -> String {
        let code = match tone {
            Tone::Good => 32,
            Tone::Pending => 33,
            Tone::Bad => 31,
        };
        if self.is_on { format!("\u{1b}[{code}m{word}\u{1b}[0m") } else { word.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_no_colours() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Palette::of(&file).paint(Tone::Bad, "Failed"), "Failed");
        assert_eq!(Palette { is_on: true }.paint(Tone::Good, "Current"), "\u{1b}[32mCurrent\u{1b}[0m");
    }
}
