//! Why each bundle of a package is chosen or not: by the very steps that choose it. Pure.

use super::considered::Considered;
use super::{Error, Offer, Request, Resolved, best, candidate, check, is_deprecated, order, resolve};
use crate::{Bundle, Package};

/// What came of a resolution, and all that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation<'a> {
    /// Every bundle of every offer: offers in their order, in each the highest version first.
    pub candidates: Vec<Candidate<'a>>,
    /// What [`resolve`] says.
    pub outcome: Result<Resolved<'a>, Error>,
}

/// A bundle that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Name of the catalog.
    pub catalog: &'a str,
    /// Of the catalog.
    pub priority: i32,
    /// The bundle.
    pub bundle: &'a Bundle,
    /// Names of the channels that hold it. Sorted.
    pub channels: Vec<&'a str>,
    /// Why it is not chosen; `None` for the one that is.
    pub reason: Option<Reason>,
}

/// Why a bundle is not chosen: the first step of the resolution that it does not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Its manifests lie in the catalog.
    #[error("it has no image")]
    NoImage,
    /// No channel that is asked for holds it.
    #[error("it is in none of the channels that are asked for")]
    Channel,
    /// Its version is not asked for.
    #[error("its version is not in the range that is asked for")]
    Range,
    /// It is no successor of what is installed.
    #[error("no upgrade leads to it from {from}, which is installed")]
    NoUpgrade {
        /// Name of the installed bundle.
        from: String,
    },
    /// Something that is not deprecated will do as well.
    #[error("it is deprecated, and {instead} is not")]
    Deprecated {
        /// Name of the other.
        instead: String,
    },
    /// Its catalog has a higher version that will do.
    #[error("{than} is higher")]
    Lower {
        /// Name of the other.
        than: String,
    },
    /// A catalog of higher priority has one that will do.
    #[error("catalog {catalog} has a higher priority, {priority}")]
    Priority {
        /// The other catalog.
        catalog: String,
        /// Its priority.
        priority: i32,
    },
    /// Catalogs of the same priority each have one that will do.
    #[error("catalogs {} have the same priority: give one of them another, or choose by spec.source.catalog.selector", .catalogs.join(" and "))]
    Tie {
        /// All of them. Sorted.
        catalogs: Vec<String>,
    },
    /// It needs others, which are not installed with it.
    #[error("it has a dependency (property {property}), and what it depends on is not installed with it")]
    Dependency {
        /// Type of the property.
        property: &'static str,
    },
}

/// Resolves as [`resolve`] does, and says of every bundle why it is not the one.
pub fn explain<'a>(offers: &[Offer<'a>], request: Request<'_>) -> Explanation<'a> {
    let best = best(offers, request);
    let candidates = offers.iter().flat_map(|offer| looked_at(*offer, request, &best)).collect();
    Explanation { candidates, outcome: resolve(offers, request) }
}

fn looked_at<'a>(offer: Offer<'a>, request: Request<'_>, best: &[(Offer<'a>, &'a Bundle)]) -> Vec<Candidate<'a>> {
    let considered = Considered::new(offer.package, request);
    let of_catalog = candidate(offer.package, request);
    let mut bundles: Vec<&Bundle> = offer.package.bundles.values().collect();
    bundles.sort_by(|one, other| order(other, one).then_with(|| other.name.cmp(&one.name)));
    let looked = bundles.into_iter().map(|bundle| {
        let behind = || behind(bundle, of_catalog.unwrap_or(bundle));
        let reason = considered.obstacle(bundle).or_else(behind).or_else(|| beaten(offer, bundle, request, best));
        let channels = channels(offer.package, &bundle.name);
        Candidate { catalog: offer.catalog, priority: offer.priority, bundle, channels, reason }
    });
    looked.collect()
}

/// Why another of the same catalog goes before one that will do.
fn behind(bundle: &Bundle, best: &Bundle) -> Option<Reason> {
    if bundle.name == best.name {
        return None;
    }
    if is_deprecated(bundle) && !is_deprecated(best) {
        return Some(Reason::Deprecated { instead: best.name.clone() });
    }
    Some(Reason::Lower { than: best.name.clone() })
}

/// Why the best of a catalog is not the one.
fn beaten(offer: Offer<'_>, bundle: &Bundle, request: Request<'_>, best: &[(Offer<'_>, &Bundle)]) -> Option<Reason> {
    let (first, winner) = best.first()?;
    if !best.iter().any(|(other, _)| other.catalog == offer.catalog) {
        return Some(if is_deprecated(bundle) && !is_deprecated(winner) {
            Reason::Deprecated { instead: winner.name.clone() }
        } else {
            Reason::Priority { catalog: first.catalog.to_owned(), priority: first.priority }
        });
    }
    if best.len() > 1 {
        let mut catalogs: Vec<String> = best.iter().map(|(offer, _)| offer.catalog.to_owned()).collect();
        catalogs.sort();
        return Some(Reason::Tie { catalogs });
    }
    match check(bundle, request) {
        Err(Error::Dependency { property, .. }) => Some(Reason::Dependency { property }),
        _ => None,
    }
}

fn channels<'a>(package: &'a Package, bundle: &str) -> Vec<&'a str> {
    package.channels_of(bundle).map(|channel| channel.name.as_str()).collect()
}
