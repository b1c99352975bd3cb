//! An archive on this machine.

use std::fs::File;
use std::path::Path;

use rukpak_content::Limits;
use rukpak_source::{Stage, tarball};

use super::{is_refusal, unread};
use crate::failure::Failure;
use crate::output::chain;

/// Unpacks a tar archive. Its bytes say how it is compressed, whatever its name ends in.
pub(super) fn stage(path: &Path) -> Result<Stage, Failure> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| unread(&name, &error))?;
    let unpacked = tarball::read(file, &std::env::temp_dir(), &Limits::default(), name.clone());
    unpacked.map_err(|error| {
        let is_refused = matches!(&error, tarball::Error::Archive(source) if is_refusal(source));
        Failure::either(is_refused, format!("{name}: {}", chain(&error)))
    })
}
