//! A folder of this machine as an archive to upload.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use rukpak_content::{Algorithm, BundleTree, Digest, Node, RelativePath, Tree as _};
use rukpak_source::Stage;

use super::{Content, content, folder, stage_archive, unread};
use crate::failure::Failure;
use crate::format::{self, Detected};
use crate::hashing::Hashing;

/// A tar.gz of a folder: sorted, without times and owners. The same files give the same bytes.
#[derive(Debug)]
pub struct Packed {
    /// It is read from where it stands, its first byte.
    pub file: File,
    pub size_bytes: u64,
    /// SHA-256 of it.
    pub digest: Digest,
    /// Which format it looks like.
    pub detected: Detected,
    /// What the formats look at.
    pub tree: BundleTree,
    pub remarks: Vec<String>,
}

/// Packs all that is in the folder but `.git`. Blocks.
///
/// What no cluster takes is refused here already; whether it is a bundle is for whoever sends it, or for the cluster, to say.
pub fn pack(path: &Path) -> Result<Packed, Failure> {
    check_folder(path)?;
    let name = path.display().to_string();
    let mut remarks = Vec::new();
    let stage = folder::stage_whole(path, &mut remarks)?;
    packed(&stage, name, remarks)
}

/// Refuses what is no folder.
pub fn check_folder(path: &Path) -> Result<(), Failure> {
    let name = path.display();
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Failure::unknown(format!("{name}: not a directory"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Failure::unknown(format!("{name}: no such file or directory")))
        }
        Err(error) => Err(unread(name, &error)),
    }
}

/// Packs what is in an archive, or in a folder as [`pack`] does: the same files give the same bytes either way. Blocks.
pub fn pack_any(path: &Path) -> Result<Packed, Failure> {
    if path.is_dir() {
        return pack(path);
    }
    packed(&stage_archive(path)?, path.display().to_string(), Vec::new())
}

fn packed(stage: &Stage, name: String, remarks: Vec<String>) -> Result<Packed, Failure> {
    let (file, size_bytes, digest) = written(stage).map_err(|error| unread(&name, &error))?;
    let Content { tree, remarks, .. } = content(stage, name, remarks)?;
    let detected = format::detect(&tree);
    Ok(Packed { file, size_bytes, digest, detected, tree, remarks })
}

fn written(stage: &Stage) -> io::Result<(File, u64, Digest)> {
    let hashing = Hashing::new(tempfile::tempfile()?, Algorithm::Sha256);
    let mut builder = tar::Builder::new(GzEncoder::new(hashing, Compression::default()));
    stage.walk(&mut |path, node| append(&mut builder, path, node))?;
    let (mut file, digest, size_bytes) = builder.into_inner()?.finish()?.finish();
    file.rewind()?;
    Ok((file, size_bytes, digest))
}

/// Adds an entry to an archive, without times and owners.
pub(crate) fn append<W: Write>(builder: &mut tar::Builder<W>, path: &RelativePath, node: Node<'_>) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    match node {
        Node::Directory => {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_mode(0o755);
            header.set_size(0);
            builder.append_data(&mut header, format!("{}/", path.as_str()), io::empty())
        }
        Node::File { executable, size_bytes, body } => {
            header.set_entry_type(tar::EntryType::Regular);
            header.set_mode(if executable { 0o755 } else { 0o644 });
            header.set_size(size_bytes);
            builder.append_data(&mut header, path.as_str(), body)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::exit::Exit;
    use crate::format::Format;

    fn names(mut packed: Packed) -> Vec<String> {
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&mut packed.file));
        let name =
            |entry: io::Result<tar::Entry<'_, _>>| String::from_utf8(entry.unwrap().path_bytes().into()).unwrap();
        archive.entries().unwrap().map(name).collect()
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let make = |names: [&str; 3], text: &str| {
            let folder = tempfile::tempdir().unwrap();
            for name in names {
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
            }
            let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(text.len() as u64);
            File::options().write(true).open(folder.path().join(names[0])).unwrap().set_modified(old).unwrap();
            folder
        };
        let (one, two) = (make(["manifests/b", "a", ".git/x"], "x"), make(["a", "manifests/b", ".git/y"], "x"));
        let [one, two] = [&one, &two].map(|folder| pack(folder.path()).unwrap());
        assert_eq!((&one.digest, one.size_bytes), (&two.digest, two.size_bytes));
        assert_eq!(one.size_bytes, one.file.metadata().unwrap().len());
        assert_eq!(names(one), ["a", "manifests/", "manifests/b"], "without .git");
        let other = make(["manifests/b", "a", "c"], "y");
        assert_ne!(pack(other.path()).unwrap().digest, two.digest);
    }

    #[test]
    fn the_format_is_that_of_validate() {
        let folder = tempfile::tempdir().unwrap();
        let detect = || pack(folder.path()).unwrap().detected.format;
        fs::create_dir_all(folder.path().join("manifests")).unwrap();
        assert_eq!(detect(), Format::Plain);
        let annotation = "operators.operatorframework.io.bundle.mediatype.v1";
        fs::create_dir_all(folder.path().join("metadata")).unwrap();
        for (text, format) in [("registry+v1", Format::Registry), ("plain+v0", Format::Plain)] {
            let text = format!("annotations: {{{annotation}: {text}}}");
            fs::write(folder.path().join("metadata/annotations.yaml"), text).unwrap();
            assert_eq!(detect(), format);
        }
    }

    #[test]
    fn an_archive_of_a_folder_gives_what_the_folder_gives() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("manifests")).unwrap();
        fs::write(folder.path().join("manifests/b"), "x").unwrap();
        fs::write(folder.path().join("a"), "y").unwrap();
        let archive = tempfile::NamedTempFile::new().unwrap();
        let mut builder = tar::Builder::new(archive.as_file());
        builder.append_dir_all(".", folder.path()).unwrap();
        builder.finish().unwrap();
        let [one, two] = [folder.path(), archive.path()].map(|path| pack_any(path).unwrap());
        assert_eq!(one.digest, two.digest);
        assert_eq!(names(two), ["a", "manifests/", "manifests/b"]);
    }

    #[test]
    fn only_a_folder_is_packed() {
        let folder = tempfile::tempdir().unwrap();
        let missing = pack(&folder.path().join("none")).unwrap_err().text;
        assert!(missing.ends_with("none: no such file or directory"), "{missing}");
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = pack(&file).unwrap_err().text;
        assert!(error.ends_with("file: not a directory"), "{error}");
    }

    #[test]
    fn links_are_left_out_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "x").unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("b")).unwrap();
        let packed = pack(folder.path()).unwrap();
        assert_eq!(packed.remarks.len(), 1, "{:?}", packed.remarks);
        assert_eq!(names(packed), ["a"]);
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("c")).unwrap();
        assert_eq!(pack(folder.path()).unwrap_err().exit, Exit::No);
    }
}
