//! The bundle for an OLM v1 extension: which of several catalogs, and which version. Pure.
//!
//! Unlike [`choose`](crate::choose) and [`graph`](crate::graph), which follow OLM before v1: here all channels count alike, heads have
//! no meaning, the highest successor wins, and catalogs have priorities. The order of steps and the messages are operator-controller's.

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::version::Constraint;
use crate::{Bundle, Channel, Package, Version};

/// What a catalog has of the package.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Name of the catalog.
    pub catalog: &'a str,
    /// The highest wins.
    pub priority: i32,
    /// The package.
    pub package: &'a Package,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Name of the package.
    pub package: &'a str,
    /// Versions that will do.
    pub version: Option<&'a Constraint>,
    /// Channels that will do; all, if there are none.
    pub channels: &'a [String],
    /// What is to be upgraded.
    pub installed: Option<Installed<'a>>,
    /// Whether any version may take the place of what is installed.
    pub is_self_certified: bool,
    /// Whether dependencies are somebody else's business (additive).
    pub ignores_dependencies: bool,
}

/// What is installed.
#[derive(Clone, Copy, Debug)]
pub struct Installed<'a> {
    /// Name of the bundle.
    pub name: &'a str,
    /// Its version as the catalog wrote it.
    pub version: &'a str,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved<'a> {
    /// Name of the catalog.
    pub catalog: &'a str,
    /// The package in it.
    pub package: &'a Package,
    /// The bundle.
    pub bundle: &'a Bundle,
}

/// Why nothing was found. The words are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No bundle will do.
    #[error("{upgrading}no bundles found for package {package:?}{asked}")]
    NotFound {
        /// Empty, or what is to be upgraded.
        upgrading: String,
        /// The package.
        package: String,
        /// Empty, or what was asked for besides.
        asked: String,
    },
    /// Several catalogs have one, and none goes before the others.
    #[error(
        "{upgrading}found bundles for package {package:?}{asked} in multiple catalogs with the same priority [{}]",
        .catalogs.join(" ")
    )]
    Tie {
        /// Empty, or what is to be upgraded.
        upgrading: String,
        /// The package.
        package: String,
        /// Empty, or what was asked for besides.
        asked: String,
        /// The catalogs. Sorted.
        catalogs: Vec<String>,
    },
    /// What was found needs others.
    #[error(
        "validating bundle {bundle:?}: bundle {bundle:?} has a dependency declared via property {property:?} which is currently not \
         supported"
    )]
    Dependency {
        /// The bundle.
        bundle: String,
        /// Type of the property.
        property: &'static str,
    },
}

/// Finds the bundle.
///
/// # Errors
/// Why there is none.
pub fn resolve<'a>(offers: &[Offer<'a>], request: Request<'_>) -> Result<Resolved<'a>, Error> {
    let candidates: Vec<(Offer<'a>, &'a Bundle)> =
        offers.iter().filter_map(|offer| Some((*offer, candidate(offer.package, request)?))).collect();
    // One that is not deprecated goes before one that is, whatever the priorities.
    let any_good = candidates.iter().any(|(_, bundle)| !is_deprecated(bundle));
    let in_question = || candidates.iter().filter(|(_, bundle)| !any_good || !is_deprecated(bundle));
    let highest = in_question().map(|(offer, _)| offer.priority).max();
    let best: Vec<_> = in_question().filter(|(offer, _)| Some(offer.priority) == highest).collect();
    match best.as_slice() {
        [(offer, bundle)] => {
            check(bundle, request)?;
            Ok(Resolved { catalog: offer.catalog, package: offer.package, bundle })
        }
        [] => Err(Error::NotFound {
            upgrading: upgrading(request),
            package: request.package.to_owned(),
            asked: asked(request),
        }),
        several => {
            let mut catalogs: Vec<String> = several.iter().map(|(offer, _)| offer.catalog.to_owned()).collect();
            catalogs.sort();
            Err(Error::Tie {
                upgrading: upgrading(request),
                package: request.package.to_owned(),
                asked: asked(request),
                catalogs,
            })
        }
    }
}

/// The best bundle of one catalog: one that is not deprecated, then the highest version.
fn candidate<'a>(package: &'a Package, request: Request<'_>) -> Option<&'a Bundle> {
    let considered = Considered::new(package, request);
    let fitting = package.bundles.values().filter(|bundle| considered.fits(bundle));
    fitting.max_by(|one, other| {
        is_deprecated(other)
            .cmp(&is_deprecated(one))
            .then_with(|| order(one, other))
            .then_with(|| one.name.cmp(&other.name))
    })
}

fn order(one: &Bundle, other: &Bundle) -> Ordering {
    one.version.cmp(&other.version)
}

fn is_deprecated(bundle: &Bundle) -> bool {
    bundle.deprecation.as_ref().is_some_and(|message| !message.is_empty())
}

/// A package as far as a request looks at it.
struct Considered<'a> {
    request: Request<'a>,
    /// Bundles of the channels that are asked for; `None`: all.
    in_channels: Option<HashSet<&'a str>>,
    /// Bundles that may take the place of what is installed; `None`: all.
    successors: Option<HashSet<&'a str>>,
    installed: Option<Version>,
}

impl<'a> Considered<'a> {
    fn new(package: &'a Package, request: Request<'a>) -> Self {
        // Edges of other channels are not seen either.
        let is_asked = |channel: &&Channel| request.channels.is_empty() || request.channels.contains(&channel.name);
        let channels: Vec<&Channel> = package.channels.values().filter(is_asked).collect();
        let entries = || channels.iter().flat_map(|channel| &channel.entries);
        let in_channels = (!request.channels.is_empty()).then(|| entries().map(|entry| entry.name.as_str()).collect());
        let installed = request.installed.and_then(|installed| Version::parse(installed.version).ok());
        let successors = request.installed.filter(|_| !request.is_self_certified).map(|from| {
            let leads_on = |entry: &&crate::Entry| {
                entry.replaces.as_deref() == Some(from.name)
                    || entry.skips.iter().any(|skipped| skipped == from.name)
                    || entry
                        .skipped_versions()
                        .zip(installed.as_ref())
                        .is_some_and(|(range, from)| range.contains(from))
            };
            entries().filter(leads_on).map(|entry| entry.name.as_str()).collect()
        });
        Self { request, in_channels, successors, installed }
    }

    /// Whether the bundle will do: it has an image, is in a channel and in the range that are asked for, and an edge leads to it from what
    /// is installed, unless it is that already.
    fn fits(&self, bundle: &Bundle) -> bool {
        let name = bundle.name.as_str();
        let in_range = |range: &Constraint| bundle.version.as_ref().is_some_and(|version| range.contains(version));
        // The same version is no upgrade, whatever its name.
        let is_same = || match (&bundle.version, &self.installed) {
            (Some(version), Some(installed)) => bundle.version_text == self.installed_text() || version == installed,
            _ => false,
        };
        bundle.image.is_some()
            && self.in_channels.as_ref().is_none_or(|names| names.contains(name))
            && self.request.version.is_none_or(in_range)
            && (self.successors.as_ref().is_none_or(|names| names.contains(name)) || is_same())
    }

    fn installed_text(&self) -> &str {
        self.request.installed.map_or("", |installed| installed.version)
    }
}

fn check(bundle: &Bundle, request: Request<'_>) -> Result<(), Error> {
    if request.ignores_dependencies {
        return Ok(());
    }
    let facts = &bundle.facts;
    let property = match () {
        () if !facts.requires_packages.is_empty() => "olm.package.required",
        () if !facts.requires.is_empty() => "olm.gvk.required",
        () if !facts.constraints.is_empty() => "olm.constraint",
        () => return Ok(()),
    };
    Err(Error::Dependency { bundle: bundle.name.clone(), property })
}

fn upgrading(request: Request<'_>) -> String {
    let from =
        request.installed.map(|from| format!("error upgrading from currently installed version {:?}: ", from.version));
    from.unwrap_or_default()
}

fn asked(request: Request<'_>) -> String {
    let version = request.version.map(|range| format!(" matching version {:?}", range.as_str())).unwrap_or_default();
    let channels = if request.channels.is_empty() {
        String::new()
    } else {
        format!(" in channels [{}]", request.channels.join(" "))
    };
    version + &channels
}
