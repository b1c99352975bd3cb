//! Copying a store into another one: a folder into a bucket, a bucket into a folder, one bucket into another.

use std::collections::BTreeSet;
use std::io;

use rukpak_content::Digest;
use tempfile::NamedTempFile;

use crate::error::{read, write};
use crate::instance::Keep;
use crate::load::verify;
use crate::{Error, RefKind, Store};

/// What [`Store::copy_to`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Contents that were copied.
    pub contents: u64,
    /// How many bytes these took.
    pub bytes: u64,
    /// Contents that were there already.
    pub present: u64,
    /// Refs that were written or found.
    pub refs: u64,
}

impl Store {
    /// Copies every content that a ref names, verified to its last byte, and then the refs. What `target` has already is left as it is,
    /// so a copy that was interrupted goes on where it was. `told` hears of each content before it is copied.
    ///
    /// # Errors
    /// The first of either store; what was copied until then stays.
    pub fn copy_to(&self, target: &Self, told: &mut dyn FnMut(&Digest)) -> Result<Copied, Error> {
        let (mut copied, mut done) = (Copied::default(), BTreeSet::new());
        for kind in RefKind::ALL {
            for (name, value) in self.refs(kind)? {
                let mut kept = None;
                if done.insert(value.content.clone()) {
                    if target.contains(&value.content)? {
                        copied.present += 1;
                    } else {
                        told(&value.content);
                        let (bytes, keep) = self.copy_content(target, &value.content)?;
                        (copied.bytes, copied.contents) = (copied.bytes + bytes, copied.contents + 1);
                        kept = Some(keep);
                    }
                }
                target.set_ref(kind, &name, &value)?;
                drop(kept);
                copied.refs += 1;
            }
        }
        Ok(copied)
    }

    /// Returns how many bytes it took, and what keeps it from being collected before a ref names it.
    fn copy_content(&self, target: &Self, digest: &Digest) -> Result<(u64, Keep), Error> {
        let path = self.layout().content_file(digest)?;
        let (mut content, stage) = (self.open_content(digest)?, target.stage_dir());
        let mut file = NamedTempFile::new_in(stage).map_err(write(stage))?;
        let bytes = io::copy(&mut content, &mut file).map_err(write(file.path()))?;
        verify(file.reopen().map_err(read(file.path()))?, &path, digest)?;
        Ok((bytes, target.adopt(file, digest)?))
    }
}
