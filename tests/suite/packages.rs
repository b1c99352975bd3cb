//! The packages that OpenShift's documentation of platform operators lists as known to work: those of them that the corpus
//! holds, installed by PlatformOperators in one run. The corpus is the folder `$CORPUS`, or `../shared/corpus` beside the
//! workspace.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use rukpak_content::Limits;
use rukpak_registry::Bundle;
use rukpak_tests::openshift::{self, CatalogSource, DEFAULT_CATALOG, cluster_operator, operator, platform_operator};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{World, WorldOptions};
use rukpak_tests::{Documents, ImageBuilder, PlatformOptions};
use serde_json::{Value, json};

use crate::registry::published::{self, Published};

/// The documentation's list, for 4.12.
const LISTED: [&str; 25] = [
    "3scale-operator",
    "amq-broker-rhel8",
    "amq-online",
    "amq-streams",
    "ansible-cloud-addons-operator",
    "apicast-operator",
    "container-security-operator",
    "eap",
    "file-integrity-operator",
    "gatekeeper-operator-product",
    "integration-operator",
    "jws-operator",
    "kiali-ossm",
    "node-healthcheck-operator",
    "odf-csi-addons-operator",
    "odr-hub-operator",
    "openshift-custom-metrics-autoscaler-operator",
    "openshift-gitops-operator",
    "openshift-pipelines-operator-rh",
    "quay-operator",
    "red-hat-camel-k",
    "rhpam-kogito-operator",
    "service-registry-operator",
    "servicemeshoperator",
    "skupper-operator",
];
/// Longest installation: unoptimised programs read large schemas slowly.
const PATIENCE: Duration = Duration::from_mins(2);

/// A bundle of the corpus, and where it was pushed.
struct Version {
    published: Published,
    bundle: Bundle,
    image: String,
}

/// All versions of the listed packages, by package. Of several bundles of one name the first counts.
async fn versions(world: &World, corpus: &Path) -> BTreeMap<String, Vec<Version>> {
    let mut packages: BTreeMap<String, Vec<Version>> = BTreeMap::new();
    let root = corpus.join("registry-v1");
    for package in LISTED {
        let Ok(folders) = std::fs::read_dir(root.join(package)) else { continue };
        let mut names: Vec<String> = folders
            .map(|folder| folder.expect("the folder can be listed").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        for name in names {
            let published = match published::read(corpus, &format!("{package}/{name}")) {
                Ok(published) => published,
                Err(error) => {
                    eprintln!("{package}/{name} is no bundle that can be installed: {error}");
                    continue;
                }
            };
            let tree = published::tree(&published.folder).expect("the folder can be read");
            let bundle = rukpak_registry::load(&tree, &Limits::default()).expect("it was loaded before");
            let known = packages.entry(bundle.package().to_owned()).or_default();
            if known.iter().any(|known| known.bundle.csv.metadata.name == bundle.csv.metadata.name) {
                continue;
            }
            let builder = ImageBuilder::of_folder(&published.folder).expect("the folder can be read");
            let pushed = world.registry.push(&format!("corpus/{package}"), &name, &builder).await;
            let image = pushed.expect("the registry takes it").reference;
            known.push(Version { published, bundle, image });
        }
    }
    packages
}

/// The documents that a catalog has of a package: each version replaces the one before.
fn documents(package: &str, versions: &[Version]) -> Vec<Value> {
    let name = |version: &Version| version.bundle.csv.metadata.name.clone();
    let mut entries: Vec<Value> = Vec::new();
    for version in versions {
        let mut entry = json!({"name": name(version)});
        if let Some(before) = entries.last() {
            entry["replaces"] = before["name"].clone();
        }
        entries.push(entry);
    }
    let mut documents = vec![
        json!({"schema": "olm.package", "name": package, "defaultChannel": "all"}),
        json!({"schema": "olm.channel", "package": package, "name": "all", "entries": entries}),
    ];
    for version in versions {
        let spec = &version.bundle.csv.spec;
        let modes = spec.install_modes.iter().map(|mode| json!({"type": mode.kind, "supported": mode.supported}));
        documents.push(json!({
            "schema": "olm.bundle", "package": package, "name": name(version), "image": version.image,
            "properties": [
                {"type": "olm.package", "value": {"packageName": package, "version": spec.version}},
                {"type": "olm.csv.metadata", "value": {"installModes": modes.collect::<Vec<_>>()}},
            ],
        }));
    }
    documents
}

/// What became of a PlatformOperator: nothing, or why it is not installed.
fn verdict(operator: &DynamicObject) -> Option<Result<(), String>> {
    let installed = verbs::condition(operator, "Installed")?;
    if installed["status"] == "True" {
        return Some(Ok(()));
    }
    let is_refused = verbs::condition(operator, "Ready").is_some_and(|ready| ready["status"] == "False");
    is_refused.then(|| Err(format!("{}: {}", installed["reason"], installed["message"])))
}

#[tokio::test]
async fn the_documented_packages_of_the_corpus_are_installed_by_their_names() {
    let Some(corpus) = rukpak_tests::tools::corpus() else {
        eprintln!("ABSENT: no corpus in $CORPUS or ../shared/corpus; no published package was installed");
        return;
    };
    let world = World::start_with(WorldOptions { install: openshift::manifests(), ..WorldOptions::default() }).await;
    let world = world.unwrap_or_else(|error| panic!("{error:#}"));
    let client = world.admin().await;
    let packages = versions(&world, &corpus).await;
    assert!(packages.len() >= 4, "the corpus holds only {:?}", packages.keys());
    let all = packages.iter().flat_map(|(package, versions)| documents(package, versions));
    let catalog = CatalogSource::new(DEFAULT_CATALOG);
    catalog.put("corpus", all.fold(Documents::default(), Documents::with));
    openshift::open(&client, &catalog).await;
    let platform = world
        .plane
        .start_platform(PlatformOptions {
            arguments: vec!["--catalog-source=openshift-marketplace/redhat-operators".to_owned()],
            ..PlatformOptions::default()
        })
        .await
        .expect("the manager starts");
    platform.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));

    for package in packages.keys() {
        let object = operator(package, json!({"package": {"name": package}}));
        verbs::create(&client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
    let mut refusals = Vec::new();
    for (package, versions) in &packages {
        let decided = |object: Option<&DynamicObject>| object.is_some_and(|object| verdict(object).is_some());
        let found = verbs::await_object(&client, &platform_operator(package), "an outcome", PATIENCE, decided).await;
        let operator = found.unwrap_or_else(|error| panic!("{error:#}")).expect("it exists");
        let version = operator.data["status"]["source"]["version"].as_str().unwrap_or_default().to_owned();
        match verdict(&operator).expect("it was decided") {
            Ok(()) => {
                let chosen = versions.iter().find(|known| known.bundle.csv.spec.version == version);
                let chosen = chosen.unwrap_or_else(|| panic!("{package}: version {version:?} is not in the catalog"));
                present(&client, chosen).await;
                eprintln!("{package} {version}: {} objects installed", chosen.published.objects.len());
            }
            Err(why) => {
                eprintln!("{package} {version}: refused: {why}");
                refusals.push(package.clone());
            }
        }
    }
    eprintln!(
        "{} of the {} listed packages are in the corpus; {} installed",
        packages.len(),
        LISTED.len(),
        packages.len() - refusals.len()
    );
    assert!(refusals.is_empty(), "refused: {refusals:?}");
    let whole = Expected::is_true("Available", "AsExpected").saying("All platform operators are in a successful state");
    let said = verbs::await_condition(&client, &cluster_operator(), whole, PATIENCE).await;
    said.unwrap_or_else(|error| panic!("{error:#}"));
}

/// Every object of the bundle exists.
async fn present(client: &Client, version: &Version) {
    for object in &version.published.objects {
        let target = Target::of(object).expect("it names itself");
        let found = verbs::get(client, &target).await.unwrap_or_else(|error| panic!("{error:#}"));
        assert!(found.is_some(), "{target} of {} is missing", version.published.name);
    }
}
