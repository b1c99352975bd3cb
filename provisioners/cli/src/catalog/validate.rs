//! `rukpakctl catalog validate`.

use std::io::{self, Write};

use rukpak_catalog::document::Document;
use rukpak_catalog::origin::{self, Origin};
use rukpak_catalog::read::{self, Documents, Files, Position};
use rukpak_catalog::validate::{self, Finding};
use serde::Serialize;

use super::failed;
use super::location::CatalogLocation;
use super::open::{self, file, of_cluster, place};
use crate::args::{FindingForm, ValidateCatalogArgs};
use crate::exit::Exit;
use crate::output::{chain, pretty, to_stderr, to_stdout};
use crate::table::{count, one_line};

/// Why the documents could not be had.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// As for the other verbs.
    #[error(transparent)]
    Open(#[from] open::Error),
    /// The documents are no documents, or cannot be read.
    #[error(transparent)]
    Read(#[from] read::Error),
    /// Nobody gives the documents away.
    #[error(
        "{0}: a catalog that is served over gRPC does not give its documents away, only what its server made of them, where what \
         is there twice or belongs to nothing is gone: validate its image or its folder; `rukpakctl catalog show` warns of the \
         graph of a single package"
    )]
    Running(String),
    /// There is no catalog. Nothing was looked at, so it is not valid; and nothing is wrong with any document of it, so there is
    /// no finding: mostly the path is another one, a mount is missing, or `.indexignore` takes too much. That is "could not
    /// read" rather than "findings".
    #[error(
        "{0}: {1}: nothing was validated. Looked for documents of the schemas olm.package, olm.channel and olm.bundle, in files of \
         any name, here and in the folders below"
    )]
    Nothing(String, String),
}

/// What `--output json` prints.
#[derive(Serialize)]
struct Report<'a> {
    passed: bool,
    findings: Vec<FindingLine<'a>>,
}

#[derive(Serialize)]
struct FindingLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<&'a str>,
    message: &'a str,
    /// Where its documents are, if their names do not tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<PlaceLine<'a>>,
}

#[derive(Serialize)]
struct PlaceLine<'a> {
    file: &'a str,
    /// From 1.
    document: usize,
    /// From 1.
    line: usize,
}

/// Places that a line names. JSON has all.
const MAX_PLACES: usize = 8;

/// Prints everything that is wrong with a catalog.
pub(super) async fn run(arguments: &ValidateCatalogArgs) -> Exit {
    let (from, Documents { documents, files }) = match documents(arguments).await {
        Ok(found) => found,
        Err(error) => match about_content(&error) {
            // The catalog was there, and is none.
            Some(error) => {
                let finding = Finding { package: None, message: chain(error), places: Vec::new() };
                return print(arguments.output, &[finding]);
            }
            None => return failed(&error),
        },
    };
    note_left_out(&files);
    let findings = validate::validate(&documents);
    let is_other = |document: &Document| matches!(document, Document::Other { .. });
    if findings.is_empty() && documents.iter().all(|located| is_other(&located.document)) {
        return failed(&Error::Nothing(from, nothing(&files, documents.len())));
    }
    let verdict = if findings.is_empty() { "valid".to_owned() } else { count(findings.len(), "finding") };
    to_stderr(&format!("{from}: {}: {verdict}", count(documents.len(), "document")));
    print(arguments.output, &findings)
}

/// The documents, and what to call the place.
async fn documents(arguments: &ValidateCatalogArgs) -> Result<(String, Documents), Error> {
    let place = place(&arguments.place)?;
    let documents = match &place {
        CatalogLocation::Origin(Origin::Folder(path)) => read::documents(path, &origin::limits())?,
        CatalogLocation::File(path) => {
            read::documents_of_stream(&place.to_string(), &mut file(path)?, &origin::limits())?
        }
        CatalogLocation::Origin(origin) => {
            let (documents, name) = open::documents(origin, &arguments.place).await?;
            return Ok((name, documents));
        }
        CatalogLocation::Cluster(name) => {
            let mut documents = of_cluster(name, &arguments.place).await?;
            read::documents_of_stream(&place.to_string(), &mut documents, &origin::limits())?
        }
        CatalogLocation::Grpc(_) => return Err(Error::Running(place.to_string())),
    };
    Ok((place.to_string(), documents))
}

/// What is wrong with the catalog itself, which somebody must fix, rather than with the way to it.
fn about_content(error: &Error) -> Option<&read::Error> {
    let error = match error {
        Error::Read(error) => error,
        Error::Open(open::Error::Load { source, .. }) => match &**source {
            origin::Error::Read(error) => error,
            _ => return None,
        },
        _ => return None,
    };
    Some(error).filter(|error| !matches!(error, read::Error::Io { .. } | read::Error::NotAFolder(_)))
}

/// What nobody looked at cannot be valid, so it is named.
fn note_left_out(Files { left_out, left_out_names, .. }: &Files) {
    if *left_out > 0 {
        let names: Vec<String> = left_out_names.iter().map(|name| one_line(name)).collect();
        let what = if *left_out == 1 { "1 file or folder".to_owned() } else { format!("{left_out} files and folders") };
        to_stderr(&format!("note: .indexignore leaves out {what}: {}", listed(&names, *left_out)));
    }
}

/// Why there is nothing to validate.
fn nothing(files: &Files, documents: usize) -> String {
    match (files.read, files.left_out) {
        (0, 0) => "there is no file in it".to_owned(),
        (0, _) => ".indexignore leaves out everything that is in it".to_owned(),
        (read, _) => format!("no package is in its {} with {}", count(read, "file"), count(documents, "document")),
    }
}

/// Some of so many.
fn listed(names: &[String], all: usize) -> String {
    let more = all - names.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", names.join("; "))
}

fn print(form: FindingForm, findings: &[Finding]) -> Exit {
    let exit = if findings.is_empty() { Exit::Yes } else { Exit::No };
    let write = |out: &mut dyn Write| -> io::Result<()> {
        match form {
            FindingForm::Text => findings.iter().try_for_each(|finding| writeln!(out, "{}", one_line(&text(finding)))),
            FindingForm::Json => {
                pretty(out, &Report { passed: findings.is_empty(), findings: findings.iter().map(line).collect() })
            }
        }
    };
    to_stdout(write, exit)
}

/// `opm`'s words, and the places.
fn text(Finding { message, places, .. }: &Finding) -> String {
    if places.is_empty() {
        return message.clone();
    }
    let shown: Vec<String> = places.iter().take(MAX_PLACES).map(Position::to_string).collect();
    format!("{message}: {}", listed(&shown, places.len()))
}

fn line(Finding { package, message, places }: &Finding) -> FindingLine<'_> {
    let places = places.iter().map(|at| PlaceLine { file: &at.file, document: at.document, line: at.line });
    FindingLine { package: package.as_deref(), message, places: places.collect() }
}
