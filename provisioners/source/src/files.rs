//! Bundles given file by file, as ConfigMaps hold them, into a stage.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use rukpak_content::{Limits, PathError, RelativePath};

use crate::{Stage, Staged, stage};

/// The files of one ConfigMap, and the folder they go to.
#[derive(Clone, PartialEq, Eq)]
pub struct FileSet {
    /// Name of the ConfigMap.
    pub name: String,
    /// The folder, relative to the bundle's root; empty or `.` is the root itself. `a/../b` is `b`.
    pub path: String,
    /// Keys of `data` and `binaryData` with their values. A key is the name of a file.
    pub files: Vec<(String, Vec<u8>)>,
}

impl fmt::Debug for FileSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.files.iter().map(|(key, _)| key).collect();
        formatter
            .debug_struct("FileSet")
            .field("name", &self.name)
            .field("path", &self.path)
            .field("files", &keys)
            .finish()
    }
}

/// Why the files make no bundle.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder is absolute or outside of the bundle. The words are those of upstream's webhook.
    #[error("bundle.spec.source.configmaps[{index}].path is invalid: {path:?} is outside bundle root")]
    Outside {
        /// Which of the sets, from 0.
        index: usize,
        /// The folder as given.
        path: String,
    },
    /// The folder or the key is no name.
    #[error("configmap {name:?}: {file:?} cannot be a file of a bundle")]
    Name {
        /// The ConfigMap.
        name: String,
        /// The key, or the path as given.
        file: String,
        /// Why, where the path has a fault of its own.
        source: Option<PathError>,
    },
    /// Files that two ConfigMaps hold. The words are upstream's; several refusals stand in brackets.
    #[error("{}", aggregate(.0))]
    Duplicate(Vec<Duplicate>),
    /// A name is a file in one place and a folder in another.
    #[error("configmap {name:?}: {path:?} is both a file and a folder")]
    Conflict {
        /// The ConfigMap that brought the second of the two.
        name: String,
        /// The path.
        path: RelativePath,
    },
    /// Past a limit, or no room.
    #[error(transparent)]
    Stage(#[from] stage::Error),
}

/// A path that different ConfigMaps fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The path.
    pub path: RelativePath,
    /// The ConfigMaps, sorted.
    pub names: Vec<String>,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, names } = self;
        write!(formatter, "duplicate path {path:?} found in configmaps [{}]", names.join(" "))
    }
}

/// A file and where it comes from.
struct File<'a> {
    from: &'a FileSet,
    body: &'a [u8],
}

/// Stages all files of all sets; the spool file lies in `stage_dir`. Blocks on the disk.
///
/// The same ConfigMap may be named twice, also for the same folder: upstream lets it.
pub fn stage(sets: &[FileSet], stage_dir: &Path, limits: &Limits) -> Result<Stage, Error> {
    let files = collect(sets)?;
    let mut stage = Stage::new_in(stage_dir, limits)?;
    for (path, File { from, body }) in &files {
        // In the order of names a folder's files come after the file that has the folder's name.
        let above = std::iter::successors(path.parent(), RelativePath::parent);
        if let Some(path) = above.into_iter().find(|folder| stage.get(folder) == Some(Staged::File)) {
            return Err(Error::Conflict { name: from.name.clone(), path });
        }
        stage.add_file(path, false, Some(body.len() as u64), &mut &body[..])?;
    }
    Ok(stage)
}

fn collect(sets: &[FileSet]) -> Result<BTreeMap<RelativePath, File<'_>>, Error> {
    let mut files: BTreeMap<RelativePath, File<'_>> = BTreeMap::new();
    let mut holders: BTreeMap<RelativePath, BTreeSet<&str>> = BTreeMap::new();
    for (index, set) in sets.iter().enumerate() {
        let folder = clean(&set.path).ok_or_else(|| Error::Outside { index, path: set.path.clone() })?;
        for (key, body) in &set.files {
            let path = join(&folder, key, set)?;
            holders.entry(path.clone()).or_default().insert(&set.name);
            files.entry(path).or_insert(File { from: set, body });
        }
    }
    let duplicates: Vec<_> = holders
        .into_iter()
        .filter(|(_, names)| names.len() > 1)
        .map(|(path, names)| Duplicate { path, names: names.into_iter().map(str::to_owned).collect() })
        .collect();
    if duplicates.is_empty() { Ok(files) } else { Err(Error::Duplicate(duplicates)) }
}

/// The folder without `.` and `..`; `None` if it is absolute or leads out. Empty is the root.
fn clean(path: &str) -> Option<String> {
    let mut folders = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => drop(folders.pop()?),
            _ => folders.push(component),
        }
    }
    (!path.starts_with('/')).then(|| folders.join("/"))
}

/// Keys are names: the API server lets no slash and no `..` into them, and neither do we.
fn join(folder: &str, key: &str, set: &FileSet) -> Result<RelativePath, Error> {
    let fault = |source| Error::Name { name: set.name.clone(), file: stage::shortened(key), source };
    if matches!(key, "" | "." | "..") || key.contains('/') {
        return Err(fault(None));
    }
    let path = if folder.is_empty() { key.to_owned() } else { format!("{folder}/{key}") };
    RelativePath::new(&path).map_err(|source| fault(Some(source)))
}

/// As Kubernetes prints several errors: one bare, more in brackets.
fn aggregate(duplicates: &[Duplicate]) -> String {
    let texts: Vec<_> = duplicates.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::tests::listing;

    fn set(name: &str, path: &str, files: &[(&str, &[u8])]) -> FileSet {
        let files = files.iter().map(|(key, body)| ((*key).to_owned(), body.to_vec())).collect();
        FileSet { name: name.into(), path: path.into(), files }
    }

    fn staged(sets: &[FileSet]) -> Result<Vec<String>, String> {
        let stage = stage(sets, &std::env::temp_dir(), &Limits::default()).map_err(|error| error.to_string())?;
        Ok(listing(&stage).into_iter().map(|(path, body)| format!("{path}={body}")).collect())
    }

    #[test]
    fn keys_become_files_of_the_folder() {
        let sets = [
            set("a", "manifests", &[("x.yaml", b"1"), (".gitignore", b"2")]),
            set("b", "./other/../manifests//", &[("..data", b"3")]),
            set("c", "", &[("top", b"4")]),
            set("d", "empty", &[]),
            set("a", "manifests/", &[("x.yaml", b"1")]),
        ];
        let expected = ["manifests/=", "manifests/..data=3", "manifests/.gitignore=2", "manifests/x.yaml=1", "top=4"];
        assert_eq!(staged(&sets).unwrap(), expected);
        assert_eq!(staged(&[]).unwrap(), [""; 0]);
        assert!(!format!("{:?}", set("a", "", &[("key", b"hush")])).contains("104"));
    }

    #[test]
    fn the_same_path_from_two_config_maps_is_refused_in_upstreams_words() {
        let (one, two) = (set("b", "m", &[("x", b"1"), ("y", b"1")]), set("a", "m", &[("x", b"1"), ("z", b"1")]));
        assert_eq!(staged(&[one.clone(), two]).unwrap_err(), r#"duplicate path "m/x" found in configmaps [a b]"#);
        let three = set("c", "./m", &[("x", b"1"), ("y", b"2")]);
        assert_eq!(
            staged(&[one, three]).unwrap_err(),
            r#"[duplicate path "m/x" found in configmaps [b c], duplicate path "m/y" found in configmaps [b c]]"#
        );
    }

    #[test]
    fn nothing_lies_outside_of_the_bundle() {
        for path in ["..", "../x", "a/../../b", "/manifests", "/"] {
            let text = staged(&[set("ok", "m", &[]), set("a", path, &[("x", b"1")])]).unwrap_err();
            let expected = format!("bundle.spec.source.configmaps[1].path is invalid: {path:?} is outside bundle root");
            assert_eq!(text, expected);
        }
        for key in ["", ".", "..", "a/b", "/a", "a\0"] {
            assert!(staged(&[set("a", "m", &[(key, b"1")])]).unwrap_err().contains("cannot be a file"), "{key:?}");
        }
    }

    #[test]
    fn a_file_is_no_folder() {
        let sets = [set("a", "m/x", &[("y", b"1")]), set("b", "m", &[("x", b"1"), ("x.y", b"2")])];
        assert_eq!(staged(&sets).unwrap_err(), r#"configmap "a": "m/x" is both a file and a folder"#);
    }

    #[test]
    fn limits_are_named() {
        let limits = Limits { manifest_bytes: 2, entries: 3, ..Limits::default() };
        let cases = [
            (set("a", "manifests", &[("a", b"12"), ("b", b"12")]), None),
            (set("a", "manifests", &[("a", b"123")]), Some("--limit=manifest-bytes")),
            (set("a", "manifests", &[("a", b""), ("b", b""), ("c", b"")]), Some("--limit=entries")),
        ];
        for (files, expected) in cases {
            let found = stage(std::slice::from_ref(&files), &std::env::temp_dir(), &limits);
            match (found, expected) {
                (Ok(_), None) => {}
                (Err(error), Some(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (found, _) => panic!("{files:?}: {found:?}"),
            }
        }
    }
}
