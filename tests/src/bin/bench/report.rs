//! Figures, their targets, and how they are shown.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// One figure.
pub(crate) struct Row {
    /// What was measured.
    pub what: String,
    /// The median, in [`Row::unit`].
    pub measured: f64,
    /// Its unit.
    pub unit: Unit,
    /// What it shall be, if anything.
    pub target: Option<Target>,
    /// How target and figure came about.
    pub note: String,
}

/// The units of figures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Mebibytes.
    Mebibytes,
    /// Millions of bytes a second.
    MegabytesPerSecond,
    /// Bundles a second.
    BundlesPerSecond,
    /// Milliseconds for each mebibyte.
    MillisecondsPerMebibyte,
    /// Seconds.
    Seconds,
    /// Hundredths.
    Percent,
    /// A number of things.
    Count,
}

/// A bound on a figure, in its unit.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// Not more than this.
    AtMost(f64),
    /// Not less than this.
    AtLeast(f64),
}

impl Unit {
    fn symbol(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
            Self::Mebibytes => "MiB",
            Self::MegabytesPerSecond => "MB/s",
            Self::BundlesPerSecond => "bundles/s",
            Self::MillisecondsPerMebibyte => "ms/MiB",
            Self::Seconds => "s",
            Self::Percent => "%",
            Self::Count => "",
        }
    }

    pub(crate) fn text(self, value: f64) -> String {
        let digits = match self {
            Self::Seconds | Self::Percent => 2,
            Self::Mebibytes | Self::MillisecondsPerMebibyte => 1,
            _ => 0,
        };
        format!("{value:.digits$} {}", self.symbol())
    }
}

impl Target {
    fn value(self) -> f64 {
        match self {
            Self::AtMost(value) | Self::AtLeast(value) => value,
        }
    }

    fn is_met(self, measured: f64) -> bool {
        match self {
            Self::AtMost(most) => measured <= most,
            Self::AtLeast(least) => measured >= least,
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Self::AtMost(_) => "<=",
            Self::AtLeast(_) => ">=",
        }
    }
}

impl Row {
    /// Target, ratio to it, verdict: `-` where there is none.
    fn judged(&self) -> [String; 3] {
        let Some(target) = self.target else { return ["-", "-", "-"].map(str::to_owned) };
        let verdict = if target.is_met(self.measured) { "met" } else { "MISSED" };
        [
            format!("{} {}", target.sign(), self.unit.text(target.value())),
            format!("{:.2}", self.measured / target.value()),
            verdict.to_owned(),
        ]
    }
}

/// The rows for people. The ratio is the figure by its target.
pub(crate) fn table(rows: &[Row]) -> String {
    let header = ["what", "target", "measured", "ratio", "verdict"].map(str::to_owned);
    let cells: Vec<[String; 5]> = std::iter::once(header)
        .chain(rows.iter().map(|row| {
            let [target, ratio, verdict] = row.judged();
            [row.what.clone(), target, row.unit.text(row.measured), ratio, verdict]
        }))
        .collect();
    let widths: Vec<usize> =
        (0..5).map(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let notes = std::iter::once("how").chain(rows.iter().map(|row| row.note.as_str()));
    let mut text = String::new();
    for ([what, target, measured, ratio, verdict], note) in cells.iter().zip(notes) {
        let [w0, w1, w2, w3, w4] = [widths[0], widths[1], widths[2], widths[3], widths[4]];
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{what:<w0$}  {target:>w1$}  {measured:>w2$}  {ratio:>w3$}  {verdict:<w4$}  {note}");
    }
    text.trim_end().to_owned()
}

/// The rows for programs.
pub(crate) fn json(rows: &[Row]) -> String {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "what": row.what, "unit": row.unit.symbol(), "measured": row.measured, "note": row.note,
                "target": row.target.map(Target::value), "met": row.target.map(|target| target.is_met(row.measured)),
            })
        })
        .collect();
    format!("{:#}", json!({ "figures": rows }))
}

/// Notes beside each row what an earlier run, as [`json`] wrote it, had measured. Where both have a bound, it is often from a floor of
/// the same run, and the ratio of both ratios says more than that of the figures: another machine has another floor.
///
/// # Errors
/// If the text is no such document.
pub(crate) fn compare(rows: &mut [Row], earlier: &str) -> Result<()> {
    let earlier: Value = serde_json::from_str(earlier).context("read the figures of an earlier run")?;
    let figures = earlier["figures"].as_array().context("the earlier run has no figures")?;
    for row in rows {
        let same = |figure: &&Value| figure["what"] == row.what.as_str() && figure["unit"] == row.unit.symbol();
        let before = figures.iter().find(same);
        let note = before.and_then(|figure| figure["measured"].as_f64()).map_or_else(
            || "not in the earlier run".to_owned(),
            |before| format!("{} in the earlier run, now x {:.2}", row.unit.text(before), row.measured / before),
        );
        let ratio = |figure: &Value| Some(figure["measured"].as_f64()? / figure["target"].as_f64()?);
        let by_bound = before.and_then(ratio).zip(row.target).map(|(before, target)| {
            let now = row.measured / target.value();
            format!(", by the bound x {:.2}", now / before)
        });
        row.note = format!("{note}{}; {}", by_bound.unwrap_or_default(), row.note);
    }
    Ok(())
}

/// The middle of several times, in milliseconds.
pub(crate) fn median(times: &[Duration]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let middle = |index: usize| sorted.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    f64::midpoint(middle(sorted.len().saturating_sub(1) / 2), middle(sorted.len() / 2))
}

/// Whole milliseconds, `a` to `b`: the least and the greatest.
pub(crate) fn range(times: &[Duration]) -> String {
    let text = |time: Option<&Duration>| time.map_or_else(|| "?".to_owned(), |time| time.as_millis().to_string());
    format!("{} to {}", text(times.iter().min()), text(times.iter().max()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, measured: f64) -> Row {
        Row { what: what.to_owned(), measured, unit: Unit::Seconds, target: None, note: "how".to_owned() }
    }

    #[test]
    fn an_earlier_run_is_noted_beside() {
        let earlier = json(&[row("install", 4.0), row("gone", 1.0)]);
        let mut rows = [row("install", 2.0), row("new", 1.0)];
        compare(&mut rows, &earlier).unwrap();
        assert_eq!(rows[0].note, "4.00 s in the earlier run, now x 0.50; how");
        assert_eq!(rows[1].note, "not in the earlier run; how");

        let bounded = |measured, most| Row { target: Some(Target::AtMost(most)), ..row("install", measured) };
        let mut rows = [bounded(4.0, 2.0)];
        compare(&mut rows, &json(&[bounded(2.0, 2.0)])).unwrap();
        assert_eq!(rows[0].note, "2.00 s in the earlier run, now x 2.00, by the bound x 2.00; how");
        assert!(compare(&mut rows, "{}").is_err());
    }
}
