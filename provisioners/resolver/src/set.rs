//! The packages that have to be installed so that a bundle can be. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rukpak_catalog::Bundle;
use rukpak_crds::plan::PlannedDependency;

use crate::{Answer, Catalog, CatalogName, Entry, Facts, Installed, Package, Request, Step, World, reach, resolve};

/// A bundle that depends on others.
#[derive(Clone, Debug)]
pub struct Needy {
    /// Its package.
    pub package: String,
    /// The bundle.
    pub bundle: Bundle,
    /// What a status calls the catalog that it is from.
    pub catalog: String,
}

/// A catalog that may be chosen from.
#[derive(Clone, Debug)]
pub struct Offered {
    /// What a status calls it.
    pub name: String,
    /// The highest wins.
    pub priority: i32,
    /// What it holds.
    pub content: Arc<rukpak_catalog::Catalog>,
}

/// A package to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its bundle and what needs it, as a Plan says it.
    pub dependency: PlannedDependency,
    /// Whether what it depends on depends on it: neither can be first.
    pub is_in_cycle: bool,
}

/// Returns the packages, by name of the bundle.
///
/// # Errors
/// There is no such set. The facts that exclude it, in sentences.
pub fn find(needy: &Needy, installed: Vec<Installed>, offered: &[Offered]) -> Result<Vec<Member>, String> {
    let contents: Vec<&rukpak_catalog::Catalog> = offered.iter().map(|catalog| &*catalog.content).collect();
    let reached = reach(&needy.bundle, &contents);
    // The bundle itself was chosen before, and there is no other of its package.
    let is_wanted = |name: &str| name != needy.package && reached.as_ref().is_none_or(|reached| reached.contains(name));
    let named = |name: &str| CatalogName { name: name.to_owned(), ..CatalogName::default() };
    let made =
        |catalog: &Offered| Catalog::of_some(named(&catalog.name), catalog.priority, &catalog.content, is_wanted).0;
    let Some((own, request)) = of_bundle(&needy.package, &needy.bundle, named(&needy.catalog)) else {
        return Err(format!("What {} depends on cannot be read.", needy.bundle.name));
    };
    let catalogs = offered.iter().map(made).chain([own]).collect();
    let answer = resolve(&World { catalogs, installed, ..World::default() }, &[request]);
    match answer.refusals.first() {
        Some(refusal) => Err(refusal.explanation()),
        None => Ok(members(&answer)),
    }
}

/// Whether the resolver installs `bundle` beside what is installed, and nothing else with it.
pub fn are_met(package: &str, bundle: &Bundle, installed: Vec<Installed>) -> bool {
    let Some((catalog, request)) = of_bundle(package, bundle, CatalogName::default()) else { return false };
    resolve(&World { catalogs: vec![catalog], installed, ..World::default() }, &[request]).refusals.is_empty()
}

/// A catalog with this bundle alone, and the request for it; `None` if what it requires cannot be read.
fn of_bundle(package: &str, bundle: &Bundle, name: CatalogName) -> Option<(Catalog, Request)> {
    let facts = Facts::of(package, bundle).ok()?;
    let entry = Entry { name: bundle.name.clone(), facts: Arc::new(facts), ..Entry::default() };
    let offered = Package { channels: [(String::new(), vec![entry])].into(), ..Package::default() };
    let packages = [(package.to_owned(), offered)].into();
    let request = Request {
        name: package.to_owned(),
        package: package.to_owned(),
        starting: Some(bundle.name.clone()),
        ..Request::default()
    };
    Some((Catalog { name, packages, ..Catalog::default() }, request))
}

fn members(answer: &Answer) -> Vec<Member> {
    let mut needs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for step in &answer.steps {
        for need in &step.needed_by {
            needs.entry(&need.bundle).or_default().insert(&step.bundle.name);
        }
    }
    let dependencies = answer.steps.iter().filter(|step| step.requests.is_empty());
    dependencies
        .map(|step| Member { dependency: planned(step), is_in_cycle: does_reach_itself(&step.bundle.name, &needs) })
        .collect()
}

fn planned(Step { bundle, needed_by, .. }: &Step) -> PlannedDependency {
    let bundle = bundle.clone();
    PlannedDependency {
        package: bundle.package,
        version: bundle.version,
        bundle: bundle.name,
        channel: bundle.channel,
        catalog: bundle.catalog.map(|catalog| catalog.name).unwrap_or_default(),
        needed_by: needed_by.iter().map(ToString::to_string).collect(),
    }
}

fn does_reach_itself(bundle: &str, needs: &BTreeMap<&str, BTreeSet<&str>>) -> bool {
    let mut open: Vec<&str> = needs.get(bundle).into_iter().flatten().copied().collect();
    let mut seen = BTreeSet::new();
    while let Some(next) = open.pop() {
        if next == bundle {
            return true;
        }
        if seen.insert(next) {
            open.extend(needs.get(next).into_iter().flatten());
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use rukpak_catalog::model::{Channel, Entry, Package};

    use super::*;
    use crate::fixtures::bundle;

    /// A catalog in which each bundle is alone in its package and channel.
    fn offered(bundles: &[(&str, &Bundle)]) -> Vec<Offered> {
        let mut content = rukpak_catalog::Catalog::default();
        for (package, bundle) in bundles {
            let entries = vec![Entry { name: bundle.name.clone(), ..Entry::default() }];
            let channel = Channel { name: "stable".to_owned(), entries, ..Channel::default() };
            let package = Package {
                name: (*package).to_owned(),
                default_channel: Some("stable".to_owned()),
                channels: [("stable".to_owned(), channel)].into(),
                bundles: [(bundle.name.clone(), (*bundle).clone())].into(),
                ..Package::default()
            };
            content.packages.insert(package.name.clone(), package);
        }
        vec![Offered { name: "c".to_owned(), priority: 0, content: Arc::new(content) }]
    }

    fn needy(bundle: Bundle) -> Needy {
        Needy { package: "p".to_owned(), bundle, catalog: "c".to_owned() }
    }

    #[test]
    fn finds_what_is_needed_by_what_is_needed_with_the_reasons() {
        let (wells, springs) = (bundle("wells", "1.2.0", &[("springs", ">=2.0.0")]), bundle("springs", "2.1.0", &[]));
        let p = bundle("p", "1.0.0", &[("wells", ">=1.0.0 <2.0.0")]);
        let offers = offered(&[("wells", &wells), ("springs", &springs), ("p", &p)]);
        let found = find(&needy(p), Vec::new(), &offers).unwrap();
        let shown: Vec<&str> = found.iter().map(|member| member.dependency.bundle.as_str()).collect();
        assert_eq!(shown, ["springs.v2.1.0", "wells.v1.2.0"]);
        let expected = PlannedDependency {
            package: "wells".to_owned(),
            version: "1.2.0".to_owned(),
            bundle: "wells.v1.2.0".to_owned(),
            channel: "stable".to_owned(),
            catalog: "c".to_owned(),
            needed_by: vec![
                "p.v1.0.0 needs a bundle with package: wells and with version in range: >=1.0.0 <2.0.0".to_owned(),
            ],
        };
        assert_eq!(found[1].dependency, expected);
        assert!(found.iter().all(|member| !member.is_in_cycle));
    }

    #[test]
    fn tells_what_excludes_a_set() {
        let (wells, p) = (bundle("wells", "1.2.0", &[]), bundle("p", "1.0.0", &[("wells", ">=2.0.0")]));
        let refused = find(&needy(p), Vec::new(), &offered(&[("wells", &wells)])).unwrap_err();
        let told = "p.v1.0.0 (package p of catalog c) needs a bundle with package: wells and with version in range: \
                    >=2.0.0, and there is none.";
        assert!(refused.contains(told) && refused.contains("\"p\" can be met by p.v1.0.0"), "{refused}");
    }

    #[test]
    fn those_that_go_together_only_are_marked() {
        let (wells, springs) =
            (bundle("wells", "1.2.0", &[("p", ">=1.0.0"), ("springs", ">=1.0.0")]), bundle("springs", "1.0.0", &[]));
        let p = bundle("p", "1.0.0", &[("wells", ">=1.0.0")]);
        let found = find(&needy(p), Vec::new(), &offered(&[("wells", &wells), ("springs", &springs)])).unwrap();
        let marks: Vec<(&str, bool)> =
            found.iter().map(|member| (member.dependency.package.as_str(), member.is_in_cycle)).collect();
        assert_eq!(marks, [("springs", false), ("wells", true)]);
    }
}
