//! What has to be installed together with a bundle, from the same catalog.

use rukpak_catalog::choose::Choice;
use rukpak_catalog::model::Facts;
use rukpak_catalog::{Catalog, Package};
use rukpak_resolver::{CatalogName, Fact, Need, Request, Step, World, explain, resolve};
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

/// Resolves the dependencies of the chosen bundle, of which its catalog states `facts`. `None` if it has none.
pub(super) fn of(catalog: &Catalog, package: &Package, choice: &Choice<'_>, facts: &Facts) -> Option<Dependencies> {
    if facts.requires.is_empty() && facts.requires_packages.is_empty() && facts.constraints.is_empty() {
        return None;
    }
    let name = &choice.bundle.name;
    let (catalog, left_out) = rukpak_resolver::Catalog::of(CatalogName::default(), 0, catalog);
    if let Some(problem) = left_out.get(name) {
        return Some(Dependencies { unmet: Some(problem.clone()), ..Dependencies::default() });
    }

    let request = Request {
        name: name.clone(),
        package: package.name.clone(),
        channel: choice.channel.map(str::to_owned),
        starting: Some(name.clone()),
        ..Request::default()
    };
    let answer = resolve(&World { catalogs: vec![catalog], ..World::default() }, &[request]);
    let needed = answer.steps.into_iter().filter(|step| step.requests.is_empty());
    let install: Vec<Dependency> = needed.map(Dependency::of).collect();
    let unmet = answer.refusals.into_iter().next().map(|refusal| {
        // That this one bundle is asked for is known.
        let facts = refusal.facts.into_iter().filter(|fact| !matches!(fact, Fact::Accepts { .. }));
        explain(&facts.collect::<Vec<_>>())
    });
    (unmet.is_some() || !install.is_empty()).then_some(Dependencies { install, unmet })
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

#[cfg(test)]
mod tests {
    use rukpak_catalog::choose::described;
    use rukpak_catalog::read;
    use rukpak_content::Limits;
    use serde_json::{Value, json};

    use super::*;

    /// The lines about `p.v1` of package `p`, whose channel has these entries, and which has these properties.
    fn lines(entries: &Value, properties: &[Value]) -> Option<Vec<String>> {
        let mut all = vec![json!({"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}})];
        all.extend_from_slice(properties);
        let documents = [
            json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}),
            json!({"schema": "olm.channel", "package": "p", "name": "c", "entries": entries}),
            json!({"schema": "olm.bundle", "package": "p", "name": "p.v1", "image": "r.example/p:v1", "properties": all}),
        ];
        let text = documents.map(|document| document.to_string()).join("\n");
        let catalog = read::catalog_of_stream("test", &mut text.as_bytes(), &Limits::default()).unwrap();
        let package = &catalog.packages["p"];
        let choice = described(package, "p.v1", Some("c")).unwrap();
        of(&catalog, package, &choice, &choice.bundle.facts).map(|found| found.lines())
    }

    #[test]
    fn explains_what_no_bundle_meets() {
        let required =
            json!({"type": "olm.package.required", "value": {"packageName": "q", "versionRange": ">=1.0.0"}});
        assert_eq!(
            lines(&json!([{"name": "p.v1"}]), &[required]).unwrap(),
            [
                "not met by this catalog: p.v1 (package p, channel c) needs a bundle with package: q and with version in range: >=1.0.0, \
              and there is none."
            ]
        );
    }

    #[test]
    fn says_which_requirement_cannot_be_read() {
        let constraint = json!({"type": "olm.constraint", "value": {"cel": {"rule": "nothing("}}});
        let line = lines(&json!([{"name": "p.v1"}]), &[constraint]).unwrap().concat();
        assert!(line.contains("convert olm.constraint") && line.contains("nothing("), "{line}");
    }

    #[test]
    fn says_nothing_of_a_bundle_that_requires_nothing() {
        let without_order = json!([{"name": "p.v1"}, {"name": "p.v2"}]);
        assert_eq!(lines(&without_order, &[]), None);
    }

    #[test]
    fn finds_dependencies_though_the_channel_has_no_order() {
        let without_order = json!([{"name": "p.v1"}, {"name": "p.v2"}]);
        let own = json!({"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}});
        let required = json!({"type": "olm.gvk.required", "value": {"group": "g", "version": "v1", "kind": "L"}});
        let line = lines(&without_order, &[own, required]).unwrap().concat();
        assert!(line.contains("providing an API with group: g, version: v1, kind: L"), "{line}");
    }
}
