//! Makes repositories, with commits whose ids are the same on each run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};

use super::GitSigner;

/// Seconds of the first commit: the first second of 2024.
const FIRST_COMMIT_SECONDS: u64 = 1_704_067_200;

/// A bare repository to be served, with a working tree beside it.
pub struct RepoBuilder {
    bare: PathBuf,
    tree: PathBuf,
    home: PathBuf,
    commits: AtomicU64,
}

impl RepoBuilder {
    /// An empty repository `<name>.git` in `root`, which a server of this module serves. Branch `main`.
    pub fn new(root: &Path, name: &str) -> Result<Self> {
        let bare = root.join(format!("{name}.git"));
        let home = root.join(format!(".{}-home", name.replace('/', "-")));
        let tree = home.join("tree");
        std::fs::create_dir_all(&tree).with_context(|| format!("create {}", tree.display()))?;
        let repository = Self { bare, tree, home, commits: AtomicU64::new(0) };
        let bare = repository.bare.display().to_string();
        repository.git(&["init", "--quiet", "--bare", "--initial-branch=main", &bare])?;
        repository.git(&["init", "--quiet", "--initial-branch=main", "."])?;
        repository.git(&["remote", "add", "origin", &bare])?;
        Ok(repository)
    }

    /// Writes files into the working tree, not yet committed.
    pub fn write<C: AsRef<[u8]>>(&self, files: &[(&str, C)]) -> Result<&Self> {
        for (path, content) in files {
            let path = self.tree.join(path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
            }
            std::fs::write(&path, content.as_ref()).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(self)
    }

    /// Copies a folder into the working tree.
    pub fn copy(&self, from: &Path) -> Result<&Self> {
        copy(from, &self.tree)?;
        Ok(self)
    }

    /// Makes a symbolic link in the working tree.
    pub fn symlink(&self, path: &str, target: &str) -> Result<&Self> {
        std::os::unix::fs::symlink(target, self.tree.join(path)).with_context(|| format!("link {path}"))?;
        Ok(self)
    }

    /// Removes a file or folder from the working tree.
    pub fn remove(&self, path: &str) -> Result<&Self> {
        self.git(&["rm", "--quiet", "-r", "--force", "--", path])?;
        Ok(self)
    }

    /// Commits the working tree on the current branch and pushes; returns the commit.
    pub fn commit(&self, message: &str) -> Result<String> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message])?;
        self.git(&["push", "--quiet", "--force", "origin", "HEAD"])?;
        self.resolve("HEAD")
    }

    /// As [`RepoBuilder::commit`], signed.
    pub fn signed_commit(&self, message: &str, signer: &dyn GitSigner) -> Result<String> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.git(&["add", "--all"])?;
        self.git_signed(signer, &["commit", "--quiet", "--allow-empty", "--gpg-sign", "--message", message])?;
        self.git(&["push", "--quiet", "--force", "origin", "HEAD"])?;
        self.resolve("HEAD")
    }

    /// A signed tag of the current commit, moved if it exists.
    pub fn signed_tag(&self, name: &str, signer: &dyn GitSigner) -> Result<&Self> {
        self.git_signed(signer, &["tag", "--force", "--sign", "--message", name, name])?;
        self.git(&["push", "--quiet", "--force", "origin", &format!("refs/tags/{name}")])?;
        Ok(self)
    }

    /// Puts a commit in place of the current one whose object is that with `from` replaced, its signature included, and pushes.
    pub fn forge(&self, from: &str, to: &str) -> Result<String> {
        let object = self.git(&["cat-file", "commit", "HEAD"])?;
        let file = self.home.join("forged");
        // A text's last end of line is not in what git gave.
        std::fs::write(&file, object.replacen(from, to, 1) + "\n").context("write a commit")?;
        let forged = self.git(&["hash-object", "-t", "commit", "-w", &file.display().to_string()])?;
        self.git(&["update-ref", "refs/heads/main", &forged])?;
        self.git(&["push", "--quiet", "--force", "origin", "HEAD"])?;
        Ok(forged)
    }

    fn git_signed(&self, signer: &dyn GitSigner, arguments: &[&str]) -> Result<String> {
        let configuration = signer.configuration();
        let configured = configuration.iter().flat_map(|setting| ["-c", setting]);
        let arguments: Vec<_> = configured.chain(arguments.iter().copied()).collect();
        self.git(&arguments)
    }

    /// Switches to a branch, made at the current commit if new.
    pub fn branch(&self, name: &str) -> Result<&Self> {
        if self.git(&["switch", "--quiet", name]).is_err() {
            self.git(&["switch", "--quiet", "--create", name])?;
            self.git(&["push", "--quiet", "origin", "HEAD"])?;
        }
        Ok(self)
    }

    /// A light tag of the current commit, moved if it exists.
    pub fn light_tag(&self, name: &str) -> Result<&Self> {
        self.git(&["tag", "--force", name])?;
        self.git(&["push", "--quiet", "--force", "origin", &format!("refs/tags/{name}")])?;
        Ok(self)
    }

    /// An annotated tag of the current commit, moved if it exists.
    pub fn annotated_tag(&self, name: &str) -> Result<&Self> {
        self.git(&["tag", "--force", "--annotate", "--message", name, name])?;
        self.git(&["push", "--quiet", "--force", "origin", &format!("refs/tags/{name}")])?;
        Ok(self)
    }

    /// Removes a branch from the served repository. Its commits stay, and no ref leads to them.
    pub fn delete_branch(&self, name: &str) -> Result<&Self> {
        self.git(&["push", "--quiet", "origin", "--delete", &format!("refs/heads/{name}")])?;
        Ok(self)
    }

    /// Sets configuration of the served repository, such as `uploadpack.allowAnySHA1InWant`.
    pub fn configure(&self, key: &str, value: &str) -> Result<&Self> {
        self.git(&["--git-dir", &self.bare.display().to_string(), "config", key, value])?;
        Ok(self)
    }

    /// The commit that a revision names.
    pub fn resolve(&self, revision: &str) -> Result<String> {
        self.git(&["rev-parse", "--verify", &format!("{revision}^{{commit}}")])
    }

    /// Runs git in the working tree; returns its output without the line's end.
    pub fn git(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(crate::tools::system_program("git")?);
        super::clean(&mut command, &self.home);
        let date = format!("{} +0000", FIRST_COMMIT_SECONDS + self.commits.load(Ordering::Relaxed));
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Test").env(format!("GIT_{who}_EMAIL"), "test@example.com");
            command.env(format!("GIT_{who}_DATE"), &date);
        }
        command.args(["-c", "core.autocrlf=false", "-c", "gc.auto=0"]).args(arguments);
        let output = command.current_dir(&self.tree).stdin(Stdio::null()).output().context("run git")?;
        if !output.status.success() {
            bail!("git {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout).context("read git's output")?.trim_end().to_owned())
    }

    /// The served repository.
    pub fn path(&self) -> &Path {
        &self.bare
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("list {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target).with_context(|| format!("write {}", target.display()))?;
        }
    }
    Ok(())
}
