//! An image layout on disk: `oci-layout`, `index.json` and `blobs/sha256`. Source: the OCI's image layout specification.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use rukpak_content::{Digest, Hasher};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{Descriptor, INDEX, Manifest, check};
use crate::failure::Failure;
use crate::hashing::Hashing;

const VERSION_FILE: &str = "oci-layout";
const INDEX_FILE: &str = "index.json";
/// Under which an entry of the index has the name of its image.
const NAME: &str = "org.opencontainers.image.ref.name";

/// A folder with an image layout.
#[derive(Clone, Debug)]
pub struct Layout {
    folder: PathBuf,
}

/// An image of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub descriptor: Descriptor,
    pub name: Option<String>,
}

impl Entry {
    fn read(value: &Value) -> Option<Self> {
        let name = value.get("annotations").and_then(|all| all.get(NAME)).and_then(Value::as_str);
        Some(Self { descriptor: Descriptor::read(value)?, name: name.map(str::to_owned) })
    }

    fn value(&self) -> Value {
        let mut value = self.descriptor.value();
        if let Some(name) = &self.name {
            value["annotations"] = json!({NAME: name});
        }
        value
    }
}

impl Layout {
    /// Makes a layout in a folder that is not there or empty, or goes on with the one that is there.
    pub fn create(folder: &Path) -> Result<Self, Failure> {
        let layout = Self { folder: folder.to_owned() };
        let is_layout = folder.join(VERSION_FILE).exists();
        let is_empty = fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
        if !is_layout && !is_empty {
            return Err(no_layout(folder, "the folder is not empty"));
        }
        fs::create_dir_all(layout.blobs()).map_err(failed("write", folder))?;
        if !is_layout {
            layout.write(VERSION_FILE, json!({"imageLayoutVersion": "1.0.0"}).to_string().as_bytes())?;
            let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []});
            layout.write(INDEX_FILE, index.to_string().as_bytes())?;
        }
        Ok(layout)
    }

    pub fn open(folder: &Path) -> Result<Self, Failure> {
        if folder.join(VERSION_FILE).is_file() {
            return Ok(Self { folder: folder.to_owned() });
        }
        Err(no_layout(folder, "it has no file oci-layout"))
    }

    /// The images that it holds, in order.
    pub fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let index = self.index()?;
        let entries: Option<_> = index["manifests"].as_array().into_iter().flatten().map(Entry::read).collect();
        entries.ok_or_else(|| self.no_index())
    }

    /// Adds an image, in place of one of the same name. What others say of theirs stays: platforms, annotations.
    pub fn add(&self, entry: &Entry) -> Result<(), Failure> {
        let mut index = self.index()?;
        let list = index["manifests"].as_array_mut().ok_or_else(|| self.no_index())?;
        list.retain(|old| match (&entry.name, Entry::read(old)) {
            (Some(_), Some(old)) => old.name != entry.name,
            (None, Some(old)) => old != *entry,
            (_, None) => true,
        });
        list.push(entry.value());
        self.write(INDEX_FILE, index.to_string().as_bytes())
    }

    fn index(&self) -> Result<Value, Failure> {
        let path = self.folder.join(INDEX_FILE);
        let bytes = fs::read(&path).map_err(failed("read", &path))?;
        let index: Option<Value> = serde_json::from_slice(&bytes).ok();
        index.filter(|index| index["manifests"].is_array()).ok_or_else(|| self.no_index())
    }

    fn no_index(&self) -> Failure {
        no_layout(&self.folder, "index.json is no index")
    }

    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join("blobs").join(digest.algorithm().name()).join(digest.hex())
    }

    /// Whether the blob is there, as long as it should be. Its bytes were checked when it was written.
    pub fn has(&self, blob: &Descriptor) -> bool {
        fs::metadata(self.path(&blob.digest)).is_ok_and(|found| found.len() == blob.size_bytes)
    }

    /// A manifest that it holds.
    pub fn manifest(&self, blob: &Descriptor) -> Result<Manifest, Failure> {
        let path = self.path(&blob.digest);
        let bytes = fs::read(&path).map_err(failed("read", &path))?;
        check(&path.display().to_string(), &Digest::sha256(&bytes), &blob.digest)?;
        Manifest::read(bytes, &blob.media_type)
    }

    pub fn put_manifest(&self, manifest: &Manifest) -> Result<(), Failure> {
        let mut file = self.spool()?;
        file.write_all(&manifest.bytes).map_err(failed("write", &self.folder))?;
        self.keep(file, &manifest.descriptor.digest)
    }

    /// Keeps a blob that comes in parts, if it is the one that the descriptor names.
    pub async fn put_blob(
        &self,
        blob: &Descriptor,
        parts: impl Stream<Item = io::Result<Bytes>> + Unpin,
        mut told: impl FnMut(usize),
    ) -> Result<(), Failure> {
        let (mut parts, mut file) = (parts, self.spool()?);
        let (mut hasher, mut bytes) = (Hasher::new(blob.digest.algorithm()), 0);
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| Failure::during(format!("read {}", blob.digest), &error))?;
            bytes += part.len() as u64;
            // Else a registry could fill the disk before the digest is known to be wrong.
            if bytes > blob.size_bytes {
                return Err(wrong_size(blob));
            }
            hasher.update(&part);
            file.write_all(&part).map_err(failed("write", &self.folder))?;
            told(part.len());
        }
        check("the blob that was sent", &hasher.finish(), &blob.digest)?;
        if bytes != blob.size_bytes {
            return Err(wrong_size(blob));
        }
        self.keep(file, &blob.digest)
    }

    /// Keeps a blob that is here already.
    pub fn put_file(&self, blob: &Descriptor, from: &mut dyn Read) -> Result<(), Failure> {
        let mut file = self.spool()?;
        let mut bytes = Vec::new();
        // No larger than a bundle, which is held whole elsewhere, too.
        from.read_to_end(&mut bytes).map_err(failed("read", &self.folder))?;
        check("the blob", &Digest::sha256(&bytes), &blob.digest)?;
        file.write_all(&bytes).map_err(failed("write", &self.folder))?;
        self.keep(file, &blob.digest)
    }

    /// Opens a blob, which is read once to see that it is the one that its name says.
    pub fn blob(&self, digest: &Digest) -> Result<File, Failure> {
        let path = self.path(digest);
        let unreadable = failed("read", &path);
        let mut file = File::open(&path).map_err(&unreadable)?;
        let mut hashing = Hashing::new(io::sink(), digest.algorithm());
        io::copy(&mut file, &mut hashing).map_err(&unreadable)?;
        check(&path.display().to_string(), &hashing.finish().1, digest)?;
        io::Seek::rewind(&mut file).map_err(&unreadable)?;
        Ok(file)
    }

    /// Writes it as a tar archive that is the same for the same blobs. A file that is there stays until the archive is whole.
    pub fn archive(&self, file: &Path) -> Result<(), Failure> {
        let unwritable = failed("write", file);
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let whole = NamedTempFile::with_prefix_in(".part-", folder).map_err(&unwritable)?;
        let mut builder = tar::Builder::new(whole);
        let mut names = vec![VERSION_FILE.to_owned(), INDEX_FILE.to_owned()];
        let mut blobs = Vec::new();
        for entry in fs::read_dir(self.blobs()).map_err(&unwritable)? {
            blobs.push(format!("blobs/sha256/{}", entry.map_err(&unwritable)?.file_name().to_string_lossy()));
        }
        blobs.sort();
        names.append(&mut blobs);
        for name in names {
            let mut body = File::open(self.folder.join(&name)).map_err(&unwritable)?;
            let mut header = tar::Header::new_ustar();
            header.set_size(body.metadata().map_err(&unwritable)?.len());
            header.set_mode(0o644);
            header.set_mtime(0);
            builder.append_data(&mut header, &name, &mut body).map_err(&unwritable)?;
        }
        let whole = builder.into_inner().map_err(&unwritable)?;
        readable(whole.as_file()).map_err(&unwritable)?;
        whole.persist(file).map(drop).map_err(|error| unwritable(error.error))
    }

    fn blobs(&self) -> PathBuf {
        self.folder.join("blobs/sha256")
    }

    /// A file that becomes a blob; what is not finished is removed.
    fn spool(&self) -> Result<NamedTempFile, Failure> {
        NamedTempFile::with_prefix_in(".part-", &self.folder).map_err(failed("write", &self.folder))
    }

    fn keep(&self, file: NamedTempFile, digest: &Digest) -> Result<(), Failure> {
        let path = self.path(digest);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(failed("write", folder))?;
        readable(file.as_file()).map_err(failed("write", &path))?;
        file.persist(&path).map(drop).map_err(|error| failed("write", &path)(error.error))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let mut file = self.spool()?;
        let path = self.folder.join(name);
        file.write_all(bytes).and_then(|()| readable(file.as_file())).map_err(failed("write", &path))?;
        file.persist(&path).map(drop).map_err(|error| failed("write", &path)(error.error))
    }
}

/// A layout is read by others; files for a moment are not.
fn readable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

fn no_layout(folder: &Path, why: &str) -> Failure {
    Failure::unknown(format!("{} is no image layout: {why}", folder.display()))
}

/// Refuses a blob that is longer or shorter than its descriptor says.
fn wrong_size(Descriptor { digest, size_bytes, .. }: &Descriptor) -> Failure {
    Failure::no(format!("blob {digest} has not the {size_bytes} bytes that its manifest says"))
}

fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error: io::Error| Failure::during(format!("{what} {}", path.display()), &error)
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    fn descriptor(bytes: &[u8]) -> Descriptor {
        let digest = Digest::sha256(bytes);
        Descriptor { media_type: "x".to_owned(), digest, size_bytes: bytes.len() as u64 }
    }

    async fn put(layout: &Layout, blob: &Descriptor, parts: &[&'static [u8]]) -> Result<(), Failure> {
        let parts: Vec<io::Result<Bytes>> = parts.iter().map(|part| Ok(Bytes::from_static(part))).collect();
        layout.put_blob(blob, stream::iter(parts), |_| {}).await
    }

    #[tokio::test]
    async fn blobs_are_checked_when_they_come_and_when_they_go() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::create(&folder.path().join("new")).unwrap();
        let blob = descriptor(b"one two");
        put(&layout, &blob, &[b"one ", b"two"]).await.unwrap();
        assert!(layout.has(&blob));
        layout.blob(&blob.digest).unwrap();
        let other = descriptor(b"other");
        let error = put(&layout, &other, &[b"wrong"]).await.unwrap_err();
        assert!(error.text.contains("has the digest") && !layout.has(&other), "{error:?}");
        let mut short = descriptor(b"long");
        short.size_bytes = 3;
        let error = put(&layout, &short, &[b"lo", b"ng"]).await.unwrap_err();
        assert!(error.text.contains("not the 3 bytes") && !layout.path(&short.digest).exists(), "{error:?}");
        fs::write(layout.path(&blob.digest), "changed").unwrap();
        assert!(layout.blob(&blob.digest).unwrap_err().text.contains("has the digest"));
        let left: Vec<_> =
            fs::read_dir(folder.path().join("new")).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left.len(), 3, "nothing half is left: {left:?}");
    }

    #[test]
    fn an_archive_is_replaced_by_a_whole_one_only() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::create(&folder.path().join("layout")).unwrap();
        let file = folder.path().join("a.tar");
        layout.archive(&file).unwrap();
        let before = fs::read(&file).unwrap();
        fs::remove_file(layout.folder.join(INDEX_FILE)).unwrap();
        layout.archive(&file).unwrap_err();
        assert_eq!(fs::read(&file).unwrap(), before);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing half is left");
    }

    #[test]
    fn an_image_replaces_the_one_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::create(folder.path()).unwrap();
        let entry = |text: &[u8], name: &str| Entry { descriptor: descriptor(text), name: Some(name.to_owned()) };
        for entry in [entry(b"1", "a"), entry(b"2", "b"), entry(b"3", "a")] {
            layout.add(&entry).unwrap();
        }
        assert_eq!(Layout::open(folder.path()).unwrap().entries().unwrap(), [entry(b"2", "b"), entry(b"3", "a")]);
        // What others wrote of their images stays.
        let mut index = layout.index().unwrap();
        index["manifests"][0]["platform"] = json!({"os": "linux"});
        index["annotations"] = json!({"by": "others"});
        layout.write(INDEX_FILE, index.to_string().as_bytes()).unwrap();
        layout.add(&entry(b"4", "a")).unwrap();
        index["manifests"][1] = entry(b"4", "a").value();
        assert_eq!(layout.index().unwrap(), index);
        assert!(Layout::create(folder.path()).is_ok(), "it goes on with what is there");
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("x"), "").unwrap();
        for opened in [Layout::create(other.path()), Layout::open(other.path())] {
            assert!(opened.unwrap_err().text.contains("is no image layout"), "somebody's folder is not written to");
        }
    }
}
