//! An archive on this machine.

use std::fs::File;
use std::path::Path;

use rukpak_content::Limits;
use rukpak_source::{Stage, tarball};

use super::Error;

/// Unpacks a tar archive. Its bytes say how it is compressed, whatever its name ends in.
pub(super) fn stage(path: &Path, limits: &Limits) -> Result<Stage, Error> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|source| Error::Read { path: name.clone(), source })?;
    let unpacked = tarball::read(file, &std::env::temp_dir(), limits, name.clone());
    unpacked.map_err(|source| Error::File { path: name, source })
}
