//! How catalogs name the images of bundles: by digest, or by a tag that whoever holds the registry can move. Pure but for the log.

use rukpak_content::Digest;

/// A catalog names an image by a tag, and a digest is required.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "bundle {bundle} cannot be installed: the catalog {catalog} names its image by a tag, {image:?}, which whoever holds the \
     registry can move, and --require=digests is set; have the catalog made with the image's digest"
)]
pub(crate) struct Tag {
    bundle: String,
    catalog: String,
    image: String,
}

/// Refuses an image that is not named by its digest. A bundle without an image is refused elsewhere.
pub(crate) fn require_digest(catalog: &str, bundle: &str, image: Option<&str>) -> Result<(), Tag> {
    match image {
        Some(image) if !is_pinned(image) => {
            Err(Tag { bundle: bundle.to_owned(), catalog: catalog.to_owned(), image: image.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Warns of an image that is named by a tag: it is pinned only once it has been pulled.
pub(crate) fn warn_of_tag((kind, name): (&str, &str), catalog: Option<&str>, bundle: &str, image: &str) {
    if !is_pinned(image) {
        tracing::warn!(
            kind,
            name,
            catalog,
            bundle,
            image,
            "the catalog names the image by a tag: whoever holds the registry chooses what is installed (--require=digests refuses it)"
        );
    }
}

fn is_pinned(image: &str) -> bool {
    image.rsplit_once('@').is_some_and(|(_, digest)| digest.parse::<Digest>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_pinned_by_its_digest_alone() {
        let digest = "0".repeat(64);
        for image in [format!("r.example/p@sha256:{digest}"), format!("r.example:5000/p:v1@sha256:{digest}")] {
            assert_eq!(require_digest("c", "p.v1", Some(&image)), Ok(()), "{image}");
        }
        for image in ["r.example/p:v1", "r.example/p", "r.example/p@sha256:00", "r.example/p@v1"] {
            let text = require_digest("c", "p.v1", Some(image)).unwrap_err().to_string();
            assert!(text.contains("by a tag") && text.contains("--require=digests"), "{text}");
        }
        assert_eq!(require_digest("c", "p.v1", None), Ok(()));
    }
}
