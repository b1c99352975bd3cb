//! Refs: which Bundle or BundleDeployment uses which content. They are the roots of collection.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rukpak_content::{Digest, RelativePath};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::{read, write};
use crate::instance::{Layout, list};
use crate::lock::Lock;
use crate::publish::{publish, unlink};
use crate::{Error, Store};

/// Whose ref it is; each has a folder of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefKind {
    /// A Bundle.
    Bundle,
    /// A BundleDeployment.
    Deployment,
}

impl RefKind {
    pub(crate) const ALL: [Self; 2] = [Self::Bundle, Self::Deployment];

    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Bundle => "bundles",
            Self::Deployment => "deployments",
        }
    }
}

/// What a ref holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ref {
    /// The content.
    pub content: Digest,
    /// What the content was made from: an image digest or a git commit. The store does not read it.
    pub source: String,
}

impl Store {
    /// Writes the ref `name`, atomically. `name` is the name of a Kubernetes object.
    ///
    /// # Errors
    /// [`Error::RefName`], [`Error::Missing`] if the content is not here (so a ref never dangles), or of the disk.
    pub fn set_ref(&self, kind: RefKind, name: &str, value: &Ref) -> Result<(), Error> {
        if let Some(shared) = self.shared() {
            return shared.set_ref(self, kind, name, value);
        }
        let path = ref_file(self.layout(), kind, name)?;
        let stage = self.stage_dir();
        let _lock = Lock::shared(&self.layout().lock())?;
        if !self.contains(&value.content)? {
            let path = self.layout().content_file(&value.content)?;
            return Err(Error::Missing { digest: value.content.clone(), path });
        }
        let mut file = NamedTempFile::new_in(stage).map_err(write(stage))?;
        let text = serde_json::to_vec(value).map_err(|source| Error::RefForm { path: path.clone(), source })?;
        file.write_all(&text).map_err(write(file.path()))?;
        publish(file, &path)
    }

    /// The ref `name`, if there is one.
    pub fn get_ref(&self, kind: RefKind, name: &str) -> Result<Option<Ref>, Error> {
        if let Some(shared) = self.shared() {
            return shared.get_ref(kind, name);
        }
        read_ref(ref_file(self.layout(), kind, name)?)
    }

    /// Removes the ref `name`; `false` if there was none. Its content stays until [`Store::collect`].
    pub fn remove_ref(&self, kind: RefKind, name: &str) -> Result<bool, Error> {
        if let Some(shared) = self.shared() {
            return shared.remove_ref(kind, name);
        }
        let path = ref_file(self.layout(), kind, name)?;
        let _lock = Lock::shared(&self.layout().lock())?;
        unlink(&path)
    }

    /// All refs of a kind, by name.
    pub fn refs(&self, kind: RefKind) -> Result<BTreeMap<String, Ref>, Error> {
        match self.shared() {
            Some(shared) => shared.refs(kind),
            None => read_refs(self.layout(), kind),
        }
    }

    /// The names of all refs of a kind that begin with `beginning`. No ref is read.
    pub fn ref_names(&self, kind: RefKind, beginning: &str) -> Result<BTreeSet<String>, Error> {
        if let Some(shared) = self.shared() {
            return shared.ref_names(kind, beginning);
        }
        let folder = self.layout().refs(kind);
        let mut names = BTreeSet::new();
        // Each deployment asks for its own after a restart: no path is allocated for those of others.
        for entry in fs::read_dir(&folder).map_err(read(&folder))? {
            let entry = entry.map_err(read(&folder))?;
            if entry.file_name().as_encoded_bytes().starts_with(beginning.as_bytes()) {
                names.insert(name(&entry.path())?);
            }
        }
        Ok(names)
    }
}

pub(crate) fn read_refs(layout: &Layout, kind: RefKind) -> Result<BTreeMap<String, Ref>, Error> {
    let mut refs = BTreeMap::new();
    for path in list(&layout.refs(kind))? {
        let name = name(&path)?;
        // One that is gone by now was removed while the folder was read.
        if let Some(value) = read_ref(path)? {
            refs.insert(name, value);
        }
    }
    Ok(refs)
}

fn name(path: &Path) -> Result<String, Error> {
    path.file_name().and_then(|name| name.to_str()).map(str::to_owned).ok_or_else(|| {
        let source = io::Error::new(io::ErrorKind::InvalidData, "the name is not UTF-8");
        read(path)(source)
    })
}

fn read_ref(path: PathBuf) -> Result<Option<Ref>, Error> {
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read(&path)(error)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|source| Error::RefForm { path, source })
}

fn ref_file(layout: &Layout, kind: RefKind, name: &str) -> Result<PathBuf, Error> {
    check_name(name)?;
    Ok(layout.refs(kind).join(name))
}

/// Refuses what is more than a name.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    match RelativePath::new(name) {
        Ok(path) if path.as_str() == name && path.depth() == 1 => Ok(()),
        Ok(_) => Err(Error::RefName { name: name.to_owned(), source: None }),
        Err(source) => Err(Error::RefName { name: name.to_owned(), source: Some(source) }),
    }
}
