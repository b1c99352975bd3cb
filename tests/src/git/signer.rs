//! Whoever signs commits and tags with an ssh key.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tools;

/// Whoever signs commits and tags.
pub trait GitSigner {
    /// Configuration that has git sign so: `name=value`.
    fn configuration(&self) -> Vec<String>;
}

/// A key of ssh that `ssh-keygen` made.
pub struct SshSigner {
    file: PathBuf,
    public: String,
    _folder: tempfile::TempDir,
}

impl SshSigner {
    /// A new key: `ed25519`, `ecdsa` or `rsa`, of so many bits where that is to choose.
    pub fn new(type_: &str, bits: Option<&str>) -> Result<Self> {
        let folder = tools::temp_folder("signer")?;
        let file = folder.path().join("key");
        let mut command = Command::new(tools::system_program("ssh-keygen")?);
        command.args(["-q", "-N", "", "-C", "somebody@example.com", "-t", type_]).arg("-f").arg(&file);
        if let Some(bits) = bits {
            command.args(["-b", bits]);
        }
        let output = command.output().context("run ssh-keygen")?;
        if !output.status.success() {
            bail!("ssh-keygen failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let public = std::fs::read_to_string(file.with_extension("pub")).context("read the public key")?;
        Ok(Self { file, public, _folder: folder })
    }

    /// The line that is given to those who verify.
    pub fn public_key(&self) -> &str {
        &self.public
    }
}

impl GitSigner for SshSigner {
    fn configuration(&self) -> Vec<String> {
        vec!["gpg.format=ssh".to_owned(), format!("user.signingkey={}", self.file.display())]
    }
}
