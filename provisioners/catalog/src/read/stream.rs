//! One file: which of the two formats it is in, and its documents one by one.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rukpak_content::{Limit, LimitExceeded, Limits};
use rukpak_plain::Budget;
use rukpak_plain::yaml::{self, Position};

use super::json::Scanner;
use super::window::Window;
use super::yamls::Splitter;
use super::{Error, Form, MAX_BYTES, MAX_DOCUMENTS};

/// What all files of a catalog amount to.
#[derive(Debug, Default)]
pub(super) struct Totals {
    bytes: AtomicU64,
    documents: AtomicU64,
}

impl Totals {
    fn add(&self, path: &str, bytes: u64, documents: u64) -> Result<(), Error> {
        for (total, more, maximum, what) in
            [(&self.bytes, bytes, MAX_BYTES, "bytes"), (&self.documents, documents, MAX_DOCUMENTS, "documents")]
        {
            if total.fetch_add(more, Ordering::Relaxed).saturating_add(more) > maximum {
                return Err(Error::TooMuch { path: path.to_owned(), maximum, what });
            }
        }
        Ok(())
    }
}

/// Reads a stream to its end.
pub(super) fn read<F: Form>(
    file: &Arc<str>,
    reader: &mut dyn Read,
    limits: &Limits,
    totals: &Totals,
    visit: &mut dyn FnMut(F),
) -> Result<(), Error> {
    let window = Window::new(reader);
    let mut stream = Stream { file, window, limits, totals, visit, documents: 0, counted: 0 };
    stream.skip_mark()?;
    loop {
        match stream.json()? {
            Json::Read => {}
            Json::End => return Ok(()),
            Json::Other(problem) => return stream.yaml(problem),
        }
    }
}

/// What came of looking for a JSON object.
enum Json {
    Read,
    End,
    /// Something else begins here; the error if it looked like one.
    Other(Option<Error>),
}

struct Stream<'a, 'r, F> {
    file: &'a Arc<str>,
    window: Window<'r>,
    limits: &'a Limits,
    totals: &'a Totals,
    visit: &'a mut dyn FnMut(F),
    /// How many were read.
    documents: usize,
    /// Bytes that went into the totals.
    counted: u64,
}

impl<F: Form> Stream<'_, '_, F> {
    /// Passes over the byte order mark of UTF-8; refuses those of UTF-16.
    fn skip_mark(&mut self) -> Result<(), Error> {
        while self.window.unused().len() < 3 && self.grow()? {}
        match self.window.unused() {
            [0xef, 0xbb, 0xbf, ..] => self.window.advance(3),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                return Err(yaml::Error::Encoding { file: Arc::clone(self.file), line: 1 }.into());
            }
            _ => {}
        }
        Ok(())
    }

    fn json(&mut self) -> Result<Json, Error> {
        match self.skip_blanks()? {
            None => return Ok(Json::End),
            Some(b'{') => {}
            Some(_) => return Ok(Json::Other(None)),
        }
        let mut scanner = Scanner::default();
        let mut seen = 0;
        let length = loop {
            if let Some(end) = scanner.scan(&self.window.unused()[seen..]) {
                break seen + end;
            }
            seen = self.window.unused().len();
            self.check_size(seen)?;
            if !self.grow()? {
                break seen;
            }
        };
        self.check_size(length)?;
        let place = self.place(self.window.line);
        if scanner.deepest > yaml::MAX_DEPTH {
            return Err(yaml::Error::Depth(place).into());
        }
        match F::from_json(&self.window.unused()[..length]) {
            Err(error) => Ok(Json::Other(Some(json_error(place, &error)))),
            Ok(Err(source)) => Err(Error::Document { place, source }),
            Ok(Ok(document)) => {
                self.window.advance(length);
                self.found(document)?;
                Ok(Json::Read)
            }
        }
    }

    /// Reads the rest as YAML. If its first document is not that either, `json` is what is wrong with it, unless the name
    /// says otherwise.
    fn yaml(&mut self, mut json: Option<Error>) -> Result<(), Error> {
        let is_named_yaml = ["yaml", "yml"].contains(&extension(self.file).as_str());
        loop {
            let result = self.yaml_document();
            match (result, json.take()) {
                (Ok(true), _) => {}
                (Ok(false), _) => return Ok(()),
                (Err(Error::Io { path, source }), _) => return Err(Error::Io { path, source }),
                (Err(_), Some(error)) if !is_named_yaml => return Err(error),
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// False at the end.
    fn yaml_document(&mut self) -> Result<bool, Error> {
        let mut splitter = Splitter::default();
        let mut is_all = false;
        let length = loop {
            let unused = self.window.unused();
            if let Some(length) = splitter.split(unused, is_all) {
                break length;
            }
            self.check_size(unused.len())?;
            is_all = !self.grow()?;
        };
        self.check_size(length)?;
        let text = &self.window.unused()[..length];
        if text.is_empty() {
            return Ok(false);
        }
        let (before, line) = (self.documents, self.window.line);
        let values = yaml::parse(self.file, text, &mut Budget::new(self.limits)).map_err(|e| moved(e, before, line))?;
        self.window.advance(length);
        for value in values {
            match F::from_value(&value.value) {
                Ok(document) => self.found(document)?,
                Err(source) => return Err(Error::Document { place: later(value.place, before, line), source }),
            }
        }
        Ok(true)
    }

    fn found(&mut self, document: F) -> Result<(), Error> {
        self.documents += 1;
        self.totals.add(self.file, 0, 1)?;
        (self.visit)(document);
        Ok(())
    }

    /// The first byte that is not blank; `None` at the end.
    fn skip_blanks(&mut self) -> Result<Option<u8>, Error> {
        let mut blanks = 0;
        loop {
            let unused = &self.window.unused()[blanks..];
            blanks += unused.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let first = self.window.unused().get(blanks).copied();
            if first.is_some() || !self.grow()? {
                // YAML lives from the blanks at the beginning of its line: only JSON may lose them.
                if matches!(first, None | Some(b'{')) {
                    self.window.advance(blanks);
                }
                return Ok(first);
            }
            self.check_size(blanks)?;
        }
    }

    fn grow(&mut self) -> Result<bool, Error> {
        let grown = self.window.grow().map_err(|source| self.io(source))?;
        let total = self.window.total;
        self.totals.add(self.file, total - self.counted, 0)?;
        self.counted = total;
        Ok(grown)
    }

    fn io(&self, source: io::Error) -> Error {
        Error::Io { path: self.file.to_string(), source }
    }

    fn check_size(&self, length: usize) -> Result<(), LimitExceeded> {
        Limit::ManifestBytes
            .check(length as u64, self.limits.manifest_bytes, || self.place(self.window.line).to_string())
    }

    fn place(&self, line: usize) -> Position {
        Position { file: Arc::clone(self.file), document: self.documents + 1, line }
    }
}

/// The part of a name behind its last dot, in small letters.
pub(super) fn extension(file: &str) -> String {
    file.rsplit_once('.').map_or_else(String::new, |(_, extension)| extension.to_ascii_lowercase())
}

fn json_error(place: Position, error: &serde_json::Error) -> Error {
    let text = error.to_string();
    // serde_json ends its text with the position, which we say in our own way.
    let problem = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem).to_owned();
    let line = place.line + error.line().saturating_sub(1);
    Error::Json { place: Position { line, ..place }, column: error.column(), problem }
}

/// A place in a part of the file, `documents` after its beginning, that begins at `line`.
fn later(place: Position, documents: usize, line: usize) -> Position {
    Position { document: place.document + documents, line: place.line + line - 1, ..place }
}

fn moved(error: yaml::Error, documents: usize, first: usize) -> yaml::Error {
    use yaml::Error as Yaml;
    match error {
        Yaml::Encoding { file, line } => Yaml::Encoding { file, line: line + first - 1 },
        Yaml::Control { file, line, escape } => Yaml::Control { file, line: line + first - 1, escape },
        Yaml::Syntax { place, column, problem } => {
            Yaml::Syntax { place: later(place, documents, first), column, problem }
        }
        Yaml::Meaning { place, path, problem } => {
            Yaml::Meaning { place: later(place, documents, first), path, problem }
        }
        Yaml::Depth(place) => Yaml::Depth(later(place, documents, first)),
        Yaml::Limit(limit) => {
            Yaml::Limit(LimitExceeded { place: format!("{} (from line {first})", limit.place), ..limit })
        }
    }
}
