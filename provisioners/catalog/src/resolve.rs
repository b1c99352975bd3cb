//! The bundle for an OLM v1 extension: which of several catalogs, and which version. Pure.
//!
//! Unlike [`choose`](crate::choose) and [`graph`](crate::graph), which follow OLM before v1: here all channels count alike, heads have
//! no meaning, the highest successor wins, and catalogs have priorities. The order of steps and the messages are operator-controller's.

mod considered;
mod explain;
mod newer;

use std::cmp::Ordering;

use crate::version::Constraint;
use crate::{Bundle, Package};
use considered::Considered;

pub use explain::{Candidate, Explanation, Reason, explain};
pub use newer::{Needs, Newer, newer};

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
    /// Its release, if it was noted.
    pub release: Option<&'a str>,
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
pub fn resolve<'a>(offers: &[Offer<'a>], request: Request<'_>) -> Result<Resolved<'a>, Error> {
    match best(offers, request).as_slice() {
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

/// The best bundle of each catalog that nothing of another goes before; several, if their catalogs have the same priority.
fn best<'a>(offers: &[Offer<'a>], request: Request<'_>) -> Vec<(Offer<'a>, &'a Bundle)> {
    let mut best: Vec<(Offer<'a>, &'a Bundle)> =
        offers.iter().filter_map(|offer| Some((*offer, candidate(offer.package, request)?))).collect();
    // One that is not deprecated goes before one that is, whatever the priorities.
    let any_good = best.iter().any(|(_, bundle)| !is_deprecated(bundle));
    best.retain(|(_, bundle)| !any_good || !is_deprecated(bundle));
    let highest = best.iter().map(|(offer, _)| offer.priority).max();
    best.retain(|(offer, _)| Some(offer.priority) == highest);
    best
}

/// The best bundle of one catalog: one that is not deprecated, then the highest version.
fn candidate<'a>(package: &'a Package, request: Request<'_>) -> Option<&'a Bundle> {
    let considered = Considered::new(package, request);
    let fitting = package.bundles.values().filter(|bundle| considered.obstacle(bundle).is_none());
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
