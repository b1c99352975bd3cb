//! What a terminal shows in the end: lines that were taken back are not there, and colours are words.

/// The escape sequence that ends a line where the cursor is.
const ERASE: &str = "\u{1b}[K";

/// The lines that bytes for a terminal leave on it. A word in colour is `<green>word</>`.
pub fn shown(bytes: &str) -> String {
    let mut lines = Vec::new();
    let mut line = Line::default();
    let mut rest = bytes;
    while let Some(character) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix(ERASE) {
            line.cells.truncate(line.column);
            rest = after;
        } else if let Some((colour, after)) = colour(rest) {
            line.colour = colour;
            rest = after;
        } else {
            match character {
                '\r' => line.column = 0,
                '\n' => lines.push(std::mem::take(&mut line).text()),
                other => line.put(other),
            }
            rest = &rest[character.len_utf8()..];
        }
    }
    lines.push(line.text());
    lines.join("\n")
}

/// The colour that a text begins to write in, and the rest of the text.
fn colour(text: &str) -> Option<(&'static str, &str)> {
    let (code, rest) = text.strip_prefix("\u{1b}[")?.split_once('m')?;
    let colour = match code {
        "0" => "",
        "1" => "bold",
        "31" => "red",
        "32" => "green",
        "33" => "yellow",
        _ => return None,
    };
    Some((colour, rest))
}

#[derive(Default)]
struct Line {
    /// Characters with their colour.
    cells: Vec<(char, &'static str)>,
    column: usize,
    colour: &'static str,
}

impl Line {
    fn put(&mut self, character: char) {
        self.cells.resize(self.cells.len().max(self.column + 1), (' ', ""));
        self.cells[self.column] = (character, self.colour);
        self.column += 1;
    }

    fn text(self) -> String {
        let mut text = String::new();
        let mut last = "";
        for (character, colour) in self.cells.into_iter().chain([('\n', "")]) {
            if colour != last {
                text.push_str(if last.is_empty() { "" } else { "</>" });
                if !colour.is_empty() {
                    text.extend([format!("<{colour}>")]);
                }
                last = colour;
            }
            text.push(character);
        }
        text.trim_end_matches('\n').to_owned()
    }
}

#[test]
fn what_is_written_over_is_not_shown() {
    assert_eq!(shown("10%\r\u{1b}[K100%\r\ndone"), "100%\ndone");
    assert_eq!(shown("abc\rd\n"), "dbc\n");
    assert_eq!(shown("\u{1b}[33m   1 s\u{1b}[0m waits\r\u{1b}[K"), "");
    assert_eq!(shown("a \u{1b}[32mReady\u{1b}[0m b"), "a <green>Ready</> b");
}
