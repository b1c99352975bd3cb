//! Tar archives, entry by entry, with nothing in the way of a hostile one.

use anyhow::{Context, Result};
use tar::{Builder, EntryType, Header};

/// One entry. Paths are written as given, be they absolute, with `..`, or not UTF-8.
#[derive(Debug, Clone)]
pub struct TarEntry {
    path: Vec<u8>,
    link: Option<Vec<u8>>,
    kind: EntryType,
    mode: u32,
    content: Vec<u8>,
}

impl TarEntry {
    /// A regular file with mode 0644.
    pub fn file(path: impl Into<Vec<u8>>, content: impl Into<Vec<u8>>) -> Self {
        Self { content: content.into(), ..Self::of(EntryType::Regular, path, 0o644) }
    }

    /// A directory with mode 0755.
    pub fn directory(path: impl Into<Vec<u8>>) -> Self {
        Self::of(EntryType::Directory, path, 0o755)
    }

    /// A symbolic link.
    pub fn symlink(path: impl Into<Vec<u8>>, target: impl Into<Vec<u8>>) -> Self {
        Self { link: Some(target.into()), ..Self::of(EntryType::Symlink, path, 0o777) }
    }

    /// A hard link.
    pub fn hard_link(path: impl Into<Vec<u8>>, target: impl Into<Vec<u8>>) -> Self {
        Self { link: Some(target.into()), ..Self::of(EntryType::Link, path, 0o644) }
    }

    /// A character device.
    pub fn device(path: impl Into<Vec<u8>>) -> Self {
        Self::of(EntryType::Char, path, 0o600)
    }

    /// A named pipe.
    pub fn fifo(path: impl Into<Vec<u8>>) -> Self {
        Self::of(EntryType::Fifo, path, 0o600)
    }

    /// Removes `path` of the layers below.
    pub fn whiteout(path: &str) -> Self {
        let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
        let slash = if folder.is_empty() { "" } else { "/" };
        Self::file(format!("{folder}{slash}.wh.{name}"), "")
    }

    /// Hides what the layers below have in `folder`.
    pub fn opaque(folder: &str) -> Self {
        Self::file(format!("{}/.wh..wh..opq", folder.trim_end_matches('/')), "")
    }

    /// With another mode.
    #[must_use]
    pub fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    fn of(kind: EntryType, path: impl Into<Vec<u8>>, mode: u32) -> Self {
        Self { path: path.into(), link: None, kind, mode, content: Vec::new() }
    }
}

/// Writes an uncompressed archive: owner 0, time 0, GNU long names.
pub fn tarball(entries: &[TarEntry]) -> Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for entry in entries {
        if entry.path.len() > 100 {
            long(&mut builder, EntryType::GNULongName, &entry.path)?;
        }
        if let Some(link) = entry.link.as_ref().filter(|link| link.len() > 100) {
            long(&mut builder, EntryType::GNULongLink, link)?;
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(entry.kind);
        header.set_mode(entry.mode);
        header.set_size(entry.content.len() as u64);
        for set in [Header::set_uid as fn(&mut Header, u64), Header::set_gid, Header::set_mtime] {
            set(&mut header, 0);
        }
        if matches!(entry.kind, EntryType::Char | EntryType::Block) {
            header.set_device_major(1)?;
            header.set_device_minor(3)?;
        }
        // Straight into the field: the setters of the crate refuse what an attacker would write.
        let old = header.as_old_mut();
        fill(&mut old.name, &entry.path);
        fill(&mut old.linkname, entry.link.as_deref().unwrap_or_default());
        header.set_cksum();
        builder.append(&header, entry.content.as_slice()).context("write a tar entry")?;
    }
    builder.into_inner().context("end the tar archive")
}

fn long(builder: &mut Builder<Vec<u8>>, kind: EntryType, text: &[u8]) -> Result<()> {
    let mut content = text.to_vec();
    content.push(0);
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    fill(&mut header.as_old_mut().name, b"././@LongLink");
    header.set_cksum();
    builder.append(&header, content.as_slice()).context("write a long name")
}

fn fill(field: &mut [u8], text: &[u8]) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text[..length]);
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn entries_come_back_as_written() {
        let long = format!("manifests/{}", "x".repeat(200));
        let entries = [
            TarEntry::file("../escape", "a"),
            TarEntry::file(long.clone(), "b"),
            TarEntry::symlink("l", "/etc/passwd"),
        ];
        let bytes = tarball(&entries).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let read: Vec<(String, String)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut content = String::new();
                entry.read_to_string(&mut content).unwrap();
                (String::from_utf8(entry.path_bytes().into_owned()).unwrap(), content)
            })
            .collect();
        assert_eq!(read, [("../escape".into(), "a".into()), (long, "b".into()), ("l".into(), String::new())]);
    }

    #[test]
    fn whiteouts_stand_beside_what_they_hide() {
        assert_eq!(TarEntry::whiteout("manifests/a.yaml").path, b"manifests/.wh.a.yaml");
        assert_eq!(TarEntry::whiteout("a.yaml").path, b".wh.a.yaml");
    }
}
