//! Runs the real program over bundles that are made for a test.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rukpak_content::Limits;
use rukpak_plain::{Budget, yaml};
use serde_json::Value;

/// What the program did.
#[derive(Debug)]
pub struct Answer {
    /// The exit code.
    pub code: i32,
    /// Data.
    pub out: String,
    /// Talk.
    pub err: String,
}

impl Answer {
    /// Runs a command to its end.
    pub fn of(mut command: Command) -> Self {
        let output = command.output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            code: output.status.code().expect("it ends by itself"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// stdout as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// stdout as the documents that kubectl would read.
    pub fn yaml(&self) -> Vec<Value> {
        let limits = Limits::default();
        let documents = yaml::parse(&Arc::from("stdout"), self.out.as_bytes(), &mut Budget::new(&limits));
        let documents = documents.unwrap_or_else(|error| panic!("{error}\n{}", self.out));
        documents.into_iter().map(|document| document.value).collect()
    }

    /// stdout, line by line.
    pub fn lines(&self) -> Vec<&str> {
        self.out.lines().collect()
    }
}

/// The program with its arguments, and nothing of the environment that matters to it.
pub fn command<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rukpakctl"));
    command.args(arguments).stdin(Stdio::null()).env("DOCKER_CONFIG", "/nonexistent").env_remove("HTTPS_PROXY");
    command
}

/// Runs the program.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Answer {
    Answer::of(command(arguments))
}

/// A folder of files that goes with the test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// Writes these files.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("the test can do this");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("the test can do this")).expect("the test can do this");
            fs::write(path, text).expect("the test can do this");
        }
        Self(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path in it, as an argument.
    pub fn join(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("the test can do this").to_owned()
    }
}

/// The registry+v1 bundle that the renderer's own tests use: webhooks, a conversion, metadata.
pub fn kite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../registry/tests/fixtures/kite")
}

/// A plain+v0 bundle.
pub fn plain() -> Folder {
    let config =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: ns}\ndata: {answer: \"yes\", mode: '0755'}\n";
    let list = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"b","namespace":"ns"}}]}"#;
    Folder::of(&[("manifests/a.yaml", config), ("manifests/b.json", list), ("README.md", "not looked at")])
}

/// How an archive is packed.
#[derive(Clone, Copy, Debug)]
pub enum Packed {
    /// Not at all.
    Not,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// An archive of a folder, as `tar -C <folder> .` makes it.
pub fn archive(folder: &Path, packed: Packed) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(".", folder).expect("the test can do this");
    pack(&builder.into_inner().expect("the test can do this"), packed)
}

/// Compresses.
pub fn pack(plain: &[u8], packed: Packed) -> Vec<u8> {
    match packed {
        Packed::Not => plain.to_vec(),
        Packed::Zstd => zstd::encode_all(plain, 3).expect("the test can do this"),
        Packed::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(plain).expect("the test can do this");
            encoder.finish().expect("the test can do this")
        }
    }
}
