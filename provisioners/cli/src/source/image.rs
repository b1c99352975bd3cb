//! An image in a registry.

use rukpak_content::Limits;
use rukpak_source::Stage;

use super::Error;
use crate::args::{SourceArgs, TrustArgs};
use crate::registries::Registries;

/// Pulls an image. Returns its reference by digest, and its files.
pub(super) async fn stage(name: &str, arguments: &SourceArgs, limits: Limits) -> Result<(String, Stage), Error> {
    pull(name, &arguments.trust, limits).await.map_err(|error| match error {
        Error::Pull(source) => Error::Image { name: name.to_owned(), source },
        error => error,
    })
}

/// The same of what can be nothing but an image.
pub(super) async fn pull(name: &str, trust: &TrustArgs, limits: Limits) -> Result<(String, Stage), Error> {
    let failed = |source| Error::Pull(Box::new(source));
    let mut registries = Registries::new(trust, limits)?;
    registries.log_in_for(name).await;
    let (puller, credentials) = (&registries.puller, registries.credentials());
    let image = puller.resolve(name, credentials).await.inspect_err(|_| registries.note_helpers()).map_err(failed)?;
    let stage = puller.fetch(&image, credentials).await.map_err(failed)?;
    Ok((image.reference(), stage))
}
