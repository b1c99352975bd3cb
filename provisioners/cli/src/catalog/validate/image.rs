//! The documents of a catalog image.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use rukpak_catalog::document::Document;
use rukpak_catalog::origin::{self, CONFIGS_LABEL, Origin};
use rukpak_catalog::read;
use rukpak_content::{Node, RelativePath, Tree as _};
use rukpak_source::Stage;

use super::Error;
use crate::args::PlaceArgs;
use crate::catalog::open;
use crate::registries::Registries;

/// Pulls the folder of the catalog, and reads it.
pub(super) async fn read(name: &str, arguments: &PlaceArgs, visit: &mut dyn FnMut(Document)) -> Result<(), Error> {
    let origin = Origin::Image(name.to_owned());
    let failed = |source: origin::Error| open::Error::Load { place: origin.to_string(), source: Box::new(source) };
    let pull = |source| failed(origin::Error::Image(source));
    let registries = Registries::new(&arguments.trust, origin::limits()).map_err(open::Error::from)?;
    let (puller, credentials) = (&registries.puller, registries.credentials());
    let image = puller.resolve(name, credentials).await.inspect_err(|_| registries.note_helpers()).map_err(pull)?;
    let labels = puller.labels(&image, credentials).await.map_err(pull)?;
    let label = labels.get(CONFIGS_LABEL).map(|label| RelativePath::new(label.trim().trim_start_matches('/')));
    let Some(Ok(folder)) = label else {
        // It is told what is wrong with the labels where catalogs are loaded.
        open::load_with(&origin, &registries).await?;
        return Ok(());
    };
    let stage = puller.fetch_folder(&image, &folder, credentials).await.map_err(pull)?;
    let temporary = env::temp_dir();
    let files =
        written(&stage, &temporary).map_err(|source| failed(origin::Error::Spool { folder: temporary, source }))?;
    Ok(read::folder(files.path(), &origin::limits(), visit)?)
}

/// The files in a folder of their own. Their paths are checked ones: none leaves it.
fn written(stage: &Stage, parent: &Path) -> io::Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("catalog-").tempdir_in(parent)?;
    stage.walk(&mut |path, node| {
        let path = folder.path().join(path.as_str());
        match node {
            Node::Directory => fs::create_dir(&path),
            Node::File { body, .. } => io::copy(body, &mut File::create_new(&path)?).map(drop),
        }
    })?;
    Ok(folder)
}
