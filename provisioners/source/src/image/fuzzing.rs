//! Entry points of the fuzz targets in `tests/fuzz`, which otherwise only a registry's answer reaches. No part of the API.

use http::{HeaderMap, HeaderValue, header};
use oci_client::manifest::OciManifest;
use url::Url;

use super::authorization::{self, Challenge};
use super::{Error, manifest, parse};

/// The whole of an image reference; `None` if it is none.
pub fn reference(text: &str) -> Option<String> {
    parse(text).ok().map(|reference| reference.whole())
}

/// Reads a manifest to its layers, an index to the manifest for this machine.
pub fn manifest(body: &[u8]) -> Result<(), Error> {
    match manifest::read(body, None, "input")? {
        OciManifest::Image(image) => manifest::layers(&image, 1_000, "input").map(drop),
        OciManifest::ImageIndex(index) => {
            let entry = manifest::choose(&index, "input")?;
            manifest::descriptor(&entry.digest, entry.size, "input").map(drop)
        }
    }
}

/// Where a token for `repository` would be asked for in answer to `WWW-Authenticate` headers of these values.
pub fn token_url(values: &[&[u8]], repository: &str) -> Option<Url> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_bytes(value).ok()?);
    }
    match Challenge::from_headers(&headers).ok()? {
        Challenge::Bearer { realm, service } => Some(authorization::token_url(realm, service.as_deref(), repository)),
        Challenge::Basic => None,
    }
}

/// Whether the answer of a token service holds a token.
pub fn token(answer: &[u8]) -> bool {
    authorization::token(answer).is_some()
}
