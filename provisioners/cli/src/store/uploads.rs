//! Uploads: archives that clients sent, from where one controller keeps them to where another one does.

use std::fs::{self, File};
use std::io::{self, Seek as _};
use std::path::PathBuf;
use std::sync::Arc;

use rukpak_store::{Bucket, UPLOADS};
use tempfile::NamedTempFile;

/// Behind the UID of a Bundle.
const ARCHIVE: &str = ".tgz";

/// Where uploads are: one archive a Bundle, named after its UID.
pub enum Uploads {
    /// `--upload-storage-dir` of a controller.
    Folder(PathBuf),
    /// In the bucket that has the contents.
    Bucket(Arc<dyn Bucket>),
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub uploads: usize,
    pub bytes: u64,
    /// Uploads that were there already.
    pub present: usize,
}

impl Uploads {
    /// Copies all uploads to `target`. What is there already is left as it is. Blocks.
    ///
    /// # Errors
    /// The first of either place; what was copied until then stays.
    pub fn copy_to(&self, target: &Self) -> io::Result<Copied> {
        let (mut copied, present) = (Copied::default(), target.names()?);
        for name in self.names()? {
            if present.contains(&name) {
                copied.present += 1;
                continue;
            }
            let mut file = target.stage()?;
            // It may have been unpacked and removed with its Bundle meanwhile.
            if !self.read(&name, file.as_file_mut())? {
                continue;
            }
            copied.bytes += file.as_file().metadata()?.len();
            copied.uploads += 1;
            target.put(&name, file)?;
        }
        Ok(copied)
    }

    /// The names of the archives.
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        match self {
            Self::Folder(folder) => {
                let entries = match fs::read_dir(folder) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
                    entries => entries?,
                };
                for entry in entries {
                    names.extend(entry?.file_name().into_string());
                }
            }
            Self::Bucket(bucket) => {
                let entries = bucket.list(UPLOADS, "").map_err(io::Error::other)?;
                names.extend(entries.iter().filter_map(|entry| entry.key.rsplit('/').next()).map(str::to_owned));
            }
        }
        // Those that are being received are called otherwise.
        names.retain(|name| name.ends_with(ARCHIVE) && !name.starts_with('.'));
        names.sort_unstable();
        Ok(names)
    }

    /// A file to be put here.
    fn stage(&self) -> io::Result<NamedTempFile> {
        match self {
            Self::Folder(folder) => {
                fs::create_dir_all(folder)?;
                tempfile::Builder::new().prefix(".copying-").tempfile_in(folder)
            }
            Self::Bucket(_) => NamedTempFile::new(),
        }
    }

    /// Whether it is there still.
    fn read(&self, name: &str, into: &mut File) -> io::Result<bool> {
        match self {
            Self::Folder(folder) => match File::open(folder.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                archive => io::copy(&mut archive?, into).map(|_| true),
            },
            Self::Bucket(bucket) => bucket.download(&format!("{UPLOADS}/{name}"), into).map_err(io::Error::other),
        }
    }

    /// Puts it into its place in one step.
    fn put(&self, name: &str, mut file: NamedTempFile) -> io::Result<()> {
        match self {
            Self::Folder(folder) => {
                file.as_file().sync_all()?;
                file.persist(folder.join(name)).map_err(|error| error.error)?;
                File::open(folder)?.sync_all()
            }
            Self::Bucket(bucket) => {
                file.rewind()?;
                bucket.upload(&format!("{UPLOADS}/{name}"), &mut file).map_err(io::Error::other)
            }
        }
    }
}
