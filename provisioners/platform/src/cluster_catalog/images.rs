//! Where the content of ClusterCatalogs comes from.

use std::path::PathBuf;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rukpak_catalog::Catalog;
use rukpak_catalog::origin::{Error, Loader, Revision};
use rukpak_catalog::served::Served;
use rukpak_source::image::Credentials;

/// What came of an image: what is kept of its catalog in memory, and its revision; `None` if that is known already.
pub type Pulled = Result<Option<(Catalog, Revision)>, Error>;

/// The images of ClusterCatalogs. The program pulls them; a simulation, which has no network, has its own.
pub trait Images: Send + Sync {
    /// Writes the catalog of the image `reference` into the existing `folder`, as [`Served::write`] does, unless its revision is `known`.
    fn unpack<'a>(
        &'a self,
        reference: &'a str,
        known: Option<&'a Revision>,
        credentials: &'a Credentials,
        folder: PathBuf,
    ) -> BoxFuture<'a, Pulled>;
}

impl Images for Loader {
    fn unpack<'a>(
        &'a self,
        reference: &'a str,
        known: Option<&'a Revision>,
        credentials: &'a Credentials,
        folder: PathBuf,
    ) -> BoxFuture<'a, Pulled> {
        let write = move |root: &_, limits: &_| Served::write(root, limits, &folder);
        self.image(reference, known, credentials, write).boxed()
    }
}
