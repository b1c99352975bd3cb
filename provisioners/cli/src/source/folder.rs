//! A folder of this machine.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Seek as _, Write};
use std::path::Path;

use rukpak_format::helm;
use rukpak_source::Stage;
use rukpak_source::archive::{Dialect, read_tar};

use super::{CONTENT, new_stage, refused, unread};
use crate::failure::Failure;

/// What git keeps for itself changes with every look at it.
const REPOSITORY: &str = ".git";

/// Reads `manifests/` and `metadata/`, or the whole of a chart: packed as `tar` would pack them and unpacked as a cluster would, so that a folder and
/// an archive of it are never judged differently.
pub(super) fn stage(folder: &Path, remarks: &mut Vec<String>) -> Result<Stage, Failure> {
    staged(folder, |archive| {
        if is_chart(folder)? { pack_whole(folder, archive, remarks) } else { pack(folder, archive, remarks) }
    })
}

/// Reads all that is in it but `.git`, by the same rules.
pub(super) fn stage_whole(folder: &Path, remarks: &mut Vec<String>) -> Result<Stage, Failure> {
    staged(folder, |archive| pack_whole(folder, archive, remarks))
}

fn staged(folder: &Path, pack: impl FnOnce(&File) -> io::Result<()>) -> Result<Stage, Failure> {
    let unreadable = |error: io::Error| unread(folder.display(), &error);
    let mut archive = tempfile::tempfile().map_err(unreadable)?;
    pack(&archive).map_err(unreadable)?;
    archive.rewind().map_err(unreadable)?;
    let mut stage = new_stage(folder)?;
    read_tar(&mut BufReader::new(&mut archive), &mut stage, Dialect::Plain)
        .map_err(|error| refused(&folder.display().to_string(), &error))?;
    Ok(stage)
}

/// Whether it is a chart, or has nothing but one in it.
fn is_chart(folder: &Path) -> io::Result<bool> {
    if folder.join(CONTENT[0]).exists() {
        return Ok(false);
    }
    if folder.join(helm::CHART).is_file() {
        return Ok(true);
    }
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let mut entries = entries.iter().filter(|entry| entry.file_name() != REPOSITORY);
    Ok(match (entries.next(), entries.next()) {
        (Some(only), None) => only.path().join(helm::CHART).is_file(),
        _ => false,
    })
}

fn pack(folder: &Path, archive: &File, remarks: &mut Vec<String>) -> io::Result<()> {
    let mut builder = builder(archive);
    // What lies one level down is only looked at to say so.
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if CONTENT.iter().any(|content| name == *content) {
            append(&mut builder, &folder.join(&name), Path::new(&name), remarks)?;
        } else if folder.join(&name).join(CONTENT[0]).is_dir() && name.to_str().is_some() {
            builder.append_dir(Path::new(&name).join(CONTENT[0]), folder.join(&name).join(CONTENT[0]))?;
        }
    }
    builder.into_inner()?.flush()
}

fn pack_whole(folder: &Path, archive: &File, remarks: &mut Vec<String>) -> io::Result<()> {
    let mut builder = builder(archive);
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if name != REPOSITORY {
            append(&mut builder, &folder.join(&name), Path::new(&name), remarks)?;
        }
    }
    builder.into_inner()?.flush()
}

fn builder(archive: &File) -> tar::Builder<BufWriter<&File>> {
    let mut builder = tar::Builder::new(BufWriter::new(archive));
    builder.follow_symlinks(false);
    builder.sparse(false);
    builder
}

fn append<W: Write>(
    builder: &mut tar::Builder<W>,
    path: &Path,
    name: &Path,
    remarks: &mut Vec<String>,
) -> io::Result<()> {
    let kind = at(path, fs::symlink_metadata(path))?.file_type();
    if kind.is_symlink() {
        remarks.push(format!("{}: a symbolic link: left out, as a cluster leaves it out", name.display()));
    }
    if !kind.is_dir() {
        return at(path, builder.append_path_with_name(path, name));
    }
    at(path, builder.append_dir(name, path))?;
    for entry in at(path, fs::read_dir(path))? {
        let child = entry?.file_name();
        append(builder, &path.join(&child), &name.join(&child), remarks)?;
    }
    Ok(())
}

/// Which file it is, where the system does not say so.
fn at<T>(path: &Path, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
