//! The patterns of one file, with the meaning that a .gitignore gives them.

use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// The patterns of a file, which are for what is below its folder.
#[derive(Debug)]
pub(super) struct Patterns {
    folder: PathBuf,
    globs: GlobSet,
    /// What each glob means, in the order of the file.
    kinds: Vec<Kind>,
}

/// What a pattern means for what its glob matches.
#[derive(Clone, Copy, Debug)]
struct Kind {
    takes_back: bool,
    is_for_folders: bool,
}

impl Patterns {
    /// Reads the text of a file in `folder`. What is wrong comes with the number of its line.
    pub(super) fn read(folder: &Path, text: &str) -> Result<Self, (usize, String)> {
        let mut globs = GlobSetBuilder::new();
        let mut kinds = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if let Some((kind, glob)) = pattern(line).map_err(|problem| (index + 1, problem))? {
                kinds.push(kind);
                globs.add(glob);
            }
        }

        let globs = globs.build().map_err(|error| (1, error.to_string()))?;
        Ok(Self { folder: folder.to_owned(), globs, kinds })
    }

    /// The folder of the file.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether no pattern takes anything back.
    pub(super) fn take_nothing_back(&self) -> bool {
        self.kinds.iter().all(|kind| !kind.takes_back)
    }

    /// Whether `path` is left out by the last pattern that is for it. `None`: none is.
    pub(super) fn leave_out(&self, path: &Path, is_folder: bool) -> Option<bool> {
        let matched = self.globs.matches(path.strip_prefix(&self.folder).ok()?);
        let mut kinds = matched.iter().rev().filter_map(|index| self.kinds.get(*index));
        let last = kinds.find(|kind| is_folder || !kind.is_for_folders)?;
        Some(!last.takes_back)
    }
}

/// What a line says. `None`: it is blank or a comment.
fn pattern(line: &str) -> Result<Option<(Kind, Glob)>, String> {
    // A blank at the end counts where it is escaped.
    let line = if line.ends_with("\\ ") { line } else { line.trim_end() };
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (takes_back, rest) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
    let (is_anchored, rest) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
    let (is_for_folders, rest) = rest.strip_suffix('/').map_or((false, rest), |rest| (true, rest));
    // The slash may have been escaped.
    let rest = if is_for_folders { rest.strip_suffix('\\').unwrap_or(rest) } else { rest };

    // Without a slash it is for names in every folder, with one for paths from here.
    let is_path = is_anchored || rest.contains('/') || rest == "**";
    let mut text = if is_path { rest.to_owned() } else { format!("**/{rest}") };
    if text.ends_with("/**") {
        // What is in the folder, and not the folder itself.
        text.push_str("/*");
    }
    let glob =
        GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).allow_unclosed_class(true).build();
    let glob = glob.map_err(|error| format!("error parsing glob '{line}': {}", error.kind()))?;
    Ok(Some((Kind { takes_back, is_for_folders }, glob)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_means_what_it_means_to_git() {
        for (text, path, is_folder, expected) in [
            ("a", "a", false, Some(true)),
            ("a", "p/a", false, Some(true)),
            ("a", "p/ab", false, None),
            ("/a", "p/a", false, None),
            ("p/a", "p/a", false, Some(true)),
            ("p/a", "q/p/a", false, None),
            ("p/*", "p/q/a", false, None),
            ("**/q/a", "p/q/a", false, Some(true)),
            ("p/**", "p", true, None),
            ("p/**", "p/q/a", false, Some(true)),
            ("a/", "a", false, None),
            ("a/", "p/a", true, Some(true)),
            ("/a/", "p/a", true, None),
            ("#a", "#a", false, None),
            ("\\#a", "#a", false, Some(true)),
            ("\\!a", "!a", false, Some(true)),
            ("a \t", "a", false, Some(true)),
            ("a\\ ", "a ", false, Some(true)),
            ("a\n!/p/a", "a", false, Some(true)),
            ("a\n!/p/a", "p/a", false, Some(false)),
            ("!a\na", "a", false, Some(true)),
            ("a\n!a/", "a", false, Some(true)),
        ] {
            let patterns = Patterns::read(Path::new("/c"), text).unwrap();
            assert_eq!(patterns.leave_out(&Path::new("/c").join(path), is_folder), expected, "{text:?} {path}");
        }
    }

    #[test]
    fn a_pattern_that_is_none_is_told_with_its_line() {
        let error = Patterns::read(Path::new("/c"), "# a\n\n![z-a]").unwrap_err();
        assert_eq!(error.0, 3);
        assert!(error.1.starts_with("error parsing glob '![z-a]': "), "{}", error.1);
    }
}
