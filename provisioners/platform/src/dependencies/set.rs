//! The packages that have to be installed so that a bundle can be. Pure; the resolver of the crate `rukpak-resolver` chooses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rukpak_catalog::Bundle;
use rukpak_crds::plan::PlannedDependency;
use rukpak_resolver::{Answer, Catalog, CatalogName, Installed, Step, World, reach, resolve};

use super::of_bundle;

/// A bundle that depends on others.
#[derive(Clone, Debug)]
pub(crate) struct Needy {
    /// Its package.
    pub package: String,
    pub bundle: Bundle,
    /// What a status calls the catalog that it is from.
    pub catalog: String,
}

/// A catalog that may be chosen from.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    /// What a status calls it.
    pub name: String,
    pub priority: i32,
    pub content: Arc<rukpak_catalog::Catalog>,
}

/// A package to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub dependency: PlannedDependency,
    /// Whether what it depends on depends on it: neither can be first.
    pub is_in_cycle: bool,
}

/// The packages, by name of the bundle. If there is no such set, the facts that exclude it, in sentences.
pub(crate) fn find(needy: &Needy, installed: Vec<Installed>, offered: &[Offered]) -> Result<Vec<Member>, String> {
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

/// For people: `wells 1.2.0 and springs 2.0.0`.
pub(crate) fn in_words<'a>(members: impl IntoIterator<Item = &'a PlannedDependency>) -> String {
    let called = |one: &PlannedDependency| format!("{} {} (catalog {})", one.package, one.version, one.catalog);
    let names: Vec<String> = members.into_iter().map(called).collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
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
        .map(|step| Member { dependency: dependency(step), is_in_cycle: does_reach_itself(&step.bundle.name, &needs) })
        .collect()
}

fn dependency(step: &Step) -> PlannedDependency {
    let bundle = step.bundle.clone();
    PlannedDependency {
        package: bundle.package,
        version: bundle.version,
        bundle: bundle.name,
        channel: bundle.channel,
        catalog: bundle.catalog.map(|catalog| catalog.name).unwrap_or_default(),
        needed_by: step.needed_by.iter().map(|need| format!("{} needs a bundle {}", need.bundle, need.what)).collect(),
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

    use super::super::tests::bundle_of as bundle;
    use super::*;

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
        let why = "p.v1.0.0 needs a bundle with package: wells and with version in range: >=1.0.0 <2.0.0";
        assert_eq!(found[1].dependency.needed_by, [why]);
        assert!(found.iter().all(|member| !member.is_in_cycle));
        let words = in_words(found.iter().map(|member| &member.dependency));
        assert_eq!(words, "springs 2.1.0 (catalog c) and wells 1.2.0 (catalog c)");
    }

    #[test]
    fn tells_what_excludes_a_set() {
        let (wells, p) = (bundle("wells", "1.2.0", &[]), bundle("p", "1.0.0", &[("wells", ">=2.0.0")]));
        let refused = find(&needy(p), Vec::new(), &offered(&[("wells", &wells)])).unwrap_err();
        let told = "p.v1.0.0 (package p of catalog c) needs a bundle with package: wells and with version in range: \
                    >=2.0.0, and there is none.";
        assert!(refused.contains(told), "{refused}");
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
