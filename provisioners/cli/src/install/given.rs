//! What the argument of `install` names: something on this machine, or where the cluster finds the bundle.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rukpak_crds::BundleSource;
use rukpak_crds::source::{Authorization, GitRef, GitSource, HttpSource, ImageSource, LocalObjectReference};

use crate::args::GitArgs;
use crate::failure::Failure;
use crate::source::is_path;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// A folder or archive of this machine.
    Local(PathBuf),
    Remote(Box<BundleSource>),
}

/// Reads the flags. A path that exists wins.
pub(crate) fn read(source: &OsStr, git: &GitArgs, secret: Option<&str>) -> Result<Given, Failure> {
    let path = Path::new(source);
    if path.exists() {
        for (flag, is_set) in [("--secret", secret.is_some()), ("--tag, --branch and --commit", git.is_set())] {
            if is_set {
                return Err(useless(flag, &path.display().to_string(), "is on this machine"));
            }
        }
        return Ok(Given::Local(path.to_owned()));
    }
    let Some(text) = source.to_str().filter(|text| !is_path(text) || text.contains("://")) else {
        return Err(Failure::unknown(format!("{}: no such file or folder", path.display())));
    };
    remote(text, git, secret).map(|source| Given::Remote(Box::new(source)))
}

fn remote(text: &str, git: &GitArgs, secret: Option<&str>) -> Result<BundleSource, Failure> {
    let auth = secret.map(|name| Authorization {
        secret: Some(LocalObjectReference { name: Some(name.to_owned()) }),
        ..Authorization::default()
    });
    if is_repository(text, git) {
        let git = repository(text, git, auth)?;
        return Ok(BundleSource { type_: "git".to_owned(), git: Some(git), ..BundleSource::default() });
    }
    if git.is_set() {
        return Err(useless("--tag, --branch, --commit and --directory", text, "is no git repository"));
    }
    if text.starts_with("https://") || text.starts_with("http://") {
        let http = HttpSource { url: text.to_owned(), auth };
        return Ok(BundleSource { type_: "http".to_owned(), http: Some(http), ..BundleSource::default() });
    }
    if let Some((scheme, _)) = text.split_once("://") {
        let text = format!("{text}: nothing is fetched by {scheme}");
        return Err(Failure::unknown(text).hint("rukpakctl install --help"));
    }
    let image = ImageSource { reference: text.to_owned(), pull_secret: secret.map(str::to_owned) };
    Ok(BundleSource { type_: "image".to_owned(), image: Some(image), ..BundleSource::default() })
}

/// A URL of the web is that of a repository if it ends like one, or a flag says so; else of an archive.
fn is_repository(text: &str, git: &GitArgs) -> bool {
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    let is_scp = !text.contains("://") && text.split_once(':').is_some_and(|(host, _)| host.contains('@'));
    let is_named_git = Path::new(text).extension().is_some_and(|ending| ending == "git");
    text.starts_with("ssh://") || is_scp || (is_web && (is_named_git || git.is_set()))
}

fn repository(text: &str, git: &GitArgs, auth: Option<Authorization>) -> Result<GitSource, Failure> {
    let reference = GitRef { branch: git.branch.clone(), tag: git.tag.clone(), commit: git.commit.clone() };
    if reference == GitRef::default() {
        let text = format!("{text}: it is not said what to take of the repository");
        return Err(Failure::unknown(text).hint("add --tag TAG, --branch BRANCH or --commit COMMIT"));
    }
    Ok(GitSource { repository: text.to_owned(), directory: git.directory.clone(), reference, auth })
}

fn useless(flag: &str, source: &str, why: &str) -> Failure {
    Failure::unknown(format!("{flag} cannot be used: {source} {why}")).hint("rukpakctl install --help")
}

impl GitArgs {
    fn is_set(&self) -> bool {
        [&self.tag, &self.branch, &self.commit, &self.directory].into_iter().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tag(tag: &str) -> GitArgs {
        GitArgs { tag: Some(tag.to_owned()), ..GitArgs::default() }
    }

    fn shown(text: &str, git: &GitArgs, secret: Option<&str>) -> Value {
        serde_json::to_value(remote(text, git, secret).unwrap()).unwrap()
    }

    #[test]
    fn images_repositories_and_archives_are_told_apart() {
        let none = GitArgs::default();
        let image = json!({"type": "image", "image": {"ref": "example.com/pump:v1", "pullSecret": "s"}});
        assert_eq!(shown("example.com/pump:v1", &none, Some("s")), image);
        assert_eq!(shown("localhost:5000/a@sha256:00", &none, None)["type"], "image");
        let http =
            json!({"type": "http", "http": {"url": "https://example.com/pump.tgz", "auth": {"secret": {"name": "s"}}}});
        assert_eq!(shown("https://example.com/pump.tgz", &none, Some("s")), http);
        for repository in ["https://example.com/pump.git", "https://example.com/pump", "ssh://git@h/p", "git@h:p/q.git"]
        {
            let git = json!({"type": "git", "git": {"repository": repository, "ref": {"tag": "v1"}}});
            assert_eq!(shown(repository, &tag("v1"), None), git);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_way_on() {
        let none = GitArgs::default();
        let refused = |text: &str, git: &GitArgs| remote(text, git, None).unwrap_err();
        let unsaid = refused("https://example.com/pump.git", &none);
        assert_eq!(unsaid.text, "https://example.com/pump.git: it is not said what to take of the repository");
        assert_eq!(unsaid.hint.as_deref(), Some("add --tag TAG, --branch BRANCH or --commit COMMIT"));
        let image = refused("example.com/pump:v1", &tag("v1"));
        assert_eq!(
            image.text,
            "--tag, --branch, --commit and --directory cannot be used: example.com/pump:v1 is no git repository"
        );
        assert_eq!(
            refused("ftp://example.com/a.tgz", &none).text,
            "ftp://example.com/a.tgz: nothing is fetched by ftp"
        );
    }
}
