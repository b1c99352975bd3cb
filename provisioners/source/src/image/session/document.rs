//! A manifest's bytes, checked before anyone reads them.

use http::header;
use reqwest::Response;
use rukpak_content::{Algorithm, Digest, Hasher};

use crate::image::{Error, transport};

pub(super) const MANIFEST_BYTES: u64 = 4 * 1024 * 1024;

/// Which manifest.
pub(in crate::image) struct Wanted<'a> {
    /// A tag or a digest.
    pub(in crate::image) name: &'a str,
    pub(in crate::image) expected: Option<&'a Digest>,
    pub(in crate::image) size_bytes: Option<u64>,
}

/// A manifest as it came.
pub(in crate::image) struct Document {
    pub(in crate::image) body: Vec<u8>,
    pub(in crate::image) digest: Digest,
    pub(in crate::image) content_type: Option<String>,
}

impl Document {
    pub(super) async fn read(response: Response, wanted: &Wanted<'_>, what: &str) -> Result<Self, Error> {
        let text = |header| response.headers().get(header).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let content_type = text(header::CONTENT_TYPE.as_str());
        // A tag has no digest of its own. What the registry claims is checked, and names the bytes where it holds.
        let claimed = text("docker-content-digest").and_then(|digest| digest.parse().ok());
        let body = transport::body(response, what, MANIFEST_BYTES).await?;
        let actual_bytes = body.len() as u64;
        if let Some(expected_bytes) = wanted.size_bytes.filter(|size| *size != actual_bytes) {
            return Err(Error::Size { what: what.to_owned(), expected_bytes, actual_bytes });
        }
        let digest = verified(&body, wanted.expected.cloned().or(claimed), what)?;
        Ok(Self { body, digest, content_type })
    }
}

/// Returns the digest of `body`; an error if `expected` is another one.
pub(in crate::image) fn verified(body: &[u8], expected: Option<Digest>, what: &str) -> Result<Digest, Error> {
    let mut hasher = Hasher::new(expected.as_ref().map_or(Algorithm::Sha256, Digest::algorithm));
    hasher.update(body);
    let actual = hasher.finish();
    match expected {
        Some(expected) if expected != actual => Err(Error::Mismatch { what: what.to_owned(), expected, actual }),
        _ => Ok(actual),
    }
}
