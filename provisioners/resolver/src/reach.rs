//! Which packages can matter to a bundle: those that it may depend on, and so on. A catalog has a thousand others.

use std::collections::{BTreeMap, BTreeSet};

use rukpak_catalog::model::{self, Gvk};
use serde_json::Value;

use crate::Constraint;

/// The packages of `catalogs` that a resolution for `bundle` can look at; `None` if that may be any, because a constraint names
/// neither a package nor an API. Pure.
///
/// It is enough to give a resolution these: no constraint that it comes to is met by a bundle of another one. Packages of installed
/// bundles are not among them for that alone, as these stay.
pub fn reach(bundle: &model::Bundle, catalogs: &[&rukpak_catalog::Catalog]) -> Option<BTreeSet<String>> {
    let providers = providers(catalogs);
    let (mut reached, mut open) = (BTreeSet::new(), demands(&bundle.facts)?);
    while let Some(demand) = open.pop() {
        let packages: Vec<&str> = match &demand {
            Demand::Package(name) => vec![name.as_str()],
            Demand::Gvk(gvk) => providers.get(gvk).into_iter().flatten().copied().collect(),
        };
        for package in packages {
            if !reached.insert(package.to_owned()) {
                continue;
            }
            for found in catalogs.iter().filter_map(|catalog| catalog.packages.get(package)) {
                for bundle in found.bundles.values() {
                    open.extend(demands(&bundle.facts)?);
                }
            }
        }
    }
    Some(reached)
}

/// Something that bundles can be looked up by.
enum Demand {
    Package(String),
    Gvk(Gvk),
}

/// The packages that provide each API in some version.
fn providers<'a>(catalogs: &[&'a rukpak_catalog::Catalog]) -> BTreeMap<&'a Gvk, BTreeSet<&'a str>> {
    let mut providers: BTreeMap<&Gvk, BTreeSet<&str>> = BTreeMap::new();
    for package in catalogs.iter().flat_map(|catalog| catalog.packages.values()) {
        for gvk in package.bundles.values().flat_map(|bundle| &bundle.facts.provides) {
            providers.entry(gvk).or_default().insert(&package.name);
        }
    }
    providers
}

fn demands(facts: &model::Facts) -> Option<Vec<Demand>> {
    let packages = facts.requires_packages.iter().map(|required| Demand::Package(required.name.clone()));
    let mut demands: Vec<Demand> = packages.chain(facts.requires.iter().cloned().map(Demand::Gvk)).collect();
    for text in &facts.constraints {
        // A bundle whose constraint cannot be read is never chosen.
        let Ok(constraint) = serde_json::from_str(text).map_err(drop).and_then(|value: Value| read(&value)) else {
            continue;
        };
        demands.extend(named(&constraint)?);
    }
    Some(demands)
}

fn read(value: &Value) -> Result<Constraint, ()> {
    Constraint::read(value).map_err(drop)
}

/// What a bundle that meets the constraint can be looked up by; `None` if by nothing.
fn named(constraint: &Constraint) -> Option<Vec<Demand>> {
    match constraint {
        Constraint::Package { name, .. } => Some(vec![Demand::Package(name.clone())]),
        Constraint::Gvk(gvk) => Some(vec![Demand::Gvk(gvk.clone())]),
        Constraint::All(members) => members.iter().find_map(named),
        Constraint::Any(members) => {
            let each: Option<Vec<Vec<Demand>>> = members.iter().map(named).collect();
            each.map(|each| each.into_iter().flatten().collect())
        }
        Constraint::Label(_) | Constraint::Cel { .. } | Constraint::Not(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use rukpak_catalog::Catalog;
    use rukpak_catalog::model::{Bundle, Facts, Package, RequiredPackage};

    use super::*;

    fn bundle(name: &str, needs: &[&str], constraints: &[&str]) -> Bundle {
        let required = |name: &&str| RequiredPackage { name: (*name).to_owned(), range: ">=1.0.0".to_owned() };
        let requires_packages = needs.iter().map(required).collect();
        let constraints = constraints.iter().map(|text| (*text).to_owned()).collect();
        Bundle {
            name: name.to_owned(),
            facts: Facts { requires_packages, constraints, ..Facts::default() },
            ..Bundle::default()
        }
    }

    #[test]
    fn reaches_what_is_needed_by_what_is_needed_and_nothing_else() {
        let mut catalog = Catalog::default();
        let springs = r#"{"any":{"constraints":[{"package":{"packageName":"rain","versionRange":">=1.0.0"}},{"gvk":{"group":"g","version":"v1","kind":"K"}}]}}"#;
        for one in
            [bundle("wells", &["springs"], &[]), bundle("springs", &[], &[springs]), bundle("other", &["sea"], &[])]
        {
            let package = Package {
                name: one.name.clone(),
                bundles: [(one.name.clone(), one.clone())].into(),
                ..Package::default()
            };
            catalog.packages.insert(one.name.clone(), package);
        }
        let mut provider = bundle("cloud", &[], &[]);
        provider.facts.provides = vec![Gvk { group: "g".to_owned(), version: "v1".to_owned(), kind: "K".to_owned() }];
        let package = Package {
            name: "cloud".to_owned(),
            bundles: [("cloud".to_owned(), provider)].into(),
            ..Package::default()
        };
        catalog.packages.insert("cloud".to_owned(), package);

        let reached = reach(&bundle("p", &["wells"], &[]), &[&catalog]).expect("all of it is named");
        assert_eq!(reached.into_iter().collect::<Vec<_>>(), ["cloud", "rain", "springs", "wells"]);
        let rule = r#"{"cel":{"rule":"true"}}"#;
        assert_eq!(reach(&bundle("p", &[], &[rule]), &[&catalog]), None, "any bundle may meet it");
    }
}
