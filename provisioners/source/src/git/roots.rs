//! The CA certificates to trust, laid out so that OpenSSL reads only those it needs.
//!
//! Told of one file, OpenSSL parses all of it when it starts: some 25 ms of processor time for a system's 140 authorities, in
//! every child. Told of a folder, it opens the file that is named by a hash of the name it looks for, as `c_rehash` makes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;

mod name;

/// Where systems keep their CA certificates in one file.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Where systems keep them by hash.
const SYSTEM_FOLDERS: [&str; 2] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];
/// In a layout: what is read in any case.
const ALWAYS: &str = "always.pem";

/// Makes layouts: one, until the system's certificates change.
#[derive(Debug)]
pub(super) struct Roots {
    stage_dir: PathBuf,
    extra: Option<String>,
    current: Mutex<Option<Arc<Layout>>>,
}

/// A folder for OpenSSL. Removed with the last child that may read it.
#[derive(Debug)]
pub(super) struct Layout {
    folder: TempDir,
    made_of: Sources,
}

/// What the system has, and when it was written.
#[derive(Debug, Default, PartialEq)]
struct Sources {
    file: Option<(PathBuf, SystemTime, u64)>,
    folder: Option<(PathBuf, SystemTime)>,
}

impl Roots {
    /// Layouts below `stage_dir`, with the certificates of `extra`, PEM, beside the system's.
    pub(super) fn new(stage_dir: PathBuf, extra: Option<String>) -> Self {
        Self { stage_dir, extra, current: Mutex::new(None) }
    }

    /// The layout of what the system has now.
    pub(super) fn layout(&self) -> io::Result<Arc<Layout>> {
        let sources = Sources::find();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layout) = current.as_ref().filter(|layout| layout.made_of == sources && layout.is_there()) {
            return Ok(Arc::clone(layout));
        }
        let layout = Arc::new(Layout::make(&self.stage_dir, self.extra.as_deref(), sources)?);
        *current = Some(Arc::clone(&layout));
        Ok(layout)
    }
}

impl Layout {
    /// What tells OpenSSL.
    pub(super) fn variables(&self) -> [(&'static str, PathBuf); 2] {
        [("SSL_CERT_FILE", self.always()), ("SSL_CERT_DIR", self.folder.path().to_owned())]
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn always(&self) -> PathBuf {
        self.folder.path().join(ALWAYS)
    }

    fn is_there(&self) -> bool {
        self.always().is_file()
    }

    fn make(stage_dir: &Path, extra: Option<&str>, made_of: Sources) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("roots-").tempdir_in(stage_dir)?;
        let mut always = File::create_new(folder.path().join(ALWAYS))?;
        let mut known = BTreeSet::new();
        let mut hashed = BTreeMap::<u32, u32>::new();
        for text in made_of.read()? {
            let Ok(certificates) = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>() else {
                // OpenSSL may make more of it.
                always.write_all(&text)?;
                always.write_all(b"\n")?;
                continue;
            };
            for certificate in certificates.into_iter().filter(|certificate| known.insert(certificate.to_vec())) {
                let text = pem(&certificate);
                match name::hash(&certificate) {
                    Some(hash) => {
                        let number = hashed.entry(hash).or_default();
                        fs::write(folder.path().join(format!("{hash:08x}.{number}")), text)?;
                        *number += 1;
                    }
                    None => always.write_all(text.as_bytes())?,
                }
            }
        }
        always.write_all(b"\n")?;
        always.write_all(extra.unwrap_or_default().as_bytes())?;
        Ok(Self { folder, made_of })
    }
}

impl Sources {
    fn find() -> Self {
        let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        let file = named.into_iter().chain(SYSTEM_FILES.map(PathBuf::from)).find_map(|path| {
            let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
            Some((path, metadata.modified().ok()?, metadata.len()))
        });
        let named = std::env::var_os("SSL_CERT_DIR").map(PathBuf::from);
        let folder = named.into_iter().chain(SYSTEM_FOLDERS.map(PathBuf::from)).find_map(|path| {
            let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_dir)?;
            Some((path, metadata.modified().ok()?))
        });
        Self { file, folder }
    }

    /// The texts of all files. A file of the folder that cannot be read is passed over, as OpenSSL does.
    fn read(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut texts = Vec::new();
        if let Some((path, ..)) = &self.file {
            texts.push(fs::read(path)?);
        }
        if let Some((path, _)) = &self.folder {
            let entries = fs::read_dir(path)?.filter_map(Result::ok);
            let hashed = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_hash));
            texts.extend(hashed.filter_map(|entry| fs::read(entry.path()).ok()));
        }
        Ok(texts)
    }
}

/// Whether OpenSSL would look for a certificate in a file of this name.
fn is_hash(name: &str) -> bool {
    let Some((hash, number)) = name.split_once('.') else { return false };
    let hexadecimal = hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    hexadecimal && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = String::with_capacity(text.len() + text.len() / 64 + 64);
    pem.push_str("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests;
