//! A catalog on disk, as clients of catalogd's HTTP API get it: one document a line, and where each line is.
//!
//! ```text
//! FOLDER/all.jsonl      every document as compact JSON, in the order of the catalog's files
//! FOLDER/all.jsonl.gz   the same, compressed
//! FOLDER/index.json     of each line its length, schema, package and name
//! ```
//!
//! Keys of the documents are sorted, and numbers stay what they are: upstream makes all of them floating-point numbers, and loses
//! digits. Blocks; knows nothing of HTTP.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use rukpak_content::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Catalog;
use crate::document::{self, Document};
use crate::model::Builder;
use crate::read::{self, Form};

#[cfg(test)]
mod tests;

const ALL: &str = "all.jsonl";
const COMPRESSED: &str = "all.jsonl.gz";
const INDEX: &str = "index.json";

/// A served catalog.
#[derive(Debug)]
pub struct Served {
    folder: PathBuf,
    lines: Vec<Line>,
}

/// A line of `all.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    /// In bytes, with its end.
    length: u64,
    schema: String,
    package: Option<String>,
    name: Option<String>,
}

/// Which documents are wanted: those for which all that is given is equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The schema.
    pub schema: Option<String>,
    /// The key `package` of a document's root. An `olm.package` has none.
    pub package: Option<String>,
    /// The key `name` of a document's root.
    pub name: Option<String>,
}

impl Served {
    /// Writes the catalog that is in the files of `catalog` into the existing folder `folder`. Gives what is kept of it in memory.
    pub fn write(catalog: &Path, limits: &Limits, folder: &Path) -> Result<Catalog, read::Error> {
        let in_folder = |source| read::Error::Io { path: folder.display().to_string(), source };
        let mut writer = Writer::new(folder).map_err(in_folder)?;
        let mut builder = Builder::default();
        let mut failed = None;
        read::folder_in_order(catalog, limits, &mut |blob: Blob| {
            let Blob { document, line, json } = blob;
            if failed.is_none() {
                failed = writer.add(line, &json).err();
            }
            builder.add(document);
        })?;
        failed.map_or_else(|| writer.finish(), Err).map_err(in_folder)?;
        read::finish(builder, || catalog.display().to_string())
    }

    /// What was written into `folder`.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let lines: Vec<Line> = serde_json::from_reader(BufReader::new(File::open(folder.join(INDEX))?))?;
        let served = Self { folder: folder.to_owned(), lines };
        let (all, _) = (served.all()?, served.compressed()?);
        if all.metadata()?.len() != served.lines.iter().map(|line| line.length).sum::<u64>() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{ALL} is not what {INDEX} says")));
        }
        Ok(served)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads what is kept in memory of it.
    ///
    /// # Errors
    /// What is wrong with the disk.
    pub fn catalog(&self, limits: &Limits) -> Result<Catalog, read::Error> {
        let mut all = self.all().map_err(|source| read::Error::Io { path: ALL.to_owned(), source })?;
        read::catalog_of_stream(ALL, &mut all, limits)
    }

    /// The file with all lines.
    pub fn all(&self) -> io::Result<File> {
        File::open(self.folder.join(ALL))
    }

    /// The compressed file with all lines.
    pub fn compressed(&self) -> io::Result<File> {
        File::open(self.folder.join(COMPRESSED))
    }

    /// Where in [`Served::all`] the lines are that are wanted, in their order; neighbours in one piece.
    pub fn find(&self, filter: &Filter) -> Vec<Range<u64>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        let mut start = 0;
        for line in &self.lines {
            let end = start + line.length;
            if filter.takes(line) {
                match found.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => found.push(start..end),
                }
            }
            start = end;
        }
        found
    }
}

impl Filter {
    fn takes(&self, line: &Line) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| wanted.as_deref().is_none_or(|w| Some(w) == found);
        is(&self.schema, Some(&line.schema))
            && is(&self.package, line.package.as_deref())
            && is(&self.name, line.name.as_deref())
    }
}

struct Writer {
    all: BufWriter<File>,
    compressed: GzEncoder<BufWriter<File>>,
    index: PathBuf,
    lines: Vec<Line>,
}

impl Writer {
    fn new(folder: &Path) -> io::Result<Self> {
        let create = |name: &str| File::create_new(folder.join(name)).map(BufWriter::new);
        let compressed = GzEncoder::new(create(COMPRESSED)?, Compression::default());
        Ok(Self { all: create(ALL)?, compressed, index: folder.join(INDEX), lines: Vec::new() })
    }

    fn add(&mut self, line: Line, json: &[u8]) -> io::Result<()> {
        self.all.write_all(json)?;
        self.compressed.write_all(json)?;
        self.lines.push(line);
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        self.all.into_inner()?.sync_all()?;
        self.compressed.finish()?.into_inner()?.sync_all()?;
        let mut index = BufWriter::new(File::create_new(self.index)?);
        serde_json::to_writer(&mut index, &self.lines)?;
        index.into_inner()?.sync_all()
    }
}

/// A document, and all of it as one line.
pub(crate) struct Blob {
    pub(crate) document: Document,
    line: Line,
    pub(crate) json: Vec<u8>,
}

impl Blob {
    fn new(document: Document, value: &Value) -> Self {
        let mut json = value.to_string().into_bytes();
        json.push(b'\n');
        // In any case, as they are read.
        let text = |wanted: &str| {
            let field = value.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(wanted))?;
            field.1.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let line = Line {
            length: json.len() as u64,
            schema: text("schema").unwrap_or_default(),
            package: text("package"),
            name: text("name"),
        };
        Self { document, line, json }
    }
}

impl Form for Blob {
    fn from_json(json: &[u8]) -> Result<Result<Self, document::Error>, serde_json::Error> {
        let document = match Document::from_json(json)? {
            Ok(document) => document,
            Err(error) => return Ok(Err(error)),
        };
        Ok(Ok(Self::new(document, &serde_json::from_slice(json)?)))
    }

    fn from_value(value: &Value) -> Result<Self, document::Error> {
        Ok(Self::new(Document::from_value(value)?, value))
    }
}
