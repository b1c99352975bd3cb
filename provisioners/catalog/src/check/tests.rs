use super::*;
use crate::model::{Gvk, RequiredPackage};

fn bundle(facts: Facts) -> Bundle {
    Bundle { name: "etcd.v1.0.0".to_owned(), facts, ..Bundle::default() }
}

fn refusal(facts: Facts) -> String {
    check(&bundle(facts)).unwrap_err().to_string()
}

fn modes(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn package(name: &str, range: &str) -> RequiredPackage {
    RequiredPackage { name: name.to_owned(), range: range.to_owned() }
}

#[test]
fn what_the_catalog_does_not_say_is_no_reason() {
    assert_eq!(check(&bundle(Facts::default())), Ok(()));
    assert_eq!(
        check(&bundle(Facts { install_modes: Some(modes(&["OwnNamespace", "AllNamespaces"])), ..Facts::default() })),
        Ok(())
    );
    let requires = vec![Gvk { group: "g.io".into(), version: "v1".into(), kind: "K".into() }];
    assert_eq!(check(&bundle(Facts { requires, ..Facts::default() })), Ok(()), "a BundleDeployment waits for it");
}

const CONVERT: &str = "convert registry+v1 bundle to plain+v0 bundle: ";

#[test]
fn refusals_are_in_upstreams_words_and_order() {
    let everything = Facts {
        install_modes: Some(modes(&["OwnNamespace", "allnamespaces"])),
        requires_packages: vec![package("b", "<2.0.0"), package("a", ""), package("b", "<2.0.0")],
        constraints: vec!["{\"all\":{}}".to_owned()],
        ..Facts::default()
    };
    assert_eq!(refusal(everything.clone()), format!("{CONVERT}AllNamespace install mode must be enabled"));
    let none = Facts { install_modes: Some(modes(&[])), ..Facts::default() };
    assert_eq!(check(&bundle(none)), Err(Refusal::InstallMode));
    let facts = Facts { install_modes: None, ..everything };
    assert_eq!(
        refusal(facts.clone()),
        "bundle \"etcd.v1.0.0\" has a dependency declared via property \"olm.package.required\" which is currently not \
         supported: a, b <2.0.0; install it by a PlatformOperator or ClusterExtension of its own, or say with the annotation \
         core.rukpak.io/ignore-dependencies=\"true\" on the PlatformOperator that it is there"
    );
    let facts = Facts { requires_packages: Vec::new(), ..facts };
    assert_eq!(
        refusal(facts),
        "bundle \"etcd.v1.0.0\" has a dependency declared via property \"olm.constraint\" which is currently not \
         supported: {\"all\":{}}; install it by a PlatformOperator or ClusterExtension of its own, or say with the annotation \
         core.rukpak.io/ignore-dependencies=\"true\" on the PlatformOperator that it is there"
    );
}

#[test]
fn a_long_constraint_is_shortened() {
    let text = refusal(Facts { constraints: vec!["\u{e9}".repeat(5000)], ..Facts::default() });
    assert!(text.contains("\u{e9}...; install it"), "{text}");
    assert!(text.chars().count() < 600, "{text}");
}
