//! Where a catalog is, as people write it.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rukpak_catalog::origin::{Origin, ParseError};

use crate::output::chain;

/// A running catalog of OLM.
const GRPC: &str = "grpc:";
const CLUSTER: &str = "cluster:";
const SCHEMES: [&str; 4] = ["image:", "dir:", "https://", "http://"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogLocation {
    /// An image, a folder, or catalogd.
    Origin(Origin),
    File(PathBuf),
    /// A running catalog: `host:port`.
    Grpc(String),
    /// A ClusterCatalog of a cluster, by its name.
    Cluster(String),
}

impl CatalogLocation {
    /// Looks whether there is such a path: that wins.
    ///
    /// # Errors
    /// A sentence: the text names no catalog.
    pub fn new(text: &OsStr) -> Result<Self, String> {
        match fs::metadata(text) {
            Ok(metadata) if metadata.is_dir() => return Ok(Self::Origin(Origin::Folder(text.into()))),
            Ok(_) => return Ok(Self::File(text.into())),
            // A path through a file (`image:x/y` beside a file `image:x`) is none either.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(format!("look at {}: {error}", shown(&text.to_string_lossy()))),
        }
        let missing = || {
            format!(
                "{}: there is no file or folder of this name; a catalog elsewhere is image:REFERENCE, https://HOST/PATH, \
                 grpc:HOST:PORT or cluster:NAME",
                shown(&text.to_string_lossy())
            )
        };
        let text = text.to_str().ok_or_else(missing)?;
        if let Some(address) = text.strip_prefix(GRPC) {
            let address = address.trim_start_matches("//");
            let is_good = !address.is_empty() && !address.contains('@');
            let refused = || format!("{}: write grpc:HOST:PORT, and no login", shown(text));
            return is_good.then(|| Self::Grpc(address.to_owned())).ok_or_else(refused);
        }
        if let Some(name) = text.strip_prefix(CLUSTER).filter(|name| !name.is_empty()) {
            return Ok(Self::Cluster(name.to_owned()));
        }
        if let Some(path) = text.strip_prefix("dir:").map(Path::new).filter(|path| path.is_file()) {
            return Ok(Self::File(path.to_owned()));
        }
        if SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            text.parse().map(Self::Origin).map_err(|error: ParseError| chain(&error))
        } else {
            Err(missing())
        }
    }
}

/// What may be shown of a text that somebody took for a catalog: no login.
fn shown(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((before, rest)) if text.starts_with(GRPC) || before.contains("://") => format!("<redacted>@{rest}"),
        _ => text.to_owned(),
    }
}

impl fmt::Display for CatalogLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin(Origin::Folder(path)) | Self::File(path) => path.display().fmt(formatter),
            Self::Origin(origin) => origin.fmt(formatter),
            Self::Grpc(address) => write!(formatter, "{GRPC}{address}"),
            Self::Cluster(name) => write!(formatter, "{CLUSTER}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Result<CatalogLocation, String> {
        CatalogLocation::new(text.as_ref())
    }

    #[test]
    fn what_exists_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("image:a/b:v1")).unwrap();
        fs::write(path("all.json"), "").unwrap();
        let text = |name: &str| path(name).to_str().unwrap().to_owned();
        assert_eq!(place(&text("image:a/b:v1")), Ok(CatalogLocation::Origin(Origin::Folder(path("image:a/b:v1")))));
        assert_eq!(place(&text("all.json")), Ok(CatalogLocation::File(path("all.json"))));
        assert_eq!(place(&format!("dir:{}", text("all.json"))), Ok(CatalogLocation::File(path("all.json"))));
        let missing = place(&text("none")).unwrap_err();
        assert!(missing.contains(": there is no file or folder of this name"), "{missing}");
        let through = place(&text("all.json/x")).unwrap_err();
        assert!(through.contains(": there is no file or folder of this name"), "{through}");
    }

    #[test]
    fn the_forms() {
        let image = CatalogLocation::Origin(Origin::Image("localhost:5000/a:v1".to_owned()));
        assert_eq!(place("image:localhost:5000/a:v1"), Ok(image));
        assert_eq!(place("grpc:127.0.0.1:50051"), Ok(CatalogLocation::Grpc("127.0.0.1:50051".to_owned())));
        assert_eq!(place("grpc://[::1]:50051"), Ok(CatalogLocation::Grpc("[::1]:50051".to_owned())));
        assert_eq!(place("cluster:pumps"), Ok(CatalogLocation::Cluster("pumps".to_owned())));
        assert!(place("cluster:").unwrap_err().contains("cluster:NAME"));
        for text in ["grpc:", "grpc:user:secret@host:1"] {
            let error = place(text).unwrap_err();
            assert!(error.contains("write grpc:HOST:PORT") && !error.contains("secret"), "{error}");
        }
        assert!(!place("ftp://user:secret@host/x").unwrap_err().contains("secret"));
        assert!(place("https://u:p@x/y").unwrap_err().contains("login"));
        assert!(place("quay.io/a/b:v1").unwrap_err().contains("image:REFERENCE"));
        for text in ["dir:/a/b", "https://x/catalogs/y", "image:a/b"] {
            let shown = place(text).unwrap().to_string();
            assert!(text.ends_with(&shown), "{text} is shown as {shown}");
        }
    }
}
