//! From a resolved source to a staged tree. Network, and the spool file.

use rukpak_source::{Stage, files, upload};
use tokio::task::spawn_blocking;

use super::config_maps;
use super::failure::Failure;
use super::resolve::Resolved;
use crate::context::Context;

/// Brings the tree, over the connection that resolved it where there is one.
#[tracing::instrument(level = "debug", skip_all)]
pub async fn fetch(resolved: Resolved, context: &Context) -> Result<Stage, Failure> {
    match resolved {
        Resolved::Image { reference, image, credentials } => context
            .sources
            .images
            .fetch(&image, &credentials)
            .await
            .map_err(|source| Failure::PullImage { reference, source: Box::new(source) }),
        Resolved::Git(resolved) => Ok(context.sources.git.fetch(*resolved).await?),
        Resolved::Http(download) => Ok(context.sources.http.unpack(*download).await?),
        Resolved::ConfigMaps(sets) => {
            let (stage_dir, limits) = (context.store.stage_dir().to_owned(), context.limits.clone());
            let work = spawn_blocking(move || files::stage(&sets, &stage_dir, &limits));
            let staged = work.await.map_err(Failure::Worker)?;
            staged.map_err(|error| Failure::ConfigMaps(config_maps::Error::Files(error)))
        }
        Resolved::Upload { archive, digest: _ } => {
            Ok(upload::unpack(archive, context.store.stage_dir(), &context.limits).await?)
        }
    }
}
