//! What is attached to an image as a signature of it: found, fetched and checked against its digests. Whose signature it is,
//! and whether it is one, is for others to say.
//!
//! It is looked for in three places: the tag `sha256-<hex>.sig` of cosign, the registry's list of referrers, and, where the
//! registry keeps none, the tag `sha256-<hex>` that clients keep in its place (OCI distribution specification 1.1).

use std::ops::ControlFlow;

use oci_client::Reference;
use oci_client::manifest::{OciDescriptor, OciManifest};
use rukpak_content::{Attachment, AttachmentVisitor, Hasher};
use serde::Deserialize;

use super::session::{Session, Wanted};
use super::{Class, Credentials, Error, Puller, ResolvedImage, manifest, transport};
use crate::chain::chain;
use crate::class::is_passing;

/// Signatures have a few KiB; with their certificates and proofs some tens.
const SIGNATURE_BYTES: u64 = 1024 * 1024;
/// So many blobs are looked at; whoever signs again and again leaves the old signatures there.
const MOST_SIGNATURES: usize = 256;

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    digest: String,
    size: i64,
    artifact_type: Option<String>,
}

impl Puller {
    /// Shows `visitor` what is attached to `image`, until it has seen enough.
    ///
    /// # Errors
    /// Whether something is attached could not be found out.
    pub async fn attachments(
        &self,
        image: &ResolvedImage,
        credentials: &Credentials,
        visitor: &mut dyn AttachmentVisitor,
    ) -> Result<(), Error> {
        let search = Search { puller: self, image, credentials, visitor, left: MOST_SIGNATURES };
        self.in_time(&image.reference(), search.run()).await
    }
}

/// One search for what is attached to an image.
struct Search<'a> {
    puller: &'a Puller,
    image: &'a ResolvedImage,
    credentials: &'a Credentials,
    visitor: &'a mut dyn AttachmentVisitor,
    /// Blobs that may still be fetched.
    left: usize,
}

impl<'a> Search<'a> {
    async fn run(mut self) -> Result<(), Error> {
        let digest = &self.image.digest;
        let tag = self.tag(format!("{}-{}.sig", digest.algorithm().name(), digest.hex()));
        if let Some(manifest) = self.tagged(&tag).await? {
            let mut session = self.session(&tag);
            if self.visit(&mut session, &manifest, &format!("signatures in {tag}")).await?.is_break() {
                return Ok(());
            }
        }
        self.referrers().await
    }

    fn tag(&self, tag: String) -> Reference {
        let own = &self.image.reference;
        Reference::with_tag(own.registry().to_owned(), own.repository().to_owned(), tag)
    }

    fn session<'b>(&self, reference: &'b Reference) -> Session<'b>
    where
        'a: 'b,
    {
        Session::new(&self.puller.transport, reference, self.credentials, self.image.authorization.clone())
    }

    /// The manifest or index that a tag names, if there is one.
    async fn tagged(&self, tag: &Reference) -> Result<Option<Vec<u8>>, Error> {
        let wanted = Wanted { name: tag.tag().unwrap_or_default(), expected: None, size_bytes: None };
        let found = self.session(tag).manifest(&wanted, &format!("signatures in {tag}")).await;
        Ok(there(found)?.map(|document| document.body))
    }

    async fn referrers(&mut self) -> Result<(), Error> {
        let ResolvedImage { reference, digest, .. } = self.image;
        let mut session = self.session(reference);
        let what = format!("referrers of {reference}");
        let index = match listed(session.referrers(digest, &what).await)? {
            Some(index) => Some(index),
            None => self.tagged(&self.tag(format!("{}-{}", digest.algorithm().name(), digest.hex()))).await?,
        };
        let Some(index) = index else { return Ok(()) };
        let index: Index =
            serde_json::from_slice(&index).map_err(|source| Error::Manifest { what: what.clone(), source })?;
        for entry in index.manifests.iter().filter(|entry| may_sign(entry)) {
            let (digest, size_bytes) = manifest::descriptor(&entry.digest, entry.size, &what)?;
            let what = format!("referrer {digest} of {reference}");
            let wanted = Wanted { name: &entry.digest, expected: Some(&digest), size_bytes: Some(size_bytes) };
            match session.manifest(&wanted, &what).await {
                Ok(document) if self.visit(&mut session, &document.body, &what).await?.is_break() => break,
                Ok(_) => {}
                Err(error) => self.visitor.unreadable(&chain(&damaged(error)?)),
            }
        }
        Ok(())
    }

    /// Shows the layers of one manifest.
    async fn visit(&mut self, session: &mut Session<'_>, body: &[u8], what: &str) -> Result<ControlFlow<()>, Error> {
        let layers = match manifest::read(body, None, what) {
            Ok(OciManifest::Image(manifest)) => manifest.layers,
            Ok(OciManifest::ImageIndex(_)) => Vec::new(),
            Err(error) => {
                self.visitor.unreadable(&chain(&error));
                Vec::new()
            }
        };
        for layer in layers {
            if self.left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            if !self.visitor.wants(&layer.media_type) {
                continue;
            }
            self.left -= 1;
            match blob(session, &layer, what).await {
                Ok(body) => {
                    let annotations = layer.annotations.unwrap_or_default();
                    let attachment = Attachment { media_type: layer.media_type, annotations, body };
                    if self.visitor.visit(&attachment).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Err(error) => self.visitor.unreadable(&chain(&damaged(error)?)),
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Other artifacts refer to an image too: lists of its parts, statements about how it was built.
fn may_sign(entry: &Entry) -> bool {
    entry.artifact_type.as_deref().is_none_or(|type_| {
        type_.starts_with("application/vnd.dev.cosign.") || type_.starts_with("application/vnd.dev.sigstore.")
    })
}

async fn blob(session: &mut Session<'_>, layer: &OciDescriptor, what: &str) -> Result<Vec<u8>, Error> {
    let (digest, size_bytes) = manifest::descriptor(&layer.digest, layer.size, what)?;
    let what = format!("signature {digest}");
    if size_bytes > SIGNATURE_BYTES {
        return Err(Error::TooLarge { what, maximum_bytes: SIGNATURE_BYTES });
    }
    let response = session.blob(&digest, &what).await?;
    let body = transport::body(response, &what, size_bytes).await?;
    let mut hasher = Hasher::new(digest.algorithm());
    hasher.update(&body);
    let actual = hasher.finish();
    if actual == digest { Ok(body) } else { Err(Error::Mismatch { what, expected: digest, actual }) }
}

/// `None` where the registry says that there is none.
fn there<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.class() == Class::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// `None` where the registry keeps no lists of referrers.
fn listed<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match there(answer) {
        Err(Error::Status { status, .. }) if status.is_client_error() && !is_passing(status) => Ok(None),
        other => other,
    }
}

/// What is wrong with one attachment says nothing about the others; but a registry in trouble is asked again.
fn damaged(error: Error) -> Result<Error, Error> {
    match error.class() {
        Class::NotFound | Class::Terminal => Ok(error),
        Class::Unauthorized | Class::Unavailable => Err(error),
    }
}
