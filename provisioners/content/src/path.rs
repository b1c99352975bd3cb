//! Paths inside a bundle.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A path below a bundle's root: `/`-separated, at least one component, none of them empty, `.` or `..`, no control character.
///
/// It can therefore be joined to any folder without leaving it. The root itself has no `RelativePath`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RelativePath(String);

/// Why a text is not a [`RelativePath`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PathError {
    /// Nothing is left after dropping `.` and slashes: this is the root.
    #[error("the path is empty")]
    Empty,
    /// It begins with a slash.
    #[error("{0:?} is absolute: use a path relative to the bundle's root")]
    Absolute(String),
    /// A component is `..`.
    #[error("{0:?} leaves the bundle: `..` is not allowed")]
    Escape(String),
    /// It holds a control character (C0, DEL or C1): no bundle needs one, and archives, terminals and logs take some of them for
    /// more than a part of a name.
    #[error("{0:?} holds a control character: rename the file")]
    Control(String),
}

impl RelativePath {
    /// Cleans `text` (drops `.` components, doubled and trailing slashes) and checks it.
    ///
    /// `..` is refused wherever it stands, also where cleaning would have removed it: a bundle has no use for it.
    pub fn new(text: &str) -> Result<Self, PathError> {
        if text.starts_with('/') {
            return Err(PathError::Absolute(text.to_owned()));
        }
        if text.contains(char::is_control) {
            return Err(PathError::Control(text.to_owned()));
        }
        let mut clean = String::with_capacity(text.len());
        for component in text.split('/').filter(|component| !matches!(*component, "" | ".")) {
            if component == ".." {
                return Err(PathError::Escape(text.to_owned()));
            }
            if !clean.is_empty() {
                clean.push('/');
            }
            clean.push_str(component);
        }
        if clean.is_empty() { Err(PathError::Empty) } else { Ok(Self(clean)) }
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How many components it has, at least 1.
    pub fn depth(&self) -> usize {
        self.0.split('/').count()
    }

    /// The folder it lies in; `None` directly below the root.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// The last component.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.0.as_str(), |(_, name)| name)
    }

    /// The components from the root down.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// What is left of this path below `folder`; `None` if it does not lie below it.
    pub fn strip(&self, folder: &Self) -> Option<Self> {
        self.0.strip_prefix(folder.as_str())?.strip_prefix('/').map(|rest| Self(rest.to_owned()))
    }

    /// The path of `name` inside this folder. `name` is checked like any path.
    pub fn join(&self, name: &str) -> Result<Self, PathError> {
        Self::new(&format!("{}/{}", self.0, name.trim_start_matches('/')))
    }
}

impl TryFrom<String> for RelativePath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, PathError> {
        Self::new(&text)
    }
}

impl From<RelativePath> for String {
    fn from(path: RelativePath) -> Self {
        path.0
    }
}

impl Borrow<str> for RelativePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleans_what_is_harmless() {
        for (text, clean) in [("./a//b/", "a/b"), ("a", "a"), ("a/./b", "a/b"), ("..a/b..", "..a/b..")] {
            assert_eq!(RelativePath::new(text).unwrap().as_str(), clean);
        }
    }

    #[test]
    fn refuses_what_leaves_the_tree() {
        for bad in ["", ".", "./", "/", "/etc", "..", "../a", "a/../b", "a/.."] {
            assert!(RelativePath::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn control_characters_are_refused_and_named() {
        for control in ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}') {
            let text = format!("manifests/a{control}b");
            assert_eq!(RelativePath::new(&text), Err(PathError::Control(text)));
        }
        let error = RelativePath::new("x\n28 path=manifests/evil.yaml").unwrap_err();
        assert_eq!(error.to_string(), r#""x\n28 path=manifests/evil.yaml" holds a control character: rename the file"#);
        assert!(RelativePath::new("manifests/\u{e9}\u{2028} \u{a0}").is_ok());
    }

    #[test]
    fn strips_whole_components_only() {
        let path = RelativePath::new("manifests-old/a").unwrap();
        assert_eq!(path.strip(&RelativePath::new("manifests").unwrap()), None);
        assert_eq!(path.strip(&RelativePath::new("manifests-old").unwrap()).unwrap().as_str(), "a");
    }
}
