//! A bundle from where a cluster would fetch it, fetched from here: with the logins and the network of this machine.

use std::env;
use std::io;

use rukpak_content::{Limits, RelativePath};
use rukpak_crds::BundleSource;
use rukpak_crds::source::{GitSource, HttpSource};
use rukpak_source::git::{self, Reference, Request};
use rukpak_source::{Egress, Stage, http};

use super::{Content, Error, content, image};
use crate::args::TrustArgs;
use crate::registries;

/// The hidden subcommand in which this program reads a repository, as a child of itself. See `rukpak_source::git`.
pub const GIT_CHILD: &str = "git-child";

/// Why a repository or an archive is not to be had. Print the whole chain.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// It takes a login that is in the cluster.
    #[error("{0} needs the login in secret {1:?} of the cluster; fetch it yourself, and name the folder or archive")]
    Login(String, String),
    /// What the source says cannot be used from here.
    #[error("a source of type {0:?} cannot be fetched from here; name its content as a folder or archive")]
    Type(String),
    /// The folder of the repository is none.
    #[error("folder {0:?} of the repository")]
    Folder(String, #[source] rukpak_content::PathError),
    /// This program does not find itself.
    #[error("start a process to read the repository in")]
    Program(#[source] io::Error),
    #[error(transparent)]
    Git(#[from] git::Error),
    #[error(transparent)]
    Http(#[from] http::Error),
}

/// Fetches what a source names now.
pub async fn read(source: &BundleSource, trust: &TrustArgs, limits: &Limits) -> Result<Content, Error> {
    let (from, stage) = match source {
        BundleSource { image: Some(image), .. } => image::pull(&image.reference, trust, limits.clone()).await?,
        BundleSource { git: Some(git), .. } => repository(git, trust, limits).await?,
        BundleSource { http: Some(http), .. } => archive(http, trust, limits).await?,
        other => return Err(RemoteError::Type(other.type_.clone()).into()),
    };
    content(&stage, from, Vec::new(), limits)
}

async fn repository(source: &GitSource, trust: &TrustArgs, limits: &Limits) -> Result<(String, Stage), Error> {
    check_login(&source.repository, source.auth.as_ref().and_then(|auth| auth.secret_name()))?;
    let options = git::FetcherOptions {
        program: env::current_exe().map_err(RemoteError::Program)?,
        arguments: vec![GIT_CHILD.to_owned()],
        limits: limits.clone(),
        stage_dir: env::temp_dir(),
        extra_ca_pem: registries::extra_ca(trust)?,
        egress: Egress::anywhere(),
    };
    let fetcher = git::Fetcher::new(options);
    let resolved = fetcher.resolve(request(source)?).await.map_err(RemoteError::from)?;
    let from = format!("{}@{}", source.repository, resolved.commit().as_str());
    Ok((from, fetcher.fetch(resolved).await.map_err(RemoteError::from)?))
}

fn request(source: &GitSource) -> Result<Request, RemoteError> {
    let reference = &source.reference;
    let branch = reference.branch.clone().map(Reference::Branch);
    let named = branch.or_else(|| reference.tag.clone().map(Reference::Tag));
    let folder = source.directory.as_deref().map(|folder| folder.trim_start_matches("./").trim_end_matches('/'));
    let folder = folder.filter(|folder| !folder.is_empty() && *folder != ".");
    let directory =
        folder.map(|folder| RelativePath::new(folder).map_err(|error| RemoteError::Folder(folder.to_owned(), error)));
    Ok(Request {
        repository: source.repository.clone(),
        reference: named
            .or_else(|| reference.commit.clone().map(Reference::Commit))
            .unwrap_or(Reference::DefaultBranch),
        directory: directory.transpose()?,
        auth: git::Auth::None,
        insecure_skip_verify: false,
        strict_host_keys: false,
    })
}

async fn archive(source: &HttpSource, trust: &TrustArgs, limits: &Limits) -> Result<(String, Stage), Error> {
    check_login(&source.url, source.auth.as_ref().and_then(|auth| auth.secret_name()))?;
    let mut options = http::FetcherOptions::new(env::temp_dir(), limits.clone());
    options.extra_ca_pem = registries::extra_ca(trust)?.map(String::into_bytes).unwrap_or_default();
    options.egress = Egress::anywhere();
    let fetcher = http::Fetcher::new(options).map_err(RemoteError::from)?;
    let request = http::Request::new(&source.url).map_err(RemoteError::from)?;
    let download = fetcher.download(&request).await.map_err(RemoteError::from)?;
    let from = format!("{} ({})", source.url, download.digest());
    Ok((from, fetcher.unpack(download).await.map_err(RemoteError::from)?))
}

/// Secrets of the cluster are for the cluster: they are not read to send them from here.
fn check_login(place: &str, secret: Option<&str>) -> Result<(), RemoteError> {
    match secret {
        Some(secret) => Err(RemoteError::Login(place.to_owned(), secret.to_owned())),
        None => Ok(()),
    }
}
