//! Where an image goes to, written as `skopeo` and `podman` write it.

use std::path::PathBuf;

use oci_client::{ParseError, Reference};

use crate::failure::Failure;
use crate::output::chain;

#[derive(Clone, Debug, PartialEq)]
pub enum Destination {
    Registry(Box<Reference>),
    /// `oci:FOLDER[:NAME]`, an image layout, and what the image is called in it.
    Layout(PathBuf, Option<String>),
    /// `oci-archive:FILE[:NAME]`, a tar archive of one.
    Archive(PathBuf, Option<String>),
}

impl Destination {
    pub fn read(text: &str) -> Result<Self, Failure> {
        // The name begins at the first colon: a path has none.
        let parts = |text: &str| match text.split_once(':') {
            Some((path, name)) => (path.into(), Some(name.to_owned()).filter(|name| !name.is_empty())),
            None => (text.into(), None),
        };
        if let Some((path, name)) = text.strip_prefix("oci:").map(parts) {
            return Ok(Self::Layout(path, name));
        }
        if let Some((path, name)) = text.strip_prefix("oci-archive:").map(parts) {
            return Ok(Self::Archive(path, name));
        }
        let text = text.strip_prefix("docker://").unwrap_or(text);
        reference(text).map(|reference| Self::Registry(Box::new(reference)))
    }
}

/// Reads the name of an image as Docker reads it.
pub fn reference(text: &str) -> Result<Reference, Failure> {
    text.parse().map_err(|error: ParseError| Failure::no(format!("{text:?} names no image: {}", chain(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_skopeo_writes_them() {
        assert_eq!(Destination::read("oci:a/b").unwrap(), Destination::Layout("a/b".into(), None));
        let name = Some("localhost:5000/a:v1".to_owned());
        assert_eq!(Destination::read("oci:a/b:localhost:5000/a:v1").unwrap(), Destination::Layout("a/b".into(), name));
        assert_eq!(Destination::read("oci-archive:a.tar:").unwrap(), Destination::Archive("a.tar".into(), None));
        let registry = Destination::read("localhost:5000/a:v1").unwrap();
        assert_eq!(Destination::read("docker://localhost:5000/a:v1").unwrap(), registry);
        assert!(matches!(registry, Destination::Registry(reference) if reference.whole() == "localhost:5000/a:v1"));
        let text = Destination::read("./folder").unwrap_err().text;
        assert!(text.starts_with("\"./folder\" names no image: "), "{text}");
    }
}
