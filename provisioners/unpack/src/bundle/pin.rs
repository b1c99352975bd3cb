//! What a Bundle resolved to once and for good. Pure.

use std::fmt;

use rukpak_content::{Digest, DigestError, repository};
use rukpak_crds::{BundleSource, GitRef, Pin};
use rukpak_source::git::{Commit, CommitError};

/// The one version of a source that its reference named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revision {
    /// Digest of an image's manifest or index.
    Image(Digest),
    /// Commit of a git repository.
    Git(Commit),
    /// Digest of an archive, downloaded or uploaded.
    Archive(Digest),
    /// ConfigMaps have no version of their own: what they held is known by its content alone.
    ConfigMaps,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// What the reference named.
    pub revision: Revision,
    /// The tree it held, as the store names it.
    pub content: Digest,
}

/// Why a pin cannot be used, or does not hold.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// A digest in it is none.
    #[error("status.pin cannot be read: delete the Bundle and create it again")]
    Digest(#[source] DigestError),
    /// The commit in it is none.
    #[error("status.pin cannot be read: delete the Bundle and create it again")]
    Commit(#[source] CommitError),
    /// It names no revision, or one of another kind of source.
    #[error("status.pin does not fit a source of type {0:?}: delete the Bundle and create it again")]
    Kind(String),
    /// The source gave other content than it did the first time.
    #[error(
        "{revision} now holds other content than when the Bundle was unpacked: expected {pinned}, found {found}; \
         what was unpacked first stays, a new Bundle takes the new content"
    )]
    Changed {
        revision: Revision,
        /// The content it held.
        pinned: Digest,
        /// The content it holds.
        found: Digest,
    },
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(digest) | Self::Archive(digest) => digest.fmt(formatter),
            Self::Git(commit) => commit.fmt(formatter),
            Self::ConfigMaps => formatter.write_str("the set of ConfigMaps"),
        }
    }
}

impl Pinned {
    /// Reads the pin in the status of a Bundle with this source.
    pub fn read(pin: &Pin, source: &BundleSource) -> Result<Self, Error> {
        let revision = match (source.type_.as_str(), &pin.image_digest, &pin.git_commit, &pin.archive_digest) {
            ("image", Some(digest), None, None) => Revision::Image(digest.parse().map_err(Error::Digest)?),
            ("git", None, Some(commit), None) => Revision::Git(commit.parse().map_err(Error::Commit)?),
            ("http" | "upload", None, None, Some(digest)) => Revision::Archive(digest.parse().map_err(Error::Digest)?),
            ("configMaps", None, None, None) => Revision::ConfigMaps,
            _ => return Err(Error::Kind(source.type_.clone())),
        };
        Ok(Self { revision, content: pin.content_digest.parse().map_err(Error::Digest)? })
    }

    /// As it stands in the status.
    pub fn written(&self) -> Pin {
        let mut pin = Pin { content_digest: self.content.to_string(), ..Pin::default() };
        match &self.revision {
            Revision::Image(digest) => pin.image_digest = Some(digest.to_string()),
            Revision::Git(commit) => pin.git_commit = Some(commit.to_string()),
            Revision::Archive(digest) => pin.archive_digest = Some(digest.to_string()),
            Revision::ConfigMaps => {}
        }
        pin
    }

    /// `source` with its reference replaced by what it named.
    ///
    /// An image loses its pull secret, a git source keeps how it authenticates, the others are as they are in the spec: as
    /// upstream reports them. But a login in a URL stays where its owner put it, in the spec.
    pub fn resolved(&self, source: &BundleSource) -> BundleSource {
        let mut resolved = source.clone();
        if let (Revision::Image(digest), Some(image)) = (&self.revision, &mut resolved.image) {
            image.reference = reference_at(&image.reference, digest);
            image.pull_secret = None;
        }
        if let (Revision::Git(commit), Some(git)) = (&self.revision, &mut resolved.git) {
            git.reference = GitRef { commit: Some(commit.to_string()), ..GitRef::default() };
            git.repository = without_login(&git.repository);
        }
        if let Some(http) = &mut resolved.http {
            http.url = without_login(&http.url);
        }
        resolved
    }

    /// Refuses `found`, which was fetched by the revision, if it is not the pinned content.
    pub fn confirm(&self, found: &Digest) -> Result<(), Error> {
        if self.content == *found {
            return Ok(());
        }
        Err(Error::Changed { revision: self.revision.clone(), pinned: self.content.clone(), found: found.clone() })
    }
}

/// An http or https URL without user name and password. URLs are read as the WHATWG's standard has it: any number of slashes
/// may stand behind the scheme, of either kind. Other addresses, such as those for ssh, hold no secret.
fn without_login(url: &str) -> String {
    let whole = || url.to_owned();
    let Some((scheme, rest)) = url.split_once(':') else { return whole() };
    if !["http", "https"].iter().any(|known| scheme.trim().eq_ignore_ascii_case(known)) {
        return whole();
    }
    let slashes = ['/', '\\'];
    let start = rest.len() - rest.trim_start_matches(slashes).len();
    let (before, rest) = rest.split_at(start);
    let end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        Some((_, host)) => format!("{scheme}:{before}{host}{}", &rest[end..]),
        None => whole(),
    }
}

/// `reference` with its tag and digest replaced by `digest`.
pub fn reference_at(reference: &str, digest: &Digest) -> String {
    format!("{}@{digest}", repository(reference))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn image(reference: &str) -> BundleSource {
        serde_json::from_value(json!({"type": "image", "image": {"ref": reference, "pullSecret": "s"}})).unwrap()
    }

    fn pinned() -> Pinned {
        Pinned { revision: Revision::Image(Digest::sha256(b"image")), content: Digest::sha256(b"tree") }
    }

    #[test]
    fn a_pin_comes_back_as_it_was_written() {
        let pinned = pinned();
        assert_eq!(Pinned::read(&pinned.written(), &image("r")), Ok(pinned));
        let git = Pinned { revision: Revision::Git(COMMIT.parse().unwrap()), content: Digest::sha256(b"tree") };
        let source = BundleSource { type_: "git".into(), ..BundleSource::default() };
        assert_eq!(Pinned::read(&git.written(), &source), Ok(git.clone()));
        assert_eq!(Pinned::read(&git.written(), &image("r")), Err(Error::Kind("image".into())));
        let of = |type_: &str| BundleSource { type_: type_.into(), ..BundleSource::default() };
        let archive = Pinned { revision: Revision::Archive(Digest::sha256(b"tgz")), content: Digest::sha256(b"tree") };
        for type_ in ["http", "upload"] {
            assert_eq!(Pinned::read(&archive.written(), &of(type_)), Ok(archive.clone()));
            assert_eq!(archive.resolved(&of(type_)), of(type_));
        }
        let config_maps = Pinned { revision: Revision::ConfigMaps, content: Digest::sha256(b"tree") };
        assert_eq!(Pinned::read(&config_maps.written(), &of("configMaps")), Ok(config_maps.clone()));
        assert_eq!(Pinned::read(&config_maps.written(), &of("http")), Err(Error::Kind("http".into())));
    }

    #[test]
    fn an_image_is_resolved_to_its_digest() {
        let digest = Digest::sha256(b"image");
        for (given, repository) in [
            ("localhost:5000/a/b:v1", "localhost:5000/a/b"),
            ("localhost:5000/a/b", "localhost:5000/a/b"),
            ("quay.io/a/b", "quay.io/a/b"),
            ("a:v1@sha256:00", "a"),
        ] {
            let resolved = pinned().resolved(&image(given)).image.unwrap();
            assert_eq!(resolved.reference, format!("{repository}@{digest}"));
            assert_eq!(resolved.pull_secret, None);
        }
    }

    #[test]
    fn a_git_source_keeps_everything_but_its_reference() {
        let source: BundleSource = serde_json::from_value(json!({"type": "git", "git": {
            "repository": "https://h/r", "directory": "./d", "ref": {"tag": "v1"},
            "auth": {"secret": {"name": "s"}, "insecureSkipVerify": true}}}))
        .unwrap();
        let pinned = Pinned { revision: Revision::Git(COMMIT.parse().unwrap()), content: Digest::sha256(b"tree") };
        let mut expected = source.clone();
        expected.git.as_mut().unwrap().reference = GitRef { commit: Some(COMMIT.into()), ..GitRef::default() };
        assert_eq!(pinned.resolved(&source), expected);
    }

    #[test]
    fn a_login_in_a_url_is_not_repeated() {
        for (given, expected) in [
            ("https://h/r.git", "https://h/r.git"),
            ("https://me:hush@h:8443/r@v1", "https://h:8443/r@v1"),
            ("HTTP://hush@h", "HTTP://h"),
            ("https://a@b:hush@h/r?x=y@z", "https://h/r?x=y@z"),
            ("https:/\\me:hush@h/r", "https:/\\h/r"),
            ("ssh://git@h/r", "ssh://git@h/r"),
            ("git@h:o/r.git", "git@h:o/r.git"),
        ] {
            assert_eq!(without_login(given), expected);
        }
        let archive = Pinned { revision: Revision::Archive(Digest::sha256(b"tgz")), content: Digest::sha256(b"tree") };
        let source =
            serde_json::from_value(json!({"type": "http", "http": {"url": "https://me:hush@h/a.tgz"}})).unwrap();
        assert_eq!(archive.resolved(&source).http.unwrap().url, "https://h/a.tgz");
    }

    #[test]
    fn other_bytes_are_named() {
        let pinned = pinned();
        assert_eq!(pinned.confirm(&Digest::sha256(b"tree")), Ok(()));
        let text = pinned.confirm(&Digest::sha256(b"other")).unwrap_err().to_string();
        for digest in [Digest::sha256(b"tree"), Digest::sha256(b"other")] {
            assert!(text.contains(&digest.to_string()), "{text}");
        }
    }
}
