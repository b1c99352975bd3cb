//! What the ClusterCatalogs have of a package, and which bundle that makes. Memory; after a restart the disk.

use std::sync::Arc;

use kube::ResourceExt;
use rukpak_catalog::Catalog;
use rukpak_catalog::resolve::{self, Installed, Offer, Request};
use rukpak_catalog::version::Constraint;
use rukpak_crds::olm::ClusterCatalog;
use rukpak_crds::olm::cluster_catalog::AvailabilityMode;
use rukpak_crds::olm::cluster_extension::{CatalogFilter, UpgradeConstraintPolicy};
use rukpak_crds::olm::selection::BadSelector;

use super::Context;
use super::decide::{Deprecations, Resolution};
use super::installed::Identity;
use crate::cluster_catalog::content::{content, progress};
use crate::image;

/// A catalog that is asked.
struct Asked {
    name: String,
    priority: i32,
    catalog: Arc<Catalog>,
}

/// Finds the bundle that is to be installed.
pub(super) async fn resolve(
    filter: &CatalogFilter,
    installed: Option<&Identity>,
    ignores_dependencies: bool,
    context: &Context,
) -> Resolution {
    let failed = |message: String, has_catalog| Resolution::Failed { message, has_catalog };
    let range = match filter.version.as_deref().filter(|text| !text.is_empty()).map(Constraint::parse).transpose() {
        Ok(range) => range,
        Err(error) => {
            let text = filter.version.as_deref().unwrap_or_default();
            return failed(format!("desired version range {text:?} is invalid: {error}"), true);
        }
    };
    let selected = match selected(filter, context) {
        Ok(selected) => selected,
        Err(error) => return failed(error.to_string(), true),
    };
    let has_catalog = !selected.is_empty();
    let mut asked = Vec::new();
    for catalog in selected.iter().filter(|catalog| catalog.spec.availability_mode == AvailabilityMode::Available) {
        let name = catalog.name_any();
        match content(catalog, &context.content).await {
            Ok(known) => asked.push(Asked { name, priority: catalog.spec.priority, catalog: known }),
            // What is installed must not depend on who answers today.
            Err(error) => {
                let package = &filter.package_name;
                let message = format!(
                    "error walking catalogs: error getting package {package:?} from catalog {name:?}: {error}{}; to do without it, \
                     leave it out by spec.source.catalog.selector, or set its spec.availabilityMode to Unavailable",
                    progress(catalog)
                );
                return failed(message, true);
            }
        }
    }
    let request = Request {
        package: &filter.package_name,
        version: range.as_ref(),
        channels: &filter.channels,
        installed: installed.map(|installed| Installed {
            name: &installed.name,
            version: &installed.version,
            release: installed.release.as_deref(),
        }),
        is_self_certified: filter.upgrade_constraint_policy == UpgradeConstraintPolicy::SelfCertified,
        ignores_dependencies,
    };
    found(&asked, request, context.requires_digests).unwrap_or_else(|message| failed(message, has_catalog))
}

/// The bundle that the catalogs make of the request; or why none may be installed, in words.
fn found(asked: &[Asked], request: Request<'_>, requires_digests: bool) -> Result<Resolution, String> {
    let offers: Vec<Offer<'_>> = asked
        .iter()
        .filter_map(|asked| {
            let package = asked.catalog.packages.get(request.package)?;
            Some(Offer { catalog: &asked.name, priority: asked.priority, package })
        })
        .collect();
    let resolved = resolve::resolve(&offers, request).map_err(|error| error.to_string())?;
    let (bundle, image) = (&resolved.bundle.name, resolved.bundle.image.as_deref());
    if requires_digests {
        image::require_digest(resolved.catalog, bundle, image).map_err(|error| error.to_string())?;
    }

    let bundle = Identity {
        package: request.package.to_owned(),
        name: resolved.bundle.name.clone(),
        version: resolved.bundle.version_text.clone(),
        reference: resolved.bundle.image.clone().unwrap_or_default(),
        release: resolved.bundle.version.as_ref().and_then(|version| version.release()).map(str::to_owned),
    };
    let said = |message: &Option<String>| message.clone().filter(|message| !message.is_empty());
    let package = resolved.package;
    let channels = package.channels.values();
    let bundles = package.bundles.values();
    let data = Deprecations {
        package: said(&package.deprecation),
        channels: channels.filter_map(|one| Some((one.name.clone(), said(&one.deprecation)?))).collect(),
        bundles: bundles.filter_map(|one| Some((one.name.clone(), said(&one.deprecation)?))).collect(),
    };
    Ok(Resolution::Found { bundle, data })
}

/// The ClusterCatalogs that the selector chooses, by name.
fn selected(filter: &CatalogFilter, context: &Context) -> Result<Vec<Arc<ClusterCatalog>>, BadSelector> {
    let selector = filter.selector()?;
    let mut selected = context.catalogs.state();
    selected.retain(|catalog| selector.chooses(catalog));
    selected.sort_by_key(|catalog| catalog.name_any());
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use rukpak_catalog::model::{Bundle, Channel, Entry, Package};

    use super::*;

    /// One catalog with one bundle of the package `p`, whose image is named so.
    fn catalog(image: &str) -> Vec<Asked> {
        let bundle = Bundle {
            name: "p.v1".to_owned(),
            image: Some(image.to_owned()),
            version: "1.0.0".parse().ok(),
            version_text: "1.0.0".to_owned(),
            ..Bundle::default()
        };
        let entries = vec![Entry { name: "p.v1".to_owned(), ..Entry::default() }];
        let channel = Channel { name: "stable".to_owned(), entries, ..Channel::default() };
        let package = Package {
            name: "p".to_owned(),
            channels: [("stable".to_owned(), channel)].into(),
            bundles: [("p.v1".to_owned(), bundle)].into(),
            ..Package::default()
        };
        let catalog = Arc::new(Catalog { packages: [("p".to_owned(), package)].into() });
        vec![Asked { name: "c".to_owned(), priority: 0, catalog }]
    }

    #[test]
    fn an_image_by_tag_is_no_choice_where_digests_are_required() {
        let request = Request {
            package: "p",
            version: None,
            channels: &[],
            installed: None,
            is_self_certified: false,
            ignores_dependencies: false,
        };
        let tag = catalog("r.example/p:v1");
        assert!(matches!(found(&tag, request, false), Ok(Resolution::Found { .. })));
        let refusal = found(&tag, request, true).unwrap_err();
        assert!(refusal.contains("the catalog c names its image by a tag") && refusal.contains("p.v1"), "{refusal}");
        let pinned = catalog(&format!("r.example/p@sha256:{}", "0".repeat(64)));
        assert!(matches!(found(&pinned, request, true), Ok(Resolution::Found { .. })));
    }
}
