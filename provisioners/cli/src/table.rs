//! Columns for people, as kubectl prints them.

use std::io::{self, Write};

use crate::colour::Palette;

const GAP: usize = 3;
/// In a cell where there is nothing.
const NOTHING: &str = "-";

/// Writes a table with a heading. The last column is not padded, and a row may be shorter than the heading.
pub fn write(out: &mut dyn Write, heading: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    write_with(out, heading, rows, &|_, cell| cell.to_owned())
}

/// The same in colours, see [`Palette::cell`].
pub fn write_in_colour(
    out: &mut dyn Write,
    palette: Palette,
    heading: &[&str],
    rows: &[Vec<String>],
) -> io::Result<()> {
    write_with(out, heading, rows, &|column, cell| palette.cell(column, cell))
}

fn write_with(
    out: &mut dyn Write,
    heading: &[&str],
    rows: &[Vec<String>],
    paint: &dyn Fn(&str, &str) -> String,
) -> io::Result<()> {
    let names = heading;
    let heading: Vec<String> = heading.iter().map(|&cell| cell.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(&heading).chain(rows).map(|row| cells(row)).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..heading.len()).map(|column| width(column).unwrap_or_default()).collect();
    for (index, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for ((cell, width), name) in row.iter().zip(&widths).zip(names) {
            line.push_str(&if index == 0 { cell.clone() } else { paint(name, cell) });
            let padding = width.saturating_sub(cell.chars().count()) + GAP;
            line.extend(std::iter::repeat_n(' ', padding));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Writes a line for each value of each fact, its name before the first. A fact without a value is left out.
pub fn facts(out: &mut dyn Write, facts: &[(&str, Vec<String>)]) -> io::Result<()> {
    let known = || facts.iter().filter(|(_, values)| !values.is_empty());
    let width = known().map(|(name, _)| name.len()).max().unwrap_or_default() + 1;
    for (name, values) in known() {
        let names = std::iter::once(format!("{name}:")).chain(std::iter::repeat(String::new()));
        for (name, value) in names.zip(values) {
            writeln!(out, "{name:width$} {}", one_line(value))?;
        }
    }
    Ok(())
}

fn cells(row: &[String]) -> Vec<String> {
    let cell = |text: &String| Some(one_line(text)).filter(|text| !text.is_empty());
    row.iter().map(|text| cell(text).unwrap_or_else(|| NOTHING.to_owned())).collect()
}

pub fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Text that somebody else wrote, on one line: no control characters, which a terminal would obey, and no runs of spaces.
pub fn one_line(text: &str) -> String {
    let plain: String = text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "1.0.0", ""], ["längere", "", "two\n\tlines \u{1b}[31mred"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let mut out = Vec::new();
        write(&mut out, &["NAME", "VERSION", "MESSAGE"], &rows).unwrap();
        let wanted = "NAME      VERSION   MESSAGE\n\
                      a         1.0.0     -\n\
                      längere   -         two lines [31mred\n";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }

    #[test]
    fn one_object_is_one() {
        assert_eq!([0, 1, 2].map(|number| count(number, "object")), ["0 objects", "1 object", "2 objects"]);
    }
}
