//! Where the graph leads from what is installed: each channel by itself, because a PlatformOperator follows one.

use std::collections::{BTreeMap, HashSet};

use rukpak_catalog::choose::Request;
use rukpak_catalog::graph::{self, Installed};
use rukpak_catalog::{Bundle, Package, Version, registry};
use serde::Serialize;

use super::refusal;
use crate::args::ShowArgs;
use crate::catalog::open::Opened;
use crate::output::to_stderr;

pub(super) struct Start {
    name: String,
    version: Option<Version>,
}

/// Where the graph leads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Upgrades {
    from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_version: Option<String>,
    /// The one that was asked for, else those that hold the bundle or lead on from it. The one that is followed comes first.
    channels: Vec<Way>,
}

/// The upgrades along one channel.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Way {
    channel: String,
    /// Whether a PlatformOperator that installed the bundle follows it: with this request, as far as the catalog tells.
    followed: bool,
    /// In order. If one is refused, it is the last.
    steps: Vec<Step>,
    #[serde(skip)]
    is_default: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    bundle: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
}

impl Start {
    /// A bundle of the catalog by its name, or by its version; else one that is gone. A name comes before a version.
    pub(super) fn new(package: &Package, text: &str, given: Option<&Version>) -> Result<Self, String> {
        if let Some(bundle) = package.bundles.get(text) {
            return Ok(Self { name: text.to_owned(), version: given.cloned().or_else(|| bundle.version.clone()) });
        }
        let gone = |version| Self { name: text.to_owned(), version };
        let (None, Ok(version)) = (given, Version::parse(text)) else { return Ok(gone(given.cloned())) };
        let has_it = |bundle: &&Bundle| bundle.version.as_ref().is_some_and(|of| of.semver() == version.semver());
        let found: Vec<&Bundle> = package.bundles.values().filter(has_it).collect();
        match found[..] {
            [] => Ok(gone(Some(version))),
            [bundle] => Ok(Self { name: bundle.name.clone(), version: bundle.version.clone() }),
            _ => {
                let names: Vec<&str> = found.iter().map(|bundle| bundle.name.as_str()).collect();
                Err(format!(
                    "--from {text}: several bundles of package {:?} have this version, so name one of them: {}",
                    package.name,
                    names.join(", ")
                ))
            }
        }
    }

    fn installed(&self) -> Installed<'_> {
        Installed { name: &self.name, version: self.version.as_ref() }
    }

    /// What keeps edges from being found.
    fn note(&self, package: &Package) {
        if self.version.is_none() {
            to_stderr(&format!(
                "note: {} is not in the catalog, or has no version there: give its version by --from-version, else \
                 skipRange counts for nothing",
                self.name
            ));
        } else if !package.bundles.contains_key(&self.name) && Version::parse(&self.name).is_ok() {
            to_stderr(&format!(
                "note: the catalog has no bundle of version {}: only skipRange can lead on from there; give its name by --from \
                 and its version by --from-version for the other edges",
                self.name
            ));
        }
    }
}

/// The steps that `upgradePolicy: Automatic` takes, one after the other. It stops before a bundle that is refused.
pub(super) async fn of(
    opened: &Opened,
    package: &Package,
    arguments: &ShowArgs,
    request: &Request,
    from: Start,
) -> Result<Upgrades, registry::Error> {
    from.note(package);
    let followed = graph::followed(package, &from.name, request).map(|channel| channel.name.as_str());
    let mut refusals = BTreeMap::new();
    let mut channels = Vec::new();
    for channel in channels_of(package, request, &from, followed) {
        let mut steps = Vec::new();
        for name in graph::upgrade_path(package, from.installed(), &within(request, channel)) {
            let Some(bundle) = package.bundles.get(&name) else { continue };
            if !refusals.contains_key(&name) {
                // A running catalog is asked once for each bundle.
                let facts = opened.facts(package, bundle, Some(channel)).await?;
                refusals.insert(name.clone(), refusal(&Bundle { facts, ..bundle.clone() }, arguments));
            }
            let refusal = refusals.get(&name).cloned().flatten();
            let is_last = refusal.is_some();
            steps.push(Step { bundle: name, version: bundle.version_text.clone(), refusal });
            if is_last {
                break;
            }
        }
        let is_default = package.default_channel.as_deref() == Some(channel);
        channels.push(Way { channel: channel.to_owned(), followed: followed == Some(channel), steps, is_default });
    }
    let from_version = from.version.as_ref().map(ToString::to_string);
    Ok(Upgrades { from: from.name, from_version, channels })
}

fn within(request: &Request, channel: &str) -> Request {
    Request { channel: Some(channel.to_owned()), ..request.clone() }
}

/// The channels to tell of, the one that is followed first.
fn channels_of<'a>(package: &'a Package, request: &Request, from: &Start, followed: Option<&'a str>) -> Vec<&'a str> {
    if request.channel.is_some() {
        return followed.into_iter().collect();
    }
    let holding: HashSet<&str> = package.channels_of(&from.name).map(|channel| channel.name.as_str()).collect();
    let matters = |name: &&str| {
        followed == Some(*name)
            || holding.contains(name)
            || graph::successor(package, from.installed(), &within(request, name)).is_some()
    };
    let mut names: Vec<&str> = package.channels.keys().map(String::as_str).filter(matters).collect();
    names.sort_by_key(|name| Some(*name) != followed);
    names
}

impl Upgrades {
    pub(super) fn lines(&self) -> Vec<String> {
        if self.channels.is_empty() {
            return vec![format!("none from {}: no channel holds it or leads on from it", self.from)];
        }
        self.channels.iter().flat_map(|way| way.lines(&self.from)).collect()
    }
}

impl Way {
    fn lines(&self, from: &str) -> Vec<String> {
        let name = format!("{}{}", self.channel, if self.is_default { " (default)" } else { "" });
        if self.steps.is_empty() {
            return vec![format!("{name}: none from {from}")];
        }
        let taken = self.steps.iter().filter(|step| step.refusal.is_none()).map(|step| step.bundle.as_str());
        let path: Vec<&str> = std::iter::once(from).chain(taken).collect();
        let last = path.last().copied().unwrap_or(from);
        let stop = self.steps.iter().filter_map(|step| {
            Some(format!("{name}: it stops at {last}, before {}: {}", step.bundle, step.refusal.as_ref()?))
        });
        let way = (path.len() > 1).then(|| format!("{name}: {}", path.join(" -> ")));
        way.into_iter().chain(stop).collect()
    }
}
