//! Catalogs in images.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use rukpak_content::{Limits, Node, PathError, RelativePath, Tree};
use rukpak_source::Stage;
use rukpak_source::image::Credentials;

use super::error::{CONFIGS_LABEL, SQLITE_LABEL};
use super::{Error, Loader, Revision, blocking};
use crate::read;

/// Every image of a bundle has it.
const BUNDLE_LABEL: &str = "operators.operatorframework.io.bundle.manifests.v1";

impl Loader {
    /// What `read` makes of the folder with the catalog of an image; it may block. `None` if the image is `known`.
    ///
    /// The revision is the digest of what the reference names. What is known already costs one request.
    ///
    /// # Errors
    /// Those of the way to the image, and of `read`.
    pub async fn image<T: Send + 'static>(
        &self,
        reference: &str,
        known: Option<&Revision>,
        credentials: &Credentials,
        read: impl FnOnce(&Path, &Limits) -> Result<T, read::Error> + Send + 'static,
    ) -> Result<Option<(T, Revision)>, Error> {
        let image = self.puller.resolve(reference, credentials).await.map_err(Error::Resolve)?;
        let revision = Revision(image.digest().to_string());
        if known == Some(&revision) {
            return Ok(None);
        }
        if let Some(gate) = &self.gate {
            let admitted = gate.admit(&self.puller, reference, &image, credentials).await.map_err(Error::Resolve)?;
            admitted.map_err(|why| Error::NotAdmitted { why })?;
        }
        let labels = self.puller.labels(&image, credentials).await.map_err(Error::Image)?;
        let folder = folder(reference, &labels)?;
        let stage = self.puller.fetch_folder(&image, &folder, credentials).await.map_err(Error::Image)?;
        let (limits, stage_dir) = (self.limits.clone(), self.stage_dir.clone());
        let place = format!("/{folder} of {reference}");
        let taken = blocking(move || {
            let files = written(&stage, &stage_dir).map_err(|source| Error::Spool { folder: stage_dir, source })?;
            drop(stage);
            read(files.path(), &limits).map_err(|error| in_image(error, place))
        })
        .await?;
        Ok(Some((taken, revision)))
    }
}

/// The folder that the labels name.
///
/// It may be any, with or without a slash before it. The root is none: what lies there is a file system.
pub(super) fn folder(reference: &str, labels: &BTreeMap<String, String>) -> Result<RelativePath, Error> {
    let reference = reference.to_owned();
    let Some(label) = labels.get(CONFIGS_LABEL) else {
        if labels.contains_key(SQLITE_LABEL) {
            return Err(Error::Sqlite { reference });
        }
        let hint = if labels.contains_key(BUNDLE_LABEL) {
            "it is the image of a bundle; give the image of a catalog that lists it"
        } else {
            "it has no label operators.operatorframework.io.index.configs.v1, which names the folder of the catalog; \
             build it with the Dockerfile that opm generate dockerfile writes"
        };
        return Err(Error::NotACatalog { reference, hint });
    };
    let shown: String = label.chars().take(80).collect();
    let short = |error| match error {
        PathError::Empty => PathError::Empty,
        PathError::Absolute(_) => PathError::Absolute(shown),
        PathError::Escape(_) => PathError::Escape(shown),
        PathError::Control(_) => PathError::Control(shown),
    };
    let folder = RelativePath::new(label.trim().trim_start_matches('/'));
    folder.map_err(|source| Error::Label { reference, source: short(source) })
}

/// The folder by the name that people know: that of the files is gone when they read it.
fn in_image(error: read::Error, place: String) -> Error {
    Error::Read(match error {
        read::Error::Template { path: _, schema } => read::Error::Template { path: place, schema },
        error => error,
    })
}

/// The files of `stage` in a folder of their own, so that they are read several at a time as those of any folder are.
///
/// Their paths are checked ones: none leaves the folder, and there are no links in it.
fn written(stage: &Stage, parent: &Path) -> io::Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("catalog-").tempdir_in(parent)?;
    stage.walk(&mut |path, node| {
        let path = folder.path().join(path.as_str());
        match node {
            Node::Directory => std::fs::create_dir(&path),
            Node::File { body, .. } => {
                let mut file = File::create_new(&path)?;
                io::copy(body, &mut file)?;
                file.flush()
            }
        }
    })?;
    Ok(folder)
}
