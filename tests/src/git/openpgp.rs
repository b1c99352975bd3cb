//! Whoever signs commits and tags with a key of gpg.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::GitSigner;
use crate::tools;

/// A key of OpenPGP that gpg made, in a keyring of its own.
pub struct OpenPgpSigner {
    /// Runs gpg with that keyring, at the time that it takes for now.
    gpg: PathBuf,
    /// What commits are signed with: a fingerprint.
    key: String,
    folder: tempfile::TempDir,
}

impl OpenPgpSigner {
    /// A new key: `ed25519`, `nistp256`, `rsa2048`. It does not expire.
    pub fn new(algorithm: &str) -> Result<Self> {
        Self::made(None, &[algorithm, "sign", "never"])
    }

    /// A key that expired a day after it was made, years ago, and signs as if that were now.
    pub fn expired() -> Result<Self> {
        Self::made(Some("20240101T000000"), &["ed25519", "sign", "1d"])
    }

    /// A key that certifies only, and a subkey that signs.
    pub fn with_subkey() -> Result<Self> {
        let mut signer = Self::made(None, &["rsa2048", "cert", "never"])?;
        signer.run(&["--quick-add-key", &signer.key, "ed25519", "sign", "never"])?;
        signer.key = signer.fingerprints()?.pop().context("gpg lists no subkey")? + "!";
        Ok(signer)
    }

    fn made(time: Option<&str>, kind: &[&str]) -> Result<Self> {
        let folder = tools::temp_folder("gpg")?;
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).context("close the keyring")?;
        let gpg = folder.path().join("gpg.sh");
        script(&gpg, folder.path(), time)?;
        let mut signer = Self { gpg, key: String::new(), folder };
        signer.run(&[&["--quick-gen-key", "Somebody <somebody@example.com>"], kind].concat())?;
        signer.key = signer.fingerprints()?.into_iter().next().context("gpg lists no key")?;
        Ok(signer)
    }

    /// The certificate as it is now, for those who verify.
    pub fn public_key(&self) -> Result<String> {
        self.run(&["--armor", "--export"])
    }

    /// A signature to lie beside a file with this content: `--armor` or not.
    pub fn detached(&self, content: &[u8], options: &[&str]) -> Result<Vec<u8>> {
        let (file, signature) = (self.folder.path().join("content"), self.folder.path().join("signature"));
        std::fs::write(&file, content).context("write what is to be signed")?;
        let paths = [signature.display().to_string(), file.display().to_string()];
        let arguments = ["--yes", "--local-user", &self.key, "--output", &paths[0]];
        self.run(&[options, &arguments[..], &["--detach-sign", &paths[1]]].concat())?;
        std::fs::read(&signature).context("read the signature")
    }

    /// Revokes the key, with the certificate that gpg made beside it.
    pub fn revoke(&self) -> Result<()> {
        let file = self.folder.path().join("openpgp-revocs.d").join(format!("{}.rev", self.key));
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        // A colon before the first line keeps it from being taken for one by mistake.
        std::fs::write(&file, text.replace(":-----", "-----")).context("write the revocation")?;
        self.run(&["--import", &file.display().to_string()]).map(|_| ())
    }

    /// Those of the primary key and of the subkeys.
    fn fingerprints(&self) -> Result<Vec<String>> {
        let listing = self.run(&["--with-colons", "--list-keys"])?;
        let lines = listing.lines().filter(|line| line.starts_with("fpr:"));
        Ok(lines.filter_map(|line| line.split(':').nth(9).map(str::to_owned)).collect())
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        // Not by its name: it was written a moment ago, and another thread that forked then may still have it open.
        let output = Command::new("/bin/sh").arg(&self.gpg).args(arguments).output().context("run gpg")?;
        if !output.status.success() {
            bail!("gpg {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        String::from_utf8(output.stdout).context("read what gpg printed")
    }
}

impl GitSigner for OpenPgpSigner {
    fn configuration(&self) -> Vec<String> {
        let program = format!("gpg.program={}", self.gpg.display());
        vec!["gpg.format=openpgp".to_owned(), program, format!("user.signingkey={}", self.key)]
    }
}

impl Drop for OpenPgpSigner {
    /// gpg leaves an agent running.
    fn drop(&mut self) {
        let Ok(program) = tools::system_program("gpgconf") else { return };
        let _ = Command::new(program).arg("--homedir").arg(self.folder.path()).args(["--kill", "gpg-agent"]).status();
    }
}

/// A program that git can be told to sign with.
fn script(file: &Path, home: &Path, time: Option<&str>) -> Result<()> {
    let gpg = tools::system_program("gpg")?;
    let time = time.map_or_else(String::new, |time| format!("--faked-system-time {time}!"));
    let options = format!("--quiet --batch --no-tty --pinentry-mode loopback --passphrase '' {time}");
    let text = format!("#!/bin/sh\nexec {} --homedir {} {options} \"$@\"\n", gpg.display(), home.display());
    std::fs::write(file, text).context("write a script")?;
    std::fs::set_permissions(file, Permissions::from_mode(0o755)).context("make a script executable")
}
