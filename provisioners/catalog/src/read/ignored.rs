//! `.indexignore` files: gitignore syntax, in any folder, for what is below it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::Error;

/// The name of such a file. It is no part of the catalog itself.
pub(super) const FILE: &str = ".indexignore";

/// Bytes of one such file.
const MAX_BYTES: u64 = 64 * 1024;

/// What the files of a folder and of those above it leave out.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// From the root inwards, each with its folder.
    files: Vec<std::sync::Arc<Gitignore>>,
}

impl Rules {
    /// With the rules of `folder`, if it has any. `path` names the folder in messages.
    pub(super) fn enter(&self, folder: &Path, path: &str) -> Result<Self, Error> {
        let file = if path.is_empty() { FILE.to_owned() } else { format!("{path}/{FILE}") };
        let io = |source| Error::Io { path: file.clone(), source };
        let mut text = String::new();
        match File::open(folder.join(FILE)) {
            Ok(opened) => opened.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(io)?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(self.clone()),
            Err(error) => return Err(io(error)),
        };
        if text.len() as u64 > MAX_BYTES {
            return Err(Error::Pattern { path: file, line: 1, problem: format!("longer than {MAX_BYTES} bytes") });
        }
        let mut builder = GitignoreBuilder::new(folder);
        let fault = |line: usize, error: &ignore::Error| Error::Pattern {
            path: file.clone(),
            line,
            problem: error.to_string(),
        };
        for (index, line) in text.lines().enumerate() {
            builder.add_line(None, line).map_err(|error| fault(index + 1, &error))?;
        }
        let rules = builder.build().map_err(|error| fault(1, &error))?;
        let mut files = self.files.clone();
        files.push(std::sync::Arc::new(rules));
        Ok(Self { files })
    }

    /// Whether a file is left out. What names it counts before what names a folder that it lies in, and the innermost file
    /// that says something counts, as it does upstream: git would not take back a file of a folder that is left out.
    pub(super) fn leave_out(&self, path: &Path) -> bool {
        let mut place = path;
        let mut is_folder = false;
        loop {
            for rules in
                self.files.iter().rev().filter(|rules| place.starts_with(rules.path()) && place != rules.path())
            {
                match rules.matched(place, is_folder) {
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                    Match::None => {}
                }
            }
            let Some(parent) = place.parent() else { return false };
            if self.files.first().is_none_or(|root| !parent.starts_with(root.path()) || parent == root.path()) {
                return false;
            }
            place = parent;
            is_folder = true;
        }
    }

    /// Whether nothing in a folder can be read: it is left out, and no rule takes anything back.
    pub(super) fn leave_out_all(&self, folder: &Path) -> bool {
        self.files.iter().all(|rules| rules.num_whitelists() == 0)
            && self.files.iter().any(|rules| rules.matched(folder, true).is_ignore())
    }
}
