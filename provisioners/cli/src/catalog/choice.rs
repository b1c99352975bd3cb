//! The bundle of a package that a PlatformOperator would get, for verbs that go on with its image.

use std::fmt;

use rukpak_catalog::choose::{Request, choose};
use rukpak_catalog::{Bundle, check};
use serde::Serialize;

use super::open::Opened;
use super::{missing, package};
use crate::args::CatalogArgs;
use crate::failure::Failure;
use crate::output::{chain, to_stderr};

/// A bundle of a catalog.
#[derive(Debug, Serialize)]
pub(crate) struct Chosen {
    catalog: String,
    package: String,
    bundle: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    /// Its image, as the catalog names it.
    #[serde(skip)]
    pub(crate) image: String,
}

impl fmt::Display for Chosen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { catalog, package, bundle, channel, .. } = self;
        let channel = channel.as_ref().map(|channel| format!(", channel {channel:?}")).unwrap_or_default();
        write!(formatter, "{catalog}: package {package:?}: bundle {bundle:?}{channel}")
    }
}

/// Chooses by the rules of `catalog show`. What would keep it from being installed alone, such as the packages that it depends on, is
/// a warning.
///
/// # Errors
/// There is no such package, no bundle fits, or the bundle has no image.
pub(crate) async fn bundle_of(place: &CatalogArgs, name: &str, request: &Request) -> Result<Chosen, Failure> {
    let opened = Opened::new(place, Some(name)).await?;
    let package = package(&opened, name).map_err(|why| missing(&opened, place, name, &why))?;
    let choice = choose(package, request).map_err(|error| missing(&opened, place, name, &chain(&error)))?;
    let facts = opened.facts(package, choice.bundle, choice.channel).await;
    let facts = facts.map_err(|error| Failure::unknown(chain(&error)))?;
    let bundle = Bundle { facts, ..choice.bundle.clone() };
    if let Err(refusal) = check::check(&bundle) {
        to_stderr(&format!("warning: {refusal}"));
    }
    let Some(image) = bundle.image else {
        let text = format!("{}: bundle {:?} has no image: its manifests lie in the catalog", opened.from, bundle.name);
        return Err(Failure::no(text));
    };
    Ok(Chosen {
        catalog: opened.from.clone(),
        package: name.to_owned(),
        bundle: bundle.name,
        version: bundle.version_text,
        channel: choice.channel.map(str::to_owned),
        image,
    })
}

/// The image of a bundle, by its name. `None` if the catalog has no such bundle, or no image of it.
///
/// # Errors
/// The catalog cannot be read, or has no such package.
pub(crate) async fn image_of(place: &CatalogArgs, name: &str, bundle: &str) -> Result<Option<String>, Failure> {
    let opened = Opened::new(place, Some(name)).await?;
    let package = package(&opened, name).map_err(|why| missing(&opened, place, name, &why))?;
    Ok(package.bundles.get(bundle).and_then(|bundle| bundle.image.clone()))
}
