//! An archive on this machine.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use rukpak_content::Limits;
use rukpak_source::Stage;
use rukpak_source::archive::{Dialect, read_tar};
use rukpak_source::decompress::Decompressor;

use super::{Error, new_stage};

/// Unpacks a tar archive. Its bytes say how it is compressed, whatever its name ends in.
pub(super) fn stage(path: &Path, limits: &Limits) -> Result<Stage, Error> {
    let name = path.display().to_string();
    let unreadable = |source| Error::Read { path: name.clone(), source };
    let file = BufReader::with_capacity(64 * 1024, File::open(path).map_err(unreadable)?);
    let mut archive = Decompressor::new(file, limits, 0, name.clone()).map_err(unreadable)?;
    let mut stage = new_stage(path, limits)?;
    read_tar(&mut archive, &mut stage, Dialect::Plain).map_err(|source| Error::Archive { path: name, source })?;
    Ok(stage)
}
