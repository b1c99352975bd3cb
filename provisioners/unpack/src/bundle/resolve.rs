//! From a reference to the one version it names. Reads Secrets and ConfigMaps; asks the registry, the git server or the web
//! server, which for an archive means to download it.

use std::fs::File;
use std::io::{self, Seek as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kube::ResourceExt as _;
use rukpak_content::{Digest, RelativePath};
use rukpak_crds::validate::{GitReference, Source};
use rukpak_crds::{Authorization, Bundle};
use rukpak_source::files::FileSet;
use rukpak_source::git::{self, Reference, Request};
use rukpak_source::http;
use rukpak_source::image::{self, Credentials, ResolvedImage};
use tokio::task::spawn_blocking;

use super::failure::Failure;
use super::pin::Revision;
use super::{config_maps, credentials, pin};
use crate::context::Context;
use crate::depot;

/// A version of a source, with what is needed to fetch it.
pub enum Resolved {
    Image {
        /// The reference as it was asked for: the spec's, or the pinned one.
        reference: String,
        image: Box<ResolvedImage>,
        /// Logins for its layers.
        credentials: Credentials,
    },
    /// A commit, and where it is.
    Git(Box<git::Resolved>),
    Http(Box<http::Download>),
    ConfigMaps(Vec<FileSet>),
    /// An archive that a client uploaded.
    Upload {
        /// The archive, at its first byte.
        archive: File,
        digest: Digest,
    },
}

impl Resolved {
    pub fn revision(&self) -> Revision {
        match self {
            Self::Image { image, .. } => Revision::Image(image.digest().clone()),
            Self::Git(resolved) => Revision::Git(resolved.commit().clone()),
            Self::Http(download) => Revision::Archive(download.digest().clone()),
            Self::ConfigMaps(_) => Revision::ConfigMaps,
            Self::Upload { digest, .. } => Revision::Archive(digest.clone()),
        }
    }
}

/// Finds the version of the Bundle's source: the pinned one if there is a pin, whatever the reference names by now. Of
/// ConfigMaps and uploads only what they hold now is to be had; their content is compared with the pin later.
#[tracing::instrument(level = "debug", skip_all)]
pub async fn resolve(
    bundle: &Bundle,
    source: Source,
    pinned: Option<&Revision>,
    context: &Context,
) -> Result<Resolved, Failure> {
    let mismatch = |type_: &str| Err(Failure::Pin(pin::Error::Kind(type_.to_owned())));
    match (source, pinned) {
        (Source::Image { reference, pull_secret }, None) => {
            find_image(&reference, None, pull_secret.as_deref(), context).await
        }
        (Source::Image { reference, pull_secret }, Some(Revision::Image(digest))) => {
            find_image(&reference, Some(digest), pull_secret.as_deref(), context).await
        }
        (Source::Git { repository, directory, reference, auth }, None) => {
            let request = request(repository, directory, reference, &auth, context).await?;
            Ok(Resolved::Git(Box::new(context.sources.git.resolve(request).await?)))
        }
        (Source::Git { repository, directory, reference, auth }, Some(Revision::Git(commit))) => {
            let request = request(repository, directory, reference, &auth, context).await?;
            Ok(Resolved::Git(Box::new(git::Resolved::pinned(request, commit.clone()))))
        }
        (Source::Http { url, auth }, None) => {
            let request = archive_request(&url, &auth, context).await?;
            Ok(Resolved::Http(Box::new(context.sources.http.download(&request).await?)))
        }
        (Source::Http { url, auth }, Some(Revision::Archive(digest))) => {
            let request = archive_request(&url, &auth, context).await?;
            Ok(Resolved::Http(Box::new(context.sources.http.download_pinned(&request, digest).await?)))
        }
        (Source::ConfigMaps(entries), None | Some(Revision::ConfigMaps)) => {
            let deployment = super::made_for(bundle, context);
            Ok(Resolved::ConfigMaps(config_maps::read(&entries, deployment.as_deref(), context).await?))
        }
        (Source::Upload, None) => uploaded(bundle, context).await?.ok_or(Failure::AwaitsUpload),
        (Source::Upload, Some(Revision::Archive(_))) => uploaded(bundle, context).await?.ok_or(Failure::LostUpload),
        (Source::Image { .. }, Some(_)) => mismatch("image"),
        (Source::Git { .. }, Some(_)) => mismatch("git"),
        (Source::Http { .. }, Some(_)) => mismatch("http"),
        (Source::ConfigMaps(_), Some(_)) => mismatch("configMaps"),
        (Source::Upload, Some(_)) => mismatch("upload"),
    }
}

async fn archive_request(url: &str, auth: &Authorization, context: &Context) -> Result<http::Request, Failure> {
    let request = http::Request::new(url)?.with_insecure_skip_verify(skips_verification(auth, context)?);
    Ok(match credentials::for_http(&request, auth, context).await? {
        Some(login) => request.with_login(login),
        None => request,
    })
}

/// Whether the server need not prove who it is, if that is allowed at all.
fn skips_verification(auth: &Authorization, context: &Context) -> Result<bool, Failure> {
    match auth.skips_verification() {
        true if context.sources.policy.forbid_insecure_skip_verify => Err(Failure::InsecureSkipVerify),
        skips => Ok(skips),
    }
}

/// What was uploaded, if it is here.
async fn uploaded(bundle: &Bundle, context: &Context) -> Result<Option<Resolved>, Failure> {
    let Some(uploads) = context.uploads.clone() else { return Err(Failure::NoUploads) };
    let uid = bundle.uid().unwrap_or_default();
    let look = move |uploads: Arc<depot::Depot>| -> io::Result<_> {
        let Some(mut archive) = uploads.find(&uid)? else { return Ok(None) };
        let digest = depot::digest(&mut archive)?;
        archive.rewind()?;
        Ok(Some((archive, digest)))
    };
    let found = spawn_blocking(move || look(uploads)).await.map_err(Failure::Worker)?;
    let found = found.map_err(Failure::ReadUpload)?;
    Ok(found.map(|(archive, digest)| Resolved::Upload { archive, digest }))
}

/// Asks the registry for an image: the pinned one if there is a pin.
///
/// An image that names no pull secret is asked for without a login where there was none the last time, and the ServiceAccount read again
/// only if that fails: most images are anybody's, and it would be one request more for each of them.
async fn find_image(
    reference: &str,
    pinned: Option<&Digest>,
    pull_secret: Option<&str>,
    context: &Context,
) -> Result<Resolved, Failure> {
    let is_tried = pull_secret.is_none() && context.has_no_pull_secrets.load(Ordering::Relaxed);
    let refused = if is_tried {
        match ask_registry(reference, pinned, &Credentials::anonymous(), context).await {
            Ok(image) => return Ok(resolved(reference, pinned, image, Credentials::anonymous())),
            Err(error) => Some(error),
        }
    } else {
        None
    };

    let credentials = credentials::for_image(reference, pull_secret, context).await?;
    let found = match refused {
        // Nothing has changed.
        Some(error) if credentials.is_anonymous() => Err(error),
        _ => ask_registry(reference, pinned, &credentials, context).await,
    };
    match found {
        Ok(image) => Ok(resolved(reference, pinned, image, credentials)),
        Err(source) => Err(Failure::ResolveImage { reference: shown(reference, pinned), source: Box::new(source) }),
    }
}

async fn ask_registry(
    reference: &str,
    pinned: Option<&Digest>,
    credentials: &Credentials,
    context: &Context,
) -> Result<ResolvedImage, image::Error> {
    match pinned {
        None => context.sources.images.resolve(reference, credentials).await,
        Some(digest) => context.sources.images.resolve_pinned(reference, digest, credentials).await,
    }
}

fn resolved(reference: &str, pinned: Option<&Digest>, image: ResolvedImage, credentials: Credentials) -> Resolved {
    Resolved::Image { reference: shown(reference, pinned), image: Box::new(image), credentials }
}

/// How the image is called that was asked for.
fn shown(reference: &str, pinned: Option<&Digest>) -> String {
    pinned.map_or_else(|| reference.to_owned(), |digest| pin::reference_at(reference, digest))
}

async fn request(
    repository: String,
    directory: Option<String>,
    reference: GitReference,
    auth: &Authorization,
    context: &Context,
) -> Result<Request, Failure> {
    let insecure_skip_verify = skips_verification(auth, context)?;
    let login = credentials::for_git(&repository, auth, context).await?;
    let directory = directory.as_deref().map(RelativePath::new).transpose().map_err(Failure::Directory)?;
    let reference = match reference {
        GitReference::Branch(name) => Reference::Branch(name),
        GitReference::Tag(name) => Reference::Tag(name),
        GitReference::Commit(name) => Reference::Commit(name),
    };
    let strict_host_keys = context.sources.policy.strict_host_keys;
    Ok(Request { repository, reference, directory, auth: login, insecure_skip_verify, strict_host_keys })
}
