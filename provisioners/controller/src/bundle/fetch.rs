//! From a resolved source to a staged tree. Network, and the spool file.

use rukpak_source::Stage;

use super::failure::Failure;
use super::resolve::Resolved;
use crate::context::Context;

/// Brings the tree, over the connection that resolved it where there is one.
pub async fn fetch(resolved: Resolved, context: &Context) -> Result<Stage, Failure> {
    match resolved {
        Resolved::Image { reference, image, credentials } => context
            .images
            .fetch(&image, &credentials)
            .await
            .map_err(|source| Failure::PullImage { reference, source: Box::new(source) }),
        Resolved::Git(resolved) => Ok(context.git.fetch(*resolved).await?),
    }
}
