//! What has to be installed together with a bundle, from the same catalog.

use rukpak_catalog::choose::Choice;
use rukpak_catalog::{Catalog, Package};
use rukpak_resolver::{CatalogName, Need, Request, Step, World, resolve};
use serde::Serialize;

/// The bundles that a bundle depends on, or why the catalog has no set of them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Dependencies {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    install: Vec<Dependency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unmet: Option<String>,
}

/// A bundle that something needs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Dependency {
    package: String,
    channel: String,
    bundle: String,
    version: String,
    needed_by: Vec<Reason>,
}

#[derive(Debug, Serialize)]
struct Reason {
    bundle: String,
    /// The constraint, in OLM's words.
    constraint: String,
}

/// Resolves the dependencies of the chosen bundle. `None` if it has none.
pub(super) fn of(catalog: &Catalog, package: &Package, choice: &Choice<'_>) -> Option<Dependencies> {
    let (catalog, _) = rukpak_resolver::Catalog::of(CatalogName::default(), 0, catalog);
    let world = World { catalogs: vec![catalog], ..World::default() };
    let request = Request {
        name: package.name.clone(),
        package: package.name.clone(),
        channel: choice.channel.map(str::to_owned),
        starting: Some(choice.bundle.name.clone()),
        ..Request::default()
    };
    let answer = resolve(&world, &[request]);
    let needed = answer.steps.into_iter().filter(|step| step.requests.is_empty());
    let found = Dependencies {
        install: needed.map(Dependency::of).collect(),
        unmet: answer.refusals.first().map(rukpak_resolver::Refusal::explanation),
    };
    (found.unmet.is_some() || !found.install.is_empty()).then_some(found)
}

impl Dependency {
    fn of(step: Step) -> Self {
        let reason = |Need { bundle, what }| Reason { bundle, constraint: what };
        Self {
            package: step.bundle.package,
            channel: step.bundle.channel,
            bundle: step.bundle.name,
            version: step.bundle.version,
            needed_by: step.needed_by.into_iter().map(reason).collect(),
        }
    }
}

impl Dependencies {
    /// A line for each bundle and who needs it, or the explanation.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |dependency: &Dependency| {
            let Dependency { package, channel, bundle, needed_by, .. } = dependency;
            let reasons =
                needed_by.iter().map(|Reason { bundle, constraint }| format!("required by {bundle} ({constraint})"));
            format!("{bundle} (package {package}, channel {channel}): {}", reasons.collect::<Vec<_>>().join("; "))
        };
        let unmet = self.unmet.iter().map(|unmet| format!("not met by this catalog: {unmet}"));
        self.install.iter().map(line).chain(unmet).collect()
    }
}
