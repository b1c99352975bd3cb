//! Where an image goes to, written as `skopeo` and `podman` write it.

use std::path::PathBuf;

use oci_client::Reference;

use super::Error;

/// A place for images.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// A registry.
    Registry(Box<Reference>),
    /// `oci:FOLDER`, an image layout.
    Layout(PathBuf),
    /// `oci-archive:FILE`, a tar archive of one.
    Archive(PathBuf),
}

impl Place {
    /// Reads it.
    pub fn read(text: &str) -> Result<Self, Error> {
        if let Some(path) = text.strip_prefix("oci:") {
            return Ok(Self::Layout(path.into()));
        }
        if let Some(path) = text.strip_prefix("oci-archive:") {
            return Ok(Self::Archive(path.into()));
        }
        let text = text.strip_prefix("docker://").unwrap_or(text);
        reference(text).map(|reference| Self::Registry(Box::new(reference)))
    }
}

/// Reads the name of an image as Docker reads it.
pub fn reference(text: &str) -> Result<Reference, Error> {
    text.parse().map_err(|source| Error::Reference { reference: text.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_skopeo_writes_them() {
        assert_eq!(Place::read("oci:a/b").unwrap(), Place::Layout("a/b".into()));
        assert_eq!(Place::read("oci-archive:a.tar").unwrap(), Place::Archive("a.tar".into()));
        let registry = Place::read("localhost:5000/a:v1").unwrap();
        assert_eq!(Place::read("docker://localhost:5000/a:v1").unwrap(), registry);
        assert!(matches!(registry, Place::Registry(reference) if reference.whole() == "localhost:5000/a:v1"));
        let text = Place::read("./folder").unwrap_err().to_string();
        assert_eq!(text, "\"./folder\" names no image");
    }
}
