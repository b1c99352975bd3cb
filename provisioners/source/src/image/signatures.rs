//! What is attached to an image as a signature of it: found, fetched and checked against its digests. Whose signature it is,
//! and whether it is one, is for others to say.
//!
//! It is looked for in three places: the tag `sha256-<hex>.sig` of cosign, the registry's list of referrers, and, where the
//! registry keeps none, the tag `sha256-<hex>` that clients keep in its place (OCI distribution specification 1.1).

use std::ops::ControlFlow;

use oci_client::Reference;
use oci_client::manifest::{OciDescriptor, OciManifest};
use rukpak_content::{Attachment, AttachmentVisitor};
use serde::Deserialize;

use super::session::{Session, Wanted, verified};
use super::{Class, Credentials, Error, Puller, ResolvedImage, manifest, transport};
use crate::chain::chain;
use crate::class::is_passing;

/// Signatures have a few KiB; with their certificates and proofs some tens.
const SIGNATURE_BYTES: u64 = 1024 * 1024;
/// So many blobs are looked at, and so many referrers; whoever signs again and again leaves the old signatures there.
const MOST_SIGNATURES: usize = 256;
/// So many pages of a list of referrers are read; a page may hold other artifacts alone.
const MOST_PAGES: usize = 32;

/// A page of a list of referrers.
#[derive(Deserialize)]
struct Index {
    /// Each is read by itself: one that is odd says nothing about the others.
    #[serde(default)]
    manifests: Vec<serde_json::Value>,
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
        let search = Search { puller: self, image, credentials, visitor, blobs: 0, referrers: 0 };
        self.in_time(&image.reference(), search.run()).await
    }
}

/// One search for what is attached to an image.
struct Search<'a> {
    puller: &'a Puller,
    image: &'a ResolvedImage,
    credentials: &'a Credentials,
    visitor: &'a mut dyn AttachmentVisitor,
    /// Blobs that were looked at.
    blobs: usize,
    /// Referrers that were.
    referrers: usize,
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

    /// The manifest or index that a tag names, if there is one that can be read.
    async fn tagged(&mut self, tag: &Reference) -> Result<Option<Vec<u8>>, Error> {
        let wanted = Wanted { name: tag.tag().unwrap_or_default(), expected: None, size_bytes: None };
        let found = self.session(tag).manifest(&wanted, &format!("signatures in {tag}")).await;
        match found {
            Ok(document) => Ok(Some(document.body)),
            Err(error) if error.class() == Class::NotFound => Ok(None),
            Err(error) => self.unreadable(error).map(|()| None),
        }
    }

    /// Looks at what the registry lists, or, where it lists nothing, at what clients list under a tag in its place.
    async fn referrers(&mut self) -> Result<(), Error> {
        let ResolvedImage { reference, digest, .. } = self.image;
        let mut session = self.session(reference);
        let what = format!("referrers of {reference}");
        let mut query = String::new();
        for at in 0..=MOST_PAGES {
            if at == MOST_PAGES {
                self.visitor.unreadable(&format!("{what}: more than {MOST_PAGES} pages; the rest was not looked at"));
                break;
            }
            let page = match session.referrers(digest, &query, &what).await {
                Ok(page) => page,
                Err(error) if at == 0 && keeps_no_list(&error) => return self.listed_by_tag(&mut session, &what).await,
                Err(error) => return self.unreadable(error),
            };
            if self.listed(&mut session, &page.body, &what).await?.is_break() {
                break;
            }
            let Some(next) = page.next else { break };
            query = next;
        }
        Ok(())
    }

    async fn listed_by_tag(&mut self, session: &mut Session<'_>, what: &str) -> Result<(), Error> {
        let digest = &self.image.digest;
        let tag = self.tag(format!("{}-{}", digest.algorithm().name(), digest.hex()));
        match self.tagged(&tag).await? {
            Some(index) => self.listed(session, &index, what).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Looks at the signatures among the entries of an index.
    async fn listed(&mut self, session: &mut Session<'_>, index: &[u8], what: &str) -> Result<ControlFlow<()>, Error> {
        let index: Index = match serde_json::from_slice(index) {
            Ok(index) => index,
            Err(source) => {
                self.unreadable(Error::Manifest { what: what.to_owned(), source })?;
                return Ok(ControlFlow::Continue(()));
            }
        };
        for entry in index.manifests {
            let entry: Entry = match serde_json::from_value(entry) {
                Ok(entry) if may_sign(&entry) => entry,
                Ok(_) => continue,
                Err(source) => {
                    self.unreadable(Error::Manifest { what: what.to_owned(), source })?;
                    continue;
                }
            };
            if self.referrers == MOST_SIGNATURES {
                return Ok(self.too_many(what));
            }
            self.referrers += 1;
            match self.referrer(session, &entry, what).await {
                Ok(ControlFlow::Continue(())) => {}
                Ok(enough) => return Ok(enough),
                Err(error) => self.unreadable(error)?,
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    async fn referrer(
        &mut self,
        session: &mut Session<'_>,
        entry: &Entry,
        what: &str,
    ) -> Result<ControlFlow<()>, Error> {
        let (digest, size_bytes) = manifest::descriptor(&entry.digest, entry.size, what)?;
        let what = format!("referrer {digest} of {}", self.image.reference);
        let wanted = Wanted { name: &entry.digest, expected: Some(&digest), size_bytes: Some(size_bytes) };
        let document = session.manifest(&wanted, &what).await?;
        self.visit(session, &document.body, &what).await
    }

    /// Shows the layers of one manifest.
    async fn visit(&mut self, session: &mut Session<'_>, body: &[u8], what: &str) -> Result<ControlFlow<()>, Error> {
        let layers = match manifest::read(body, None, what) {
            Ok(OciManifest::Image(manifest)) => manifest.layers,
            Ok(OciManifest::ImageIndex(_)) => Vec::new(),
            Err(error) => {
                self.unreadable(error)?;
                Vec::new()
            }
        };
        for layer in layers {
            if !self.visitor.wants(&layer.media_type) {
                continue;
            }
            if self.blobs == MOST_SIGNATURES {
                return Ok(self.too_many(what));
            }
            self.blobs += 1;
            match blob(session, &layer, what).await {
                Ok(body) => {
                    let annotations = layer.annotations.unwrap_or_default();
                    let attachment = Attachment { media_type: layer.media_type, annotations, body };
                    if self.visitor.visit(&attachment).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Err(error) => self.unreadable(error)?,
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn too_many(&mut self, what: &str) -> ControlFlow<()> {
        self.visitor.unreadable(&format!("{what}: more than {MOST_SIGNATURES}; the rest was not looked at"));
        ControlFlow::Break(())
    }

    /// What is wrong with one attachment says nothing about the others; but a registry in trouble is asked again.
    fn unreadable(&mut self, error: Error) -> Result<(), Error> {
        match error.class() {
            Class::NotFound | Class::Terminal => {
                self.visitor.unreadable(&chain(&error));
                Ok(())
            }
            Class::Unauthorized | Class::Unavailable => Err(error),
        }
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
    verified(&body, Some(digest), &what)?;
    Ok(body)
}

/// Whether the registry says that it keeps no lists of referrers, or the last of several places does.
fn keeps_no_list(error: &Error) -> bool {
    match error {
        Error::Places { source, .. } => keeps_no_list(source),
        Error::Status { status, .. } => status.is_client_error() && !is_passing(*status),
        _ => false,
    }
}
