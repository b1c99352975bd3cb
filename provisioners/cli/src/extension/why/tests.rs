//! What is printed for a terminal and for a pipe.

use rukpak_catalog::model::{Package, RequiredPackage};
use rukpak_catalog::{Bundle, Channel, Entry, Version};
use serde_json::json;

use super::*;

fn package(versions: &[&str]) -> Package {
    let mut package = Package { name: "pump".to_owned(), ..Package::default() };
    let mut entries: Vec<Entry> = Vec::new();
    for version in versions {
        let name = format!("pump.v{version}");
        let replaces = entries.last().map(|before| before.name.clone());
        entries.push(Entry { name: name.clone(), replaces, ..Entry::default() });
        let (version_text, image) = ((*version).to_owned(), Some(format!("r.example/pump:{version}")));
        let version = Version::parse(version).ok();
        package.bundles.insert(name.clone(), Bundle { name, image, version, version_text, ..Bundle::default() });
    }
    let name = "stable".to_owned();
    package.channels.insert(name.clone(), Channel { name, entries, deprecation: None });
    package
}

fn catalog(name: &str, priority: i32, packages: &[Package]) -> AskedCatalog {
    let packages = packages.iter().map(|package| (package.name.clone(), package.clone())).collect();
    AskedCatalog { name: name.to_owned(), priority, content: Ok(Catalog { packages }) }
}

fn extension(version: Option<&str>, installed: Option<&str>) -> ClusterExtension {
    let status = installed
        .map(|version| json!({"install": {"bundle": {"name": format!("pump.v{version}"), "version": version}}}));
    serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "pump"},
        "spec": {"namespace": "pumps",
                 "source": {"sourceType": "Catalog", "catalog": {"packageName": "pump", "version": version}}},
        "status": status,
    }))
    .unwrap()
}

fn asked(extension: &ClusterExtension, looked: &[AskedCatalog]) -> Answer {
    answer(extension, extension.spec.catalog().unwrap(), looked).unwrap()
}

fn text(answer: &Answer, is_wide: bool) -> String {
    let mut out = Vec::new();
    answer.text(&mut out, is_wide).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_bundle_of_every_catalog_is_told() {
    let unasked = |name: &str, why| AskedCatalog { name: name.to_owned(), priority: 0, content: Err(why) };
    let looked = [
        catalog("community", -100, &[package(&["1.0.0", "2.0.0"])]),
        unasked("old", Unasked::NotSelected),
        catalog("other", 0, &[]),
        catalog("redhat", 10, &[package(&["1.0.0", "1.1.0", "1.2.0"])]),
    ];
    let answer = asked(&extension(Some("1.x"), Some("1.0.0")), &looked);
    assert_eq!(
        text(&answer, false),
        "package:   pump\n\
         version:   1.x\n\
         channels:  any\n\
         installed: pump.v1.0.0\n\n\
         CATALOG     PRIORITY   BUNDLE        VERSION   CHOSEN\n\
         community   -100       pump.v2.0.0   2.0.0     no: its version is not in the range that is asked for\n\
         community   -100       pump.v1.0.0   1.0.0     no: catalog redhat has a higher priority, 10\n\
         old         0          -             -         no: spec.source.catalog.selector does not choose this catalog\n\
         other       0          -             -         no: it has no such package\n\
         redhat      10         pump.v1.2.0   1.2.0     no: no upgrade leads to it from pump.v1.0.0, which is installed\n\
         redhat      10         pump.v1.1.0   1.1.0     yes\n\
         redhat      10         pump.v1.0.0   1.0.0     no: pump.v1.1.0 is higher\n\n\
         pump.v1.1.0 of catalog redhat is chosen\n"
    );
    assert!(text(&answer, true).contains("\nredhat      10         pump.v1.1.0   1.1.0     stable     yes\n"));
    let json = serde_json::to_value(&answer).unwrap();
    assert_eq!(
        json["chosen"],
        json!({"catalog": "redhat", "bundle": "pump.v1.1.0", "version": "1.1.0", "image": "r.example/pump:1.1.0"})
    );
    assert_eq!(json["catalogs"][1]["isAsked"], false);
    let last = json!({"catalog": "redhat", "name": "pump.v1.0.0", "version": "1.0.0", "channels": ["stable"],
                      "isChosen": false, "reason": "pump.v1.1.0 is higher"});
    assert_eq!(json["bundles"][4], last);
    assert_eq!(json.get("message"), None);
}

#[test]
fn what_fails_is_told_in_the_words_of_the_condition() {
    let looked = [catalog("a", 0, &[package(&["1.0.0"])])];
    let answer = asked(&extension(Some("2.x"), None), &looked);
    let last = "no bundles found for package \"pump\" matching version \"2.x\"\n";
    assert!(text(&answer, false).ends_with(last), "{}", text(&answer, false));

    let why = Unasked::NotServed("clustercatalog \"b\" is not served".to_owned());
    let looked = [
        catalog("a", 0, &[package(&["1.0.0"])]),
        AskedCatalog { name: "b".to_owned(), priority: 0, content: Err(why) },
    ];
    let answer = asked(&extension(None, None), &looked);
    let json = serde_json::to_value(&answer).unwrap();
    assert_eq!((json.get("chosen"), &json["bundles"][0]["reason"]), (None, &json!("a catalog is not served")));
    let message =
        "clustercatalog \"b\" is not served; nothing is resolved before it is, as another bundle might be chosen then";
    assert_eq!(json["message"], message);
    let nothing = text(&asked(&extension(None, None), &[]), false);
    assert!(nothing.ends_with("installed: nothing\nno bundles found for package \"pump\"\n"), "{nothing}");
}

#[test]
fn bundle_whose_dependency_is_not_installed_is_chosen_only_once_it_is_installed() {
    let mut needy = package(&["1.0.0"]);
    let bundle = needy.bundles.get_mut("pump.v1.0.0").unwrap();
    bundle.facts.requires_packages = vec![RequiredPackage { name: "wells".to_owned(), range: ">=1.0.0".to_owned() }];
    let looked = [catalog("c", 0, &[needy])];
    let chosen = |installed: Option<&str>| {
        let answer = asked(&extension(None, installed), &looked);
        answer.chosen_image().map(str::to_owned).map_err(str::to_owned)
    };
    assert!(chosen(None).unwrap_err().contains("olm.package.required"), "nobody knows of the wells");
    assert_eq!(chosen(Some("1.0.0")), Ok("r.example/pump:1.0.0".to_owned()));
}
