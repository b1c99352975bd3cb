//! What a resolution answers: steps, and requests that cannot be met with the fewest facts that exclude them.

use std::collections::BTreeSet;
use std::fmt;

use rukpak_catalog::model::Gvk;

use crate::Request;
use crate::world::CatalogName;

/// The answer to all requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What has to be installed, by name of the bundle. Empty if everything stays as it is.
    pub steps: Vec<Step>,
    /// Requests that cannot be met. They hold back no others; what is installed for them stays.
    pub refusals: Vec<Refusal>,
    /// Needs of installed bundles that cannot be met, each with the facts that exclude it. They are taken as they are.
    pub broken: Vec<Vec<Fact>>,
    /// Channels that were left out because they have no order. Sorted.
    pub remarks: Vec<String>,
}

/// A bundle to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The bundle.
    pub bundle: BundleId,
    /// The installed bundle that it takes the place of; for a first installation what the catalog says.
    pub replaces: Option<String>,
    /// Names of the requests that it meets. Empty for a dependency.
    pub requests: Vec<String>,
    /// What needs it.
    pub needed_by: Vec<Need>,
}

/// Why a dependency is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The bundle that has the constraint.
    pub bundle: String,
    /// The constraint, in upstream's words: `with package: b and with version in range: >=1.0.0`.
    pub what: String,
}

/// A sentence: `a.v1 needs a bundle with package: b and with version in range: >=1.0.0`.
impl fmt::Display for Need {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} needs a bundle {}", self.bundle, self.what)
    }
}

/// Which bundle is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BundleId {
    /// The catalog; `None` for what is installed.
    pub catalog: Option<CatalogName>,
    /// The namespace of what is installed.
    pub namespace: String,
    /// The package; empty if it is not known.
    pub package: String,
    /// The channel; empty for what is installed.
    pub channel: String,
    /// The bundle.
    pub name: String,
    /// Its version; empty if it has none.
    pub version: String,
}

/// Upstream's identifier: `<catalog>/<namespace>/<channel>/<bundle>`.
impl fmt::Display for BundleId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { catalog, namespace, channel, name, .. } = self;
        match catalog {
            Some(catalog) => write!(formatter, "{}/{}/{channel}/{name}", catalog.name, catalog.namespace),
            None => write!(formatter, "@existing/{namespace}//{name}"),
        }
    }
}

/// What was looked for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The catalog holds nothing, or is none of those that can be seen.
    Catalog,
    /// No package of that name.
    Package,
    /// No channel of that name, or nothing in it.
    Channel,
    /// No bundle of the name to begin with.
    Name,
    /// No version in the range.
    Version,
    /// The channel has no order: upstream's words.
    Order(String),
}

/// Something that holds, and that excludes a request together with other facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Somebody asks for it.
    Asked {
        /// The request.
        request: String,
    },
    /// Only these bundles meet the request.
    Accepts {
        /// The request.
        request: String,
        /// The preferred one first.
        candidates: Vec<BundleId>,
    },
    /// No bundle meets the request.
    NotFound {
        /// The request.
        request: Box<Request>,
        /// What there is not.
        missing: Missing,
    },
    /// A bundle is installed that no request speaks of, or whose request cannot be met: it stays.
    Stays {
        /// The bundle.
        bundle: BundleId,
    },
    /// A bundle has a constraint.
    Needs {
        /// The bundle.
        bundle: BundleId,
        /// The constraint, in upstream's words.
        what: String,
        /// Bundles that meet it, the preferred one first.
        candidates: Vec<BundleId>,
    },
    /// A package is installed once.
    OnePerPackage {
        /// The package.
        package: String,
        /// Its bundles.
        bundles: Vec<BundleId>,
    },
    /// An API has one provider.
    OneProvider {
        /// The API.
        api: Gvk,
        /// Its providers.
        bundles: Vec<BundleId>,
    },
    /// The bundle has the property `olm.deprecated`.
    Prohibited {
        /// The bundle.
        bundle: BundleId,
    },
    /// A bundle and the one that it replaces exclude each other.
    Replaces {
        /// The new one.
        bundle: BundleId,
        /// The installed one.
        installed: BundleId,
    },
}

/// Requests that cannot be met, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Their names, sorted.
    pub requests: Vec<String>,
    /// Without any one of these facts the requests could be met.
    pub facts: Vec<Fact>,
}

impl Refusal {
    /// As OLM v0 says it in conditions, which clients match.
    pub fn message(&self) -> String {
        let without_order = |fact: &Fact| match fact {
            Fact::NotFound { missing: Missing::Order(problem), .. } => Some(problem.clone()),
            _ => None,
        };
        if let Some(problem) = self.facts.iter().find_map(without_order) {
            return problem; // no matter of constraints: upstream stops before it makes any
        }
        let texts: BTreeSet<String> = self.facts.iter().flat_map(Fact::constraints).collect();
        format!("constraints not satisfiable: {}", texts.into_iter().collect::<Vec<_>>().join(", "))
    }

    /// In sentences.
    pub fn explanation(&self) -> String {
        explain(&self.facts)
    }
}

/// Facts that exclude each other, in sentences.
pub fn explain(facts: &[Fact]) -> String {
    facts.iter().filter_map(Fact::sentence).collect::<Vec<_>>().join(" ")
}

impl Fact {
    /// The texts of OLM v0's constraints that the fact stands for.
    pub fn constraints(&self) -> Vec<String> {
        match self {
            Self::Asked { request } => vec![format!("subscription {request} exists")],
            Self::Accepts { request, candidates } => {
                let least = if candidates.len() > 1 { "at least one of " } else { "" };
                vec![format!("subscription {request} requires {least}{}", listed(candidates, "or"))]
            }
            Self::NotFound { request, missing } => vec![not_found(request, missing)],
            Self::Stays { bundle } => {
                vec![format!("clusterserviceversion {} exists and is not referenced by a subscription", bundle.name)]
            }
            Self::Needs { bundle, what, .. } => vec![format!("bundle {} requires an operator {what}", bundle.name)],
            Self::OnePerPackage { package, bundles } => vec![
                format!("there can be only one operator from package {package}"),
                format!("{} originate from package {package}", listed(bundles, "and")),
            ],
            Self::OneProvider { api: Gvk { group, version, kind }, bundles } => vec![
                format!("there can be only one provider of {kind} ({group}/{version})"),
                format!("{} provide {kind} ({group}/{version})", listed(bundles, "and")),
            ],
            Self::Prohibited { bundle } => vec![format!("bundle {bundle} is deprecated")],
            Self::Replaces { bundle, installed } => vec![format!("{bundle} conflicts with {installed}")],
        }
    }

    /// The fact as a sentence for people; `None` for what another one says already.
    pub fn sentence(&self) -> Option<String> {
        Some(match self {
            Self::Asked { .. } => return None,
            Self::Accepts { request, candidates } => {
                format!("{request:?} can be met by {} alone.", named(candidates, "or"))
            }
            Self::NotFound { request, missing } => {
                format!("{:?} cannot be met: {}.", request.name, missed(request, missing))
            }
            Self::Stays { bundle } => format!("{} is installed and stays.", bundle.described()),
            Self::Needs { bundle, what, candidates } if candidates.is_empty() => {
                format!("{} needs a bundle {what}, and there is none.", bundle.described())
            }
            Self::Needs { bundle, what, candidates } => {
                format!("{} needs a bundle {what}: {}.", bundle.described(), named(candidates, "or"))
            }
            Self::OnePerPackage { package, bundles } => {
                format!("Package {package:?} can be installed once: {}.", named(bundles, "or"))
            }
            Self::OneProvider { api: Gvk { group, version, kind }, bundles } => {
                format!("The API {kind} ({group}/{version}) can have one provider: {}.", named(bundles, "or"))
            }
            Self::Prohibited { bundle } => {
                format!("{} may not be installed: it is marked as deprecated.", bundle.described())
            }
            Self::Replaces { bundle, installed } => {
                format!("{} takes the place of {}.", bundle.described(), installed.described())
            }
        })
    }
}

impl BundleId {
    /// For people: `pump.v1.2.0 (package pump, channel stable of catalog community)`.
    pub fn described(&self) -> String {
        match &self.catalog {
            Some(catalog) => {
                let of = if catalog.name.is_empty() { String::new() } else { format!(" of catalog {}", catalog.name) };
                let channel =
                    if self.channel.is_empty() { String::new() } else { format!(", channel {}", self.channel) };
                format!("{} (package {}{channel}{of})", self.name, self.package)
            }
            None => format!("{} (installed)", self.name),
        }
    }
}

/// How many bundles a sentence names.
const MAX_NAMED: usize = 5;

fn named(bundles: &[BundleId], word: &str) -> String {
    let names: Vec<String> = bundles.iter().take(MAX_NAMED).map(BundleId::described).collect();
    match bundles.len().checked_sub(MAX_NAMED) {
        Some(more) if more > 0 => format!("{} or {more} more", names.join(", ")),
        _ => enumerated(&names, word),
    }
}

fn listed(bundles: &[BundleId], word: &str) -> String {
    enumerated(&bundles.iter().map(ToString::to_string).collect::<Vec<_>>(), word)
}

/// `a, b and c`.
fn enumerated(names: &[String], word: &str) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} {word} {last}", most.join(", ")),
    }
}

fn not_found(request: &Request, missing: &Missing) -> String {
    let Request { name, package, channel, starting, catalog, range, .. } = request;
    let channel = channel.as_deref().unwrap_or_default();
    let end = format!("of package {package} in the catalog referenced by subscription {name}");
    match missing {
        Missing::Catalog => {
            let catalog = catalog.clone().unwrap_or_default();
            format!(
                "no operators found from catalog {} in namespace {} referenced by subscription {name}",
                catalog.name, catalog.namespace
            )
        }
        Missing::Package => {
            format!("no operators found in package {package} in the catalog referenced by subscription {name}")
        }
        Missing::Channel => format!("no operators found in channel {channel} {end}"),
        Missing::Name => {
            let starting = starting.as_deref().unwrap_or_default();
            format!("no operators found with name {starting} in channel {channel} {end}")
        }
        Missing::Version => {
            let range = range.as_ref().map_or("", |range| range.as_str());
            format!("no operators found with version in range {range} in channel {channel} {end}")
        }
        Missing::Order(problem) => problem.clone(),
    }
}

fn missed(request: &Request, missing: &Missing) -> String {
    let Request { package, channel, starting, catalog, range, .. } = request;
    match missing {
        Missing::Catalog => match catalog {
            Some(catalog) => format!("catalog {:?} offers nothing", catalog.name),
            None => "no catalog offers anything".to_owned(),
        },
        Missing::Package => format!("no catalog offers package {package:?}"),
        Missing::Channel => {
            format!("package {package:?} has nothing in channel {:?}", channel.as_deref().unwrap_or_default())
        }
        Missing::Name => format!("package {package:?} has no bundle {:?}", starting.as_deref().unwrap_or_default()),
        Missing::Version => {
            let range = range.as_ref().map_or("", |range| range.as_str());
            format!("package {package:?} has no version in the range {range:?}")
        }
        Missing::Order(problem) => problem.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_five_bundles_and_counts_the_others() {
        let named = |count: usize| {
            let bundle = |number: usize| BundleId { name: format!("b{number}"), ..BundleId::default() };
            named(&(0..count).map(bundle).collect::<Vec<_>>(), "or")
        };
        assert_eq!(named(1), "b0 (installed)");
        assert_eq!(named(2), "b0 (installed) or b1 (installed)");
        assert!(named(5).ends_with("b3 (installed) or b4 (installed)"), "{}", named(5));
        assert!(named(7).ends_with("b3 (installed), b4 (installed) or 2 more"), "{}", named(7));
    }
}
