//! From a release to its objects. Reads the store and renders, off the runtime; then certificates are put in.

use rukpak_crds::names::IGNORE_DEPENDENCIES;
use rukpak_plan::Release;
use rukpak_plan::resolve::Why;

use super::certificates;
use crate::deployment::observe::Run;
use crate::render_memory::{Purpose, Reservation};
use rukpak_format::{self as format, BundleFormat as _, Format, Rendered, Settings};

/// Why a release could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The store does not have the content, or has it damaged: it can be fetched again by the Bundle's pin.
    #[error("the content is not in the store")]
    Lost(#[source] rukpak_store::Error),
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[source] rukpak_store::Error),
    /// The content is not of the format, or does not go with the settings.
    #[error(transparent)]
    Format(Box<format::Error>),
    /// The API server did not say its version.
    #[error("ask for the version of Kubernetes")]
    Kubernetes(#[source] Box<kube::Error>),
    /// The certificates of webhooks could not be read or made.
    #[error(transparent)]
    Certificates(certificates::Error),
    /// The task that loaded it ended without a result.
    #[error("loading was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

/// Loads and verifies the content of `release`, and renders its objects as they are to be applied. They may stay in memory as long
/// as the reservation is kept.
pub(super) async fn load(
    run: &Run,
    release: &Release,
    why: Why,
    purpose: Purpose,
) -> Result<(Rendered, Reservation), Error> {
    let context = &run.context;
    // What is installed is guarded, whatever it depends on.
    let ignores_dependencies = !why.policy().heeds_dependencies
        || run.observed.annotation(IGNORE_DEPENDENCIES).is_some_and(|value| value == "true");
    let kubernetes = match release.format {
        Format::Registry if !ignores_dependencies => Some(kubernetes(run).await?),
        _ => None,
    };
    let reservation = context.render_memory.reserve(&release.content, purpose).await;
    let settings = Settings {
        config: release.config.clone(),
        certificates: context.bundle_certificates,
        ignores_dependencies,
        kubernetes,
    };
    let is_published = run.memory.applied() == Some(release) && run.observed.drifted.is_empty();
    let (store, limits, digest) = (context.store.clone(), context.limits.clone(), release.content.clone());
    let format = release.format;
    let work = move || {
        let tree = store
            .load(&digest, &|path| format.has_part(path), &limits)
            .map_err(|error| if error.mended_by_refill() { Error::Lost(error) } else { Error::Store(error) })?;
        format.render(&tree, &limits, &settings).map_err(|error| Error::Format(Box::new(error)))
    };
    let rendered = tokio::task::spawn_blocking(work).await.map_err(Error::Interrupted)??;
    let reservation = context.render_memory.settle(&release.content, &rendered.objects, reservation);
    let rendered = certificates::put_in(run, rendered, is_published).await.map_err(Error::Certificates)?;
    Ok((rendered, reservation))
}

/// The API server's version. It is asked each time: clusters are upgraded while we run.
async fn kubernetes(run: &Run) -> Result<String, Error> {
    let version = run.context.client.apiserver_version().await;
    version.map(|version| version.git_version).map_err(|error| Error::Kubernetes(Box::new(error)))
}
