//! `rukpakctl catalog validate`.

mod image;

use std::io::{self, Write};

use rukpak_catalog::document::Document;
use rukpak_catalog::origin::{self, Origin};
use rukpak_catalog::read;
use rukpak_catalog::validate::{self, Finding};
use serde::Serialize;

use super::failed;
use super::open::{self, file, place};
use super::place::Place;
use crate::args::{FindingForm, ValidateCatalogArgs};
use crate::exit::Exit;
use crate::output::{chain, data, pretty, talk};
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
    #[error("{0} is a running catalog, which does not give its documents away: validate its folder or its image{1}")]
    Running(String, &'static str),
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
}

/// Prints everything that is wrong with a catalog.
pub(super) async fn run(arguments: &ValidateCatalogArgs) -> Exit {
    let (from, documents) = match documents(arguments).await {
        Ok(found) => found,
        // The catalog was there, and is none.
        Err(Error::Read(error)) if is_about_content(&error) => {
            return print(arguments.output, &[Finding { package: None, message: chain(&error) }]);
        }
        Err(error) => return failed(&error),
    };
    let findings = validate::validate(&documents);
    let verdict = if findings.is_empty() { "valid".to_owned() } else { count(findings.len(), "finding") };
    talk(&format!("{from}: {}: {verdict}", count(documents.len(), "document")));
    print(arguments.output, &findings)
}

async fn documents(arguments: &ValidateCatalogArgs) -> Result<(String, Vec<Document>), Error> {
    let place = place(&arguments.place)?;
    let mut documents = Vec::new();
    let mut take = |document| documents.push(document);
    match &place {
        Place::Origin(Origin::Folder(path)) => read::folder(path, &origin::limits(), &mut take)?,
        Place::File(path) => read::stream(&place.to_string(), &mut file(path)?, &origin::limits(), &mut take)?,
        Place::Origin(Origin::Image(name)) => image::read(name, &arguments.place, &mut take).await?,
        Place::Origin(Origin::Http(_)) => {
            return Err(Error::Running(place.to_string(), ", or a file of what it serves at api/v1/all"));
        }
        Place::Grpc(_) => return Err(Error::Running(place.to_string(), "")),
    }
    Ok((place.to_string(), documents))
}

/// Whether somebody must mend the catalog, rather than the way to it.
fn is_about_content(error: &read::Error) -> bool {
    !matches!(error, read::Error::Io { .. } | read::Error::NotAFolder(_))
}

fn print(form: FindingForm, findings: &[Finding]) -> Exit {
    let exit = if findings.is_empty() { Exit::Yes } else { Exit::No };
    let write = |out: &mut dyn Write| -> io::Result<()> {
        match form {
            FindingForm::Text => {
                findings.iter().try_for_each(|finding| writeln!(out, "{}", one_line(&finding.message)))
            }
            FindingForm::Json => {
                pretty(out, &Report { passed: findings.is_empty(), findings: findings.iter().map(line).collect() })
            }
        }
    };
    data(write, exit)
}

fn line(Finding { package, message }: &Finding) -> FindingLine<'_> {
    FindingLine { package: package.as_deref(), message }
}
