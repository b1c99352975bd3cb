//! Pushes images by the distribution API, independently of the client under test.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Registry;
use super::image::{Compression, Flavour, ImageBuilder, Layer, Platform};

/// Where an image went.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// `localhost:port/repository:tag`.
    pub reference: String,
    /// `localhost:port/repository@sha256:...`.
    pub pinned: String,
    /// Digest of what the tag names: the manifest, or the index.
    pub digest: String,
    /// Digests of the layers' blobs, in order; those of all platforms for an index.
    pub layers: Vec<String>,
    /// Digests of the platforms' manifests; empty without an index.
    pub manifests: Vec<String>,
}

/// `sha256:` and the lower-case hex digest of `bytes`.
pub fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::from("sha256:"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

/// A manifest's text with its media type and the digests of its layers.
struct Manifest {
    text: String,
    media_type: &'static str,
    layers: Vec<String>,
}

impl Registry {
    /// Pushes an image to `repository` with `tag`.
    pub async fn push(&self, repository: &str, tag: &str, image: &ImageBuilder) -> Result<Pushed> {
        if image.platforms.is_empty() {
            let manifest = self.push_layers(repository, image, &image.layers, &Platform::host()).await?;
            let digest = self.put_raw_manifest(repository, tag, manifest.media_type, manifest.text.as_bytes()).await?;
            return Ok(self.pushed(repository, tag, digest, manifest.layers, Vec::new()));
        }
        let (mut entries, mut layers, mut manifests) = (Vec::new(), Vec::new(), Vec::new());
        for (platform, content) in &image.platforms {
            let manifest = self.push_layers(repository, image, content, platform).await?;
            let own = digest(manifest.text.as_bytes());
            self.put_raw_manifest(repository, &own, manifest.media_type, manifest.text.as_bytes()).await?;
            entries.push(json!({
                "mediaType": manifest.media_type, "digest": own, "size": manifest.text.len(),
                "platform": { "os": platform.os, "architecture": platform.architecture },
            }));
            layers.extend(manifest.layers);
            manifests.push(own);
        }
        let media_type = index_type(image.flavour);
        let index = json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": entries }).to_string();
        let digest = self.put_raw_manifest(repository, tag, media_type, index.as_bytes()).await?;
        Ok(self.pushed(repository, tag, digest, layers, manifests))
    }

    /// Puts a manifest as it is under a tag or digest; returns its digest. The registry checks that it parses and that the
    /// blobs it names exist.
    pub async fn put_raw_manifest(
        &self,
        repository: &str,
        reference: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<String> {
        let request = self.request(Method::PUT, &format!("/v2/{repository}/manifests/{reference}"));
        let answer = request.header("content-type", media_type).body(bytes.to_vec()).send().await;
        expect(answer.context("put a manifest")?, "put a manifest").await?;
        Ok(digest(bytes))
    }

    /// Uploads a blob; returns its digest.
    pub async fn put_blob(&self, repository: &str, bytes: &[u8]) -> Result<String> {
        let digest = digest(bytes);
        let answer = self.request(Method::POST, &format!("/v2/{repository}/blobs/uploads/")).send().await;
        let answer = expect(answer.context("begin an upload")?, "begin an upload").await?;
        let location =
            answer.headers().get("location").and_then(|value| value.to_str().ok()).context("no upload location")?;
        let path = location.strip_prefix(&self.url()).unwrap_or(location);
        let separator = if path.contains('?') { '&' } else { '?' };
        let request = self.request(Method::PUT, &format!("{path}{separator}digest={digest}"));
        let request = request.header("content-type", "application/octet-stream").body(bytes.to_vec());
        expect(request.send().await.context("upload a blob")?, "upload a blob").await?;
        Ok(digest)
    }

    /// Points a tag to another image that was pushed before: a moved tag.
    pub async fn move_tag(&self, repository: &str, tag: &str, to_digest: &str) -> Result<()> {
        let types = [
            manifest_type(Flavour::Oci),
            manifest_type(Flavour::Docker),
            index_type(Flavour::Oci),
            index_type(Flavour::Docker),
        ];
        let request = self.request(Method::GET, &format!("/v2/{repository}/manifests/{to_digest}"));
        let answer = request.header("accept", types.join(", ")).send().await.context("get a manifest")?;
        let answer = expect(answer, "get a manifest").await?;
        let media_type = answer.headers().get("content-type").and_then(|value| value.to_str().ok());
        let media_type = media_type.context("a manifest without a media type")?.to_owned();
        let bytes = answer.bytes().await?;
        self.put_raw_manifest(repository, tag, &media_type, &bytes).await.map(|_| ())
    }

    /// Removes a manifest by its digest, and with it every tag that names it.
    pub async fn delete_manifest(&self, repository: &str, digest: &str) -> Result<()> {
        let answer = self.request(Method::DELETE, &format!("/v2/{repository}/manifests/{digest}")).send().await;
        expect(answer.context("delete a manifest")?, "delete a manifest").await.map(|_| ())
    }

    async fn push_layers(
        &self,
        repository: &str,
        image: &ImageBuilder,
        layers: &[Layer],
        platform: &Platform,
    ) -> Result<Manifest> {
        let flavour = image.flavour;
        let (mut descriptors, mut diff_ids, mut digests) = (Vec::new(), Vec::new(), Vec::new());
        for layer in layers {
            let (blob, diff_id) = layer.pack()?;
            let digest = self.put_blob(repository, &blob).await?;
            descriptors.push(descriptor(layer, flavour, &digest, blob.len()));
            diff_ids.push(diff_id);
            digests.push(digest);
        }
        let labels: BTreeMap<&str, &str> =
            image.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let config = if labels.is_empty() { json!({}) } else { json!({ "Labels": labels }) };
        let config = json!({
            "os": platform.os, "architecture": platform.architecture, "config": config,
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        let config = config.to_string();
        let config_digest = self.put_blob(repository, config.as_bytes()).await?;
        let media_type = manifest_type(flavour);
        let text = json!({
            "schemaVersion": 2, "mediaType": media_type,
            "config": { "mediaType": config_type(flavour), "digest": config_digest, "size": config.len() },
            "layers": descriptors,
        })
        .to_string();
        Ok(Manifest { text, media_type, layers: digests })
    }

    fn pushed(
        &self,
        repository: &str,
        tag: &str,
        digest: String,
        layers: Vec<String>,
        manifests: Vec<String>,
    ) -> Pushed {
        let name = format!("{}/{repository}", self.host());
        Pushed { reference: format!("{name}:{tag}"), pinned: format!("{name}@{digest}"), digest, layers, manifests }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url()));
        match &self.credentials {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        }
    }
}

fn descriptor(layer: &Layer, flavour: Flavour, digest: &str, size: usize) -> Value {
    let media_type = layer.media_type.clone().unwrap_or_else(|| layer_type(flavour, layer.compression).to_owned());
    let size = layer.claimed_size.map_or_else(|| json!(size), |size| json!(size));
    json!({ "mediaType": media_type, "digest": layer.claimed_digest.as_deref().unwrap_or(digest), "size": size })
}

fn manifest_type(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Oci => "application/vnd.oci.image.manifest.v1+json",
        Flavour::Docker => "application/vnd.docker.distribution.manifest.v2+json",
    }
}

fn index_type(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Oci => "application/vnd.oci.image.index.v1+json",
        Flavour::Docker => "application/vnd.docker.distribution.manifest.list.v2+json",
    }
}

fn config_type(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Oci => "application/vnd.oci.image.config.v1+json",
        Flavour::Docker => "application/vnd.docker.container.image.v1+json",
    }
}

fn layer_type(flavour: Flavour, compression: Compression) -> &'static str {
    match (flavour, compression) {
        (Flavour::Oci, Compression::Gzip) => "application/vnd.oci.image.layer.v1.tar+gzip",
        (Flavour::Oci, Compression::Zstd) => "application/vnd.oci.image.layer.v1.tar+zstd",
        (Flavour::Oci, Compression::None) => "application/vnd.oci.image.layer.v1.tar",
        (Flavour::Docker, Compression::Gzip) => "application/vnd.docker.image.rootfs.diff.tar.gzip",
        (Flavour::Docker, Compression::Zstd) => "application/vnd.docker.image.rootfs.diff.tar.zstd",
        (Flavour::Docker, Compression::None) => "application/vnd.docker.image.rootfs.diff.tar",
    }
}

async fn expect(answer: Response, what: &str) -> Result<Response> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    bail!("{what}: the registry says {status}: {}", answer.text().await.unwrap_or_default())
}
