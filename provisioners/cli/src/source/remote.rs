//! A bundle from where a cluster would fetch it, fetched from here: with the logins and the network of this machine.

use std::env;

use rukpak_content::{Limits, RelativePath};
use rukpak_crds::BundleSource;
use rukpak_crds::source::{GitSource, HttpSource};
use rukpak_source::git::{self, Reference, Request};
use rukpak_source::{Egress, Stage, http};

use super::{Content, content, pull_image};
use crate::args::TrustArgs;
use crate::failure::Failure;
use crate::output::chain;
use crate::registries;

/// The hidden subcommand in which this program reads a repository, as a child of itself. See `rukpak_source::git`.
pub const GIT_CHILD: &str = "git-child";

/// Why there are no files.
pub enum Error {
    /// The repository or the archive is not to be had from here.
    Unfetched(Failure),
    /// An image is not to be had, what came is no bundle, or a file that a flag names cannot be read.
    Other(Failure),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl From<Error> for Failure {
    fn from((Error::Unfetched(failure) | Error::Other(failure)): Error) -> Self {
        failure
    }
}

/// Fetches what a source names now.
pub async fn read(source: &BundleSource, trust: &TrustArgs) -> Result<Content, Error> {
    let (from, stage) = match source {
        BundleSource { image: Some(image), .. } => pull_image(&image.reference, trust, "").await?,
        BundleSource { git: Some(git), .. } => repository(git, trust).await?,
        BundleSource { http: Some(http), .. } => archive(http, trust).await?,
        BundleSource { type_, .. } => {
            let text = format!(
                "a source of type {type_:?} cannot be fetched from here; name its content as a folder or archive"
            );
            return Err(Error::Unfetched(Failure::unknown(text)));
        }
    };
    Ok(content(&stage, from, Vec::new())?)
}

fn unfetched(error: &dyn std::error::Error) -> Error {
    Error::Unfetched(Failure::unknown(chain(error)))
}

async fn repository(source: &GitSource, trust: &TrustArgs) -> Result<(String, Stage), Error> {
    check_login(&source.repository, source.auth.as_ref().and_then(|auth| auth.secret_name()))?;
    let options = git::FetcherOptions {
        program: env::current_exe()
            .map_err(|error| Error::Unfetched(Failure::during("start a process to read the repository in", &error)))?,
        arguments: vec![GIT_CHILD.to_owned()],
        limits: Limits::default(),
        stage_dir: env::temp_dir(),
        extra_ca_pem: registries::extra_ca(trust)?,
        egress: Egress::anywhere(),
    };
    let fetcher = git::Fetcher::new(options);
    let resolved = fetcher.resolve(request(source)?).await.map_err(|error| unfetched(&error))?;
    let from = format!("{}@{}", source.repository, resolved.commit().as_str());
    Ok((from, fetcher.fetch(resolved).await.map_err(|error| unfetched(&error))?))
}

fn request(source: &GitSource) -> Result<Request, Error> {
    let reference = &source.reference;
    let branch = reference.branch.clone().map(Reference::Branch);
    let named = branch.or_else(|| reference.tag.clone().map(Reference::Tag));
    let folder = source.directory.as_deref().map(|folder| folder.trim_start_matches("./").trim_end_matches('/'));
    let folder = folder.filter(|folder| !folder.is_empty() && *folder != ".");
    let directory = folder.map(|folder| {
        RelativePath::new(folder)
            .map_err(|error| Error::Unfetched(Failure::during(format!("folder {folder:?} of the repository"), &error)))
    });
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

async fn archive(source: &HttpSource, trust: &TrustArgs) -> Result<(String, Stage), Error> {
    check_login(&source.url, source.auth.as_ref().and_then(|auth| auth.secret_name()))?;
    let mut options = http::FetcherOptions::new(env::temp_dir(), Limits::default());
    options.extra_ca_pem = registries::extra_ca(trust)?.map(String::into_bytes).unwrap_or_default();
    options.egress = Egress::anywhere();
    let fetcher = http::Fetcher::new(options).map_err(|error| unfetched(&error))?;
    let request = http::Request::new(&source.url).map_err(|error| unfetched(&error))?;
    let download = fetcher.download(&request).await.map_err(|error| unfetched(&error))?;
    let from = format!("{} ({})", source.url, download.digest());
    Ok((from, fetcher.unpack(download).await.map_err(|error| unfetched(&error))?))
}

/// Secrets of the cluster are for the cluster: they are not read to send them from here.
fn check_login(place: &str, secret: Option<&str>) -> Result<(), Error> {
    let Some(secret) = secret else { return Ok(()) };
    Err(Error::Unfetched(Failure::unknown(format!(
        "{place} needs the login in secret {secret:?} of the cluster; fetch it yourself, and name the folder or archive"
    ))))
}
