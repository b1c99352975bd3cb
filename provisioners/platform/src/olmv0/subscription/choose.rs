//! Which bundle of the catalog a Subscription leads to. Pure; the solver's words are OLM's.

use std::collections::BTreeSet;

use kube::ResourceExt;
use rukpak_catalog::{Catalog, Package};
use rukpak_crds::olmv0::Subscription;
use rukpak_resolver::{Catalog as Offered, CatalogName, Request, World, resolve};

use crate::dependencies::{Release, installed_as};
use crate::installed::Identity;

/// What comes of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// This bundle is to be installed; packages that it depends on may have been found installed.
    Take { bundle: Identity, has_packages: bool },
    /// What is installed stays.
    Stay,
    /// In words.
    Refused(String),
}

/// What the catalog that a Subscription names has.
#[derive(Clone, Copy)]
pub(super) enum Offer<'a> {
    /// It is not there, or may not be seen.
    NoCatalog,
    /// It has no package of that name.
    NoPackage,
    Package(&'a Package),
}

/// The next bundle for the Subscription, for which `installed` was installed, beside `others`.
pub(super) fn choose(
    subscription: &Subscription,
    package: Offer<'_>,
    installed: Option<&Identity>,
    others: &BTreeSet<Release>,
) -> Choice {
    let spec = &subscription.spec;
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let name = CatalogName { namespace: spec.source_namespace.clone(), name: spec.source.clone() };
    let request = Request {
        name: subscription.name_any(),
        package: spec.name.clone(),
        catalog: Some(name.clone()),
        channel: some(&spec.channel),
        range: None,
        starting: some(&spec.starting_csv),
        installed: installed.map(|installed| installed.name.clone()),
    };
    let (offered, left_out) = match package {
        Offer::NoCatalog => (Offered { name, ..Offered::default() }, None),
        Offer::NoPackage => {
            let packages = [(String::new(), rukpak_resolver::Package::default())].into();
            (Offered { name, packages, ..Offered::default() }, None)
        }
        Offer::Package(package) => offer(name, package),
    };
    // The same package in another namespace is no obstacle.
    let beside = others.iter().filter(|other| other.package != spec.name);
    let beside = beside.filter_map(|it| installed_as(&it.package, &it.bundle, &it.version));
    let own = installed.and_then(|it| installed_as(&it.package, &it.name, &it.version));
    let world = World { catalogs: vec![offered], installed: beside.chain(own).collect(), ..World::default() };
    let answer = resolve(&world, &[request]);
    if let Some(refusal) = answer.refusals.first() {
        let left_out = left_out.map(|why| format!(" Left out: {why}.")).unwrap_or_default();
        let (message, explanation) = (refusal.message(), refusal.explanation());
        // With one fact alone the explanation says nothing else.
        let more = if explanation.contains(&message) { String::new() } else { format!(" {explanation}") };
        return Choice::Refused(format!("{message}.{more}{left_out}"));
    }
    let step = answer.steps.iter().find(|step| !step.requests.is_empty());
    let (Some(step), Offer::Package(package)) = (step, package) else { return Choice::Stay };
    taken(package, &step.bundle.name)
}

/// The package alone, without the APIs that its bundles require: a BundleDeployment waits for them.
fn offer(name: CatalogName, package: &Package) -> (Offered, Option<String>) {
    let mut package = package.clone();
    for bundle in package.bundles.values_mut() {
        bundle.facts.requires.clear();
    }
    let catalog = Catalog { packages: [(package.name.clone(), package)].into() };
    let (offered, left_out) = Offered::of(name, 0, &catalog);
    (offered, left_out.into_iter().next().map(|(bundle, why)| format!("{bundle}: {why}")))
}

fn taken(package: &Package, name: &str) -> Choice {
    let Some(bundle) = package.bundles.get(name) else { return Choice::Stay };
    let Some(reference) = bundle.image.clone().filter(|image| !image.is_empty()) else {
        return Choice::Refused(format!(
            "bundle {name} has no image: its manifests lie in the catalog, and only images can be installed"
        ));
    };
    let has_packages = !bundle.facts.requires_packages.is_empty() || !bundle.facts.constraints.is_empty();
    let bundle = Identity {
        package: package.name.clone(),
        name: bundle.name.clone(),
        version: bundle.version_text.clone(),
        reference,
        release: bundle.version.as_ref().and_then(|version| version.release()).map(str::to_owned),
    };
    Choice::Take { bundle, has_packages }
}

#[cfg(test)]
mod tests {
    use rukpak_catalog::Bundle;
    use rukpak_catalog::model::{Channel, Entry, Gvk, RequiredPackage};
    use serde_json::{Value, json};

    use super::*;
    use crate::dependencies::Dependent;

    /// stable: 1.0.0 -> 1.1.0 -> 1.2.0; fast: 2.0.0, which skips all below.
    fn package() -> Package {
        let mut package =
            Package { name: "p".to_owned(), default_channel: Some("stable".to_owned()), ..Package::default() };
        for (channel, version, replaces) in [
            ("stable", "1.0.0", None),
            ("stable", "1.1.0", Some("p.v1.0.0")),
            ("stable", "1.2.0", Some("p.v1.1.0")),
            ("fast", "2.0.0", None),
        ] {
            let name = format!("p.v{version}");
            let bundle = Bundle {
                name: name.clone(),
                image: Some(format!("r.example/p:{version}")),
                version: version.parse().ok(),
                version_text: version.to_owned(),
                ..Bundle::default()
            };
            package.bundles.insert(name.clone(), bundle);
            let skip_range = (channel == "fast").then(|| "<2.0.0".to_owned());
            let entry = Entry { name, replaces: replaces.map(str::to_owned), skip_range, ..Entry::default() };
            let new = || Channel { name: channel.to_owned(), ..Channel::default() };
            package.channels.entry(channel.to_owned()).or_insert_with(new).entries.push(entry);
        }
        package
    }

    fn identity(version: &str) -> Identity {
        let (name, reference) = (format!("p.v{version}"), format!("r.example/p:{version}"));
        Identity { package: "p".to_owned(), name, version: version.to_owned(), reference, release: None }
    }

    fn chosen(spec: &Value, package: Offer<'_>, installed: Option<&str>) -> Choice {
        let mut all = json!({"name": "p", "source": "c", "sourceNamespace": "olm"});
        if let (Some(all), Some(spec)) = (all.as_object_mut(), spec.as_object()) {
            all.extend(spec.clone());
        }
        let subscription = json!({"metadata": {"name": "s", "namespace": "ns"}, "spec": all});
        let subscription: Subscription = serde_json::from_value(subscription).unwrap();
        let installed = installed.map(identity);
        let others = [Release {
            holder: Dependent::Extension("q".to_owned()),
            package: "q".to_owned(),
            bundle: "q.v1".to_owned(),
            version: "1.0.0".to_owned(),
            image: String::new(),
            stated: 0,
        }];
        choose(&subscription, package, installed.as_ref(), &others.into())
    }

    fn version(choice: Choice) -> String {
        match choice {
            Choice::Take { bundle, .. } => bundle.version,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn begins_with_the_head_or_with_what_is_named_and_goes_edge_by_edge() {
        let package = package();
        let of = |spec: Value, installed| version(chosen(&spec, Offer::Package(&package), installed));
        assert_eq!(of(json!({}), None), "1.2.0");
        assert_eq!(of(json!({"channel": "fast"}), None), "2.0.0");
        assert_eq!(of(json!({"startingCSV": "p.v1.0.0"}), None), "1.0.0");
        assert_eq!(of(json!({"startingCSV": "p.v1.0.0", "channel": "stable"}), Some("1.0.0")), "1.1.0");
        assert_eq!(of(json!({"channel": "stable"}), Some("1.2.0")), "Stay");
        assert_eq!(of(json!({"channel": "fast"}), Some("1.0.0")), "2.0.0");
    }

    #[test]
    fn a_refusal_has_olms_words_and_says_what_would_help() {
        let package = package();
        let refused = |spec: Value, package| match chosen(&spec, package, None) {
            Choice::Refused(message) => message,
            other => panic!("{other:?}"),
        };
        let text = refused(json!({"channel": "none"}), Offer::Package(&package));
        assert!(
            text.starts_with("constraints not satisfiable: no operators found in channel none of package p"),
            "{text}"
        );
        let text = refused(json!({}), Offer::NoPackage);
        assert!(text.contains("no operators found in package p in the catalog referenced by subscription s"), "{text}");
        let text = refused(json!({}), Offer::NoCatalog);
        assert!(
            text.contains("no operators found from catalog c in namespace olm referenced by subscription s"),
            "{text}"
        );
    }

    #[test]
    fn packages_that_are_installed_meet_a_dependency_and_apis_are_waited_for() {
        let mut package = package();
        let bundle = package.bundles.get_mut("p.v2.0.0").unwrap();
        let required = |name: &str| RequiredPackage { name: name.to_owned(), range: ">=1.0.0".to_owned() };
        bundle.facts.requires_packages = vec![required("q")];
        bundle.facts.requires = vec![Gvk { group: "g".to_owned(), version: "v1".to_owned(), kind: "K".to_owned() }];
        let fast = || json!({"channel": "fast"});
        let met = chosen(&fast(), Offer::Package(&package), None);
        assert!(matches!(met, Choice::Take { has_packages: true, .. }), "{met:?}");
        package.bundles.get_mut("p.v2.0.0").unwrap().facts.requires_packages = vec![required("absent")];
        let Choice::Refused(text) = chosen(&fast(), Offer::Package(&package), None) else { panic!("it is refused") };
        assert!(text.contains("p.v2.0.0") && text.contains("absent"), "{text}");
    }
}
