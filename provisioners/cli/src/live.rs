//! What is waited for, on stderr: one line that changes where somebody looks, else a line with a time for each change.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Instant;

use jiff::Timestamp;

use crate::colour::{Palette, Tone};
use crate::output::to_stderr;
use crate::table::one_line;

/// Of a terminal that does not tell how wide it is.
const COLUMNS: usize = 80;

#[derive(Debug)]
pub struct Live {
    is_terminal: bool,
    started: Instant,
    last: Option<String>,
}

impl Live {
    pub fn start() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), started: Instant::now(), last: None }
    }

    /// Whether [`Live::tick`] shows anything.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// What is waited for now. What was told already is not told again.
    pub fn tell(&mut self, line: &str) {
        let line = one_line(line);
        if self.last.as_deref() == Some(&line) {
            return;
        }
        if !self.is_terminal {
            to_stderr(&stamped(Timestamp::now(), &line));
        }
        self.last = Some(line);
        self.tick();
    }

    /// Shows how long it has taken so far.
    pub fn tick(&self) {
        let (true, Some(line)) = (self.is_terminal, &self.last) else { return };
        let columns = terminal_size::terminal_size_of(io::stderr()).map_or(COLUMNS, |(width, _)| usize::from(width.0));
        let elapsed = format!("{:>4} s", self.started.elapsed().as_secs());
        let mut err = io::stderr();
        // A line that wraps could not be taken back.
        let shown: String = line.chars().take(columns.saturating_sub(elapsed.len() + 2)).collect();
        let elapsed = Palette::of(&err).paint(Tone::Pending, &elapsed);
        // Nobody may be listening.
        let _ = write!(err, "\r\u{1b}[K{elapsed} {shown}");
        let _ = err.flush();
    }
}

impl Drop for Live {
    /// Takes the line back: what came of it is said by somebody else.
    fn drop(&mut self) {
        if self.is_terminal && self.last.is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

/// A line of a log: the time in whole seconds, UTC.
fn stamped(now: Timestamp, line: &str) -> String {
    format!("{} {line}", Timestamp::from_second(now.as_second()).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_gets_lines_with_times() {
        let now: Timestamp = "2026-11-23T08:00:01.7Z".parse().unwrap();
        assert_eq!(stamped(now, "Progressing: a"), "2026-11-23T08:00:01Z Progressing: a");
    }

    #[test]
    fn what_was_told_is_kept_on_one_line() {
        let mut live = Live { is_terminal: false, started: Instant::now(), last: None };
        live.tell("Unhealthy: a\n\u{1b}[31mb");
        assert_eq!(live.last(), Some("Unhealthy: a [31mb"));
    }
}
