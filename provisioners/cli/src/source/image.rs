//! An image in a registry.

use rukpak_content::Limits;
use rukpak_source::Stage;
use rukpak_source::image::Error;

use super::is_refusal;
use crate::args::TrustArgs;
use crate::failure::Failure;
use crate::output::chain;
use crate::registries::Registries;

/// Pulls an image. Returns its reference by digest, and its files. `why` stands before what is wrong with it.
pub(super) async fn pull(name: &str, trust: &TrustArgs, why: &str) -> Result<(String, Stage), Failure> {
    let failed = |error: Error| {
        let is_refused = matches!(&error, Error::Layer { source, .. } if is_refusal(source));
        Failure::either(is_refused, format!("{why}{}", chain(&error)))
    };
    let mut registries = Registries::new(trust, Limits::default())?;
    registries.log_in_for(name).await;
    let (puller, credentials) = (&registries.puller, registries.credentials());
    let image = puller.resolve(name, credentials).await.inspect_err(|_| registries.note_helpers()).map_err(failed)?;
    let stage = puller.fetch(&image, credentials).await.map_err(failed)?;
    Ok((image.reference(), stage))
}
