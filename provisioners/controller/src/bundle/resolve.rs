//! From a reference to the one version it names. Reads Secrets; asks the registry or the git server.

use rukpak_content::RelativePath;
use rukpak_crds::Authorization;
use rukpak_crds::validate::{GitReference, Source};
use rukpak_source::git::{self, Reference, Request};
use rukpak_source::image::{Credentials, ResolvedImage};

use super::failure::Failure;
use super::pin::Revision;
use super::{credentials, pin};
use crate::context::Context;

/// A version of a source, with what is needed to fetch it.
pub enum Resolved {
    /// An image.
    Image {
        /// The reference as it was asked for: the spec's, or the pinned one.
        reference: String,
        /// Its manifest.
        image: Box<ResolvedImage>,
        /// Logins for its layers.
        credentials: Credentials,
    },
    /// A commit, and where it is.
    Git(Box<git::Resolved>),
}

impl Resolved {
    /// The version.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Image { image, .. } => Revision::Image(image.digest().clone()),
            Self::Git(resolved) => Revision::Git(resolved.commit().clone()),
        }
    }
}

/// Finds the version: the pinned one if there is a pin, whatever the reference names by now.
pub async fn resolve(source: Source, pinned: Option<&Revision>, context: &Context) -> Result<Resolved, Failure> {
    match (source, pinned) {
        (Source::Image { reference, pull_secret }, None) => {
            let credentials = credentials::for_image(pull_secret.as_deref(), context).await?;
            let found = context.images.resolve(&reference, &credentials).await;
            image(reference, credentials, found)
        }
        (Source::Image { reference, pull_secret }, Some(Revision::Image(digest))) => {
            let credentials = credentials::for_image(pull_secret.as_deref(), context).await?;
            let found = context.images.resolve_pinned(&reference, digest, &credentials).await;
            image(pin::reference_at(&reference, digest), credentials, found)
        }
        (Source::Git { repository, directory, reference, auth }, None) => {
            let request = request(repository, directory, reference, &auth, context).await?;
            Ok(Resolved::Git(Box::new(context.git.resolve(request).await?)))
        }
        (Source::Git { repository, directory, reference, auth }, Some(Revision::Git(commit))) => {
            let request = request(repository, directory, reference, &auth, context).await?;
            Ok(Resolved::Git(Box::new(git::Resolved::pinned(request, commit.clone()))))
        }
        (Source::Image { .. }, Some(Revision::Git(_))) => Err(Failure::Pin(pin::Error::Kind("image".to_owned()))),
        (Source::Git { .. }, Some(Revision::Image(_))) => Err(Failure::Pin(pin::Error::Kind("git".to_owned()))),
        (Source::ConfigMaps(_), _) => Err(Failure::NotYet("configMaps")),
        (Source::Http { .. }, _) => Err(Failure::NotYet("http")),
        (Source::Upload, _) => Err(Failure::NotYet("upload")),
    }
}

fn image(
    reference: String,
    credentials: Credentials,
    found: Result<ResolvedImage, rukpak_source::image::Error>,
) -> Result<Resolved, Failure> {
    match found {
        Ok(image) => Ok(Resolved::Image { reference, image: Box::new(image), credentials }),
        Err(source) => Err(Failure::ResolveImage { reference, source: Box::new(source) }),
    }
}

async fn request(
    repository: String,
    directory: Option<String>,
    reference: GitReference,
    auth: &Authorization,
    context: &Context,
) -> Result<Request, Failure> {
    let login = credentials::for_git(&repository, auth, context).await?;
    let directory = directory.as_deref().map(RelativePath::new).transpose().map_err(Failure::Directory)?;
    let reference = match reference {
        GitReference::Branch(name) => Reference::Branch(name),
        GitReference::Tag(name) => Reference::Tag(name),
        GitReference::Commit(name) => Reference::Commit(name),
    };
    Ok(Request { repository, reference, directory, auth: login, insecure_skip_verify: auth.skips_verification() })
}
