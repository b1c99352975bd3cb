//! The image's configuration: of it, the labels.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::session::{Session, verified};
use super::{Credentials, Error, Puller, ResolvedImage, transport};

/// Configurations hold the history of the image; even long ones have some 100 KiB.
const CONFIG_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Deserialize)]
struct Document {
    config: Option<Config>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(rename = "Labels")]
    labels: Option<BTreeMap<String, String>>,
}

impl Puller {
    /// The labels of an image. One request; no layer is fetched.
    pub async fn labels(
        &self,
        image: &ResolvedImage,
        credentials: &Credentials,
    ) -> Result<BTreeMap<String, String>, Error> {
        self.in_time(&image.reference(), self.labels_of(image, credentials)).await
    }

    async fn labels_of(
        &self,
        image: &ResolvedImage,
        credentials: &Credentials,
    ) -> Result<BTreeMap<String, String>, Error> {
        let what = format!("configuration of {}", image.reference);
        let (digest, size_bytes) = image.config.read(&what)?;
        let authorization = image.authorization.clone();
        let mut session = Session::new(&self.transport, &image.reference, credentials, authorization);
        let response = session.blob(&digest, &what).await?;
        let body = transport::body(response, &what, CONFIG_BYTES).await?;
        let actual_bytes = body.len() as u64;
        if actual_bytes != size_bytes {
            return Err(Error::Size { what, expected_bytes: size_bytes, actual_bytes });
        }
        verified(&body, Some(digest), &what)?;
        let document: Document =
            serde_json::from_slice(&body).map_err(|source| Error::Config { what: what.clone(), source })?;
        Ok(document.config.and_then(|config| config.labels).unwrap_or_default())
    }
}
