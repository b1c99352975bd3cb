//! Where a catalog comes from: an image, a folder, catalogd's HTTP API.

mod error;
mod folder;
mod gate;
mod https;
mod image;
mod text;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rukpak_content::Limits;
use rukpak_source::http::{Fetcher, FetcherOptions};
use rukpak_source::image::{Credentials, Puller};

use crate::Catalog;
use crate::read;
pub use error::{CONFIGS_LABEL, Class, Error, SQLITE_LABEL};
pub use gate::{Admission, Gate};
pub use text::ParseError;

/// `image:REFERENCE`, `dir:PATH` or `https://...`, as `--catalog` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An image with a file-based catalog; the label `operators.operatorframework.io.index.configs.v1` names its folder.
    Image(String),
    /// A folder.
    Folder(PathBuf),
    /// Base URL of a catalog that catalogd serves, such as `https://catalogd.example/catalogs/operatorhubio`; the
    /// catalog is at `api/v1/all` below it. Holds no login, no query and no slash at its end. Plain `http` only for this machine.
    Http(String),
}

/// What names the state of a catalog: a digest, an ETag. Equal revisions of one origin are equal catalogs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub String);

/// What came of asking for a catalog.
#[derive(Debug)]
pub enum Loaded {
    /// It is the one that is known already.
    Unchanged,
    /// It is another.
    New(Catalog, Revision),
}

/// Limits for catalogs. Published ones have up to 120 MiB and 20,000 files; their images hold a server and its cache besides.
///
/// Download 2 GiB, unpacked 8 GiB (of which only the catalog's folder touches the disk), 200,000 files and folders, 15 minutes.
pub fn limits() -> Limits {
    const GIB: u64 = 1024 * 1024 * 1024;
    Limits {
        download_bytes: 2 * GIB,
        tree_bytes: 8 * GIB,
        entries: 200_000,
        pull_time: Duration::from_mins(15),
        ..Limits::default()
    }
}

/// Loads catalogs; keeps connections, so it is meant to be shared.
#[derive(Debug)]
pub struct Loader {
    puller: Arc<Puller>,
    fetcher: Fetcher,
    limits: Limits,
    stage_dir: PathBuf,
    gate: Option<Arc<dyn Gate>>,
}

impl Loader {
    /// Reads the certificates and the proxies of the environment. No network.
    ///
    /// `puller` pulls catalog images, with its own limits, mirrors and registries without TLS. `options` are for `https`, and name the
    /// folder that files of an image are put into while they are read. Give both [`limits`]: catalogs are larger than bundles.
    pub fn new(puller: Arc<Puller>, options: FetcherOptions) -> Result<Self, Error> {
        let (limits, stage_dir) = (options.limits.clone(), options.stage_dir.clone());
        let fetcher = Fetcher::new(options).map_err(Error::Http)?;
        Ok(Self { puller, fetcher, limits, stage_dir, gate: None })
    }

    /// Asks `gate` about every image before anything of it is fetched.
    #[must_use]
    pub fn with_gate(self, gate: Arc<dyn Gate>) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// The catalog of `origin`, unless its revision is `known`. Images are pulled without a login.
    pub async fn load(&self, origin: &Origin, known: Option<&Revision>) -> Result<Loaded, Error> {
        self.load_with(origin, known, &Credentials::anonymous()).await
    }

    /// Like [`Loader::load`]; images are pulled with `credentials`.
    pub async fn load_with(
        &self,
        origin: &Origin,
        known: Option<&Revision>,
        credentials: &Credentials,
    ) -> Result<Loaded, Error> {
        let taken = match origin {
            Origin::Image(reference) => self.image(reference, known, credentials, read::catalog).await,
            Origin::Folder(path) => self.folder(path, known).await,
            Origin::Http(url) => self.https(url, known).await,
        }?;
        Ok(taken.map_or(Loaded::Unchanged, |(catalog, revision)| Loaded::New(catalog, revision)))
    }
}

/// Runs what blocks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(Error::Worker)?
}

#[cfg(test)]
mod tests;
