//! Catalogs that catalogd serves.

use std::io::{self, Read};

use rukpak_content::{Algorithm, Hasher};
use rukpak_source::http::{Opened, Request};

use super::{Error, Loader, Revision};
use crate::{Catalog, read};

/// The whole catalog, below the base URL. Source: catalogd's `api/v1`.
const ALL: &str = "api/v1/all";

/// catalogd sends JSON lines, and versions before said so in other words; a file server may not know at all.
const ACCEPT: &str = "application/jsonl, application/x-ndjson, application/json, application/yaml, application/x-yaml, \
                      text/yaml, text/plain, application/octet-stream";

impl Loader {
    /// The revision is the server's validator or, where it gives none, the digest of the body.
    ///
    /// A server that keeps to it sends nothing where the catalog is the one that is known. The body is read while it comes.
    pub(super) async fn https(
        &self,
        base: &str,
        known: Option<&Revision>,
    ) -> Result<Option<(Catalog, Revision)>, Error> {
        let request = Request::new(&format!("{base}/{ALL}")).map_err(Error::Http)?;
        let validator = known.map(|Revision(text)| text.as_str());
        let Opened::Body(body) = self.fetcher.open(&request, ACCEPT, validator).await.map_err(Error::Http)? else {
            return Ok(None);
        };
        let validator = body.validator().map(Revision);
        if validator.is_some() && validator.as_ref() == known {
            return Ok(None);
        }
        let (limits, place) = (self.limits.clone(), request.shown().to_owned());
        let hash = validator.is_none();
        let work = move |reader: &mut dyn io::BufRead| {
            let mut reader = Hashed { reader, hasher: hash.then(|| Hasher::new(Algorithm::Sha256)) };
            let taken = read::catalog_of_stream(&place, &mut reader, &limits)?;
            Ok((taken, reader.hasher.map(|hasher| Revision(hasher.finish().to_string()))))
        };
        let read: Result<_, read::Error> = self.fetcher.read(body, work).await.map_err(Error::Http)?;
        let (taken, digest) = read?;
        match validator.or(digest) {
            Some(revision) if known == Some(&revision) => Ok(None),
            revision => Ok(Some((taken, revision.unwrap_or_else(|| Revision(String::new()))))),
        }
    }
}

/// Hashes what is read, if anyone asks for it.
struct Hashed<'a> {
    reader: &'a mut dyn io::BufRead,
    hasher: Option<Hasher>,
}

impl Read for Hashed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(into)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&into[..count]);
        }
        Ok(count)
    }
}
