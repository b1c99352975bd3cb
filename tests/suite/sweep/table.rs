//! What was tried and what passed, by kind of operation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

/// Figures of one row.
#[derive(Clone, Copy, Default)]
pub struct Row {
    /// Writes of the operation; none where a row is not about writes.
    pub writes: usize,
    pub points: usize,
    pub tried: usize,
    pub passed: usize,
}

/// Rows by what they are about, in order.
#[derive(Default)]
pub struct Table {
    pub rows: BTreeMap<(usize, String), Row>,
    pub failures: Vec<String>,
}

impl Table {
    pub fn total(&self) -> Row {
        self.rows.values().fold(Row::default(), |sum, row| Row {
            writes: sum.writes + row.writes,
            points: sum.points + row.points,
            tried: sum.tried + row.tried,
            passed: sum.passed + row.passed,
        })
    }

    fn text(&self) -> String {
        let mut text = format!("{:<28}{:>8}{:>8}{:>8}{:>8}\n", "", "writes", "points", "tried", "passed");
        let mut line = |name: &str, row: &Row| {
            let Row { writes, points, tried, passed } = row;
            let _ = writeln!(text, "{name:<28}{writes:>8}{points:>8}{tried:>8}{passed:>8}"); // a String takes it all
        };
        for ((_, name), row) in &self.rows {
            line(name, row);
        }
        line("all", &self.total());
        text
    }
}

/// To the terminal, whether or not the output of tests is captured.
pub fn say(text: &str) {
    // Who closed it does not want to know.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}
