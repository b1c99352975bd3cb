//! The published packages with most dependencies, each installed together with its whole set by one command.
//!
//! The corpus is the folder `$CORPUS`, or `../shared/corpus` beside the workspace; without one this test says so and
//! does nothing. Its layout: `registry-v1/<package>/<version>`.
//!
//! The five packages are as they were published. Of what they depend on hardly anything is in the corpus: where it has
//! no provider, the test supplies a small bundle of its own. For a package that is one of that name and of a version in
//! the range, for an API one that owns a CRD of that group, version and kind. Its schema is open, and nothing runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use kube::api::DynamicObject;
use rukpak_catalog::{Range, Version};
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{Documents, tools};
use serde_json::{Value, json};

use super::case::{Case, installed, rolled_out, text};
use super::world::World;
use crate::olmv0::corpus;
use crate::platform::packages::{self, ALL, Files, OWN, channel, package};

/// So many packages are installed, each with its set.
const SETS: usize = 5;
/// Longest installation of a set: up to a dozen bundles at once, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_mins(5);

const V1: &str = "olm.operatorframework.io/v1";
const DEPENDENCIES: &str = "core.rukpak.io/dependencies";
const INSTALLED_FOR: &str = "core.rukpak.io/installed-for";

/// Types of properties by which a bundle requires something.
const PACKAGE: &str = "olm.package.required";
const API: &str = "olm.gvk.required";
const CONSTRAINT: &str = "olm.constraint";

/// A bundle that the catalog offers, alone in its package.
struct Offer {
    package: String,
    version: String,
    /// Name of the ClusterServiceVersion.
    csv: String,
    /// Install modes that it supports.
    modes: Vec<String>,
    /// APIs that it brings, as values of `olm.gvk`.
    owned: Vec<Value>,
    /// What it depends on, as properties of the types above.
    needs: Vec<Value>,
    files: Files,
}

impl Offer {
    /// Reads the bundle in a folder; `None` if a current cluster does not serve its CRDs, or it has no install mode
    /// that an extension can have.
    fn read(package: &str, folder: &Path) -> Option<Self> {
        let files = corpus::files(folder)?;
        if files.iter().any(|(_, text)| text.contains("apiextensions.k8s.io/v1beta1")) {
            return None;
        }
        // Large definitions are not parsed.
        let candidates = files.iter().filter(|(_, text)| text.contains("ClusterServiceVersion"));
        let mut documents = candidates.filter_map(|(_, text)| serde_saphyr::from_str::<Value>(text).ok());
        let csv = documents.find(|document| document["kind"] == "ClusterServiceVersion")?;
        let modes = csv["spec"]["installModes"].as_array().into_iter().flatten();
        let modes = modes.filter(|mode| mode["supported"] == true).filter_map(|mode| mode["type"].as_str());
        let offer = Self {
            package: package.to_owned(),
            version: csv["spec"]["version"].as_str()?.to_owned(),
            csv: csv["metadata"]["name"].as_str()?.to_owned(),
            modes: modes.map(str::to_owned).collect(),
            owned: apis(&csv, "owned"),
            needs: requirements(&csv, &files),
            files,
        };
        (offer.supports(ALL) || offer.supports(OWN)).then_some(offer)
    }

    /// Makes a bundle that owns one API, of which any object is good.
    fn make(package: &str, version: &str, api: &Value) -> Self {
        let field = |key: &str| api[key].as_str().unwrap_or_default();
        let (group, kind) = (field("group"), field("kind"));
        let singular = kind.to_lowercase();
        let (plural, csv) = (format!("{singular}s"), format!("{package}.v{version}"));
        let name = format!("{plural}.{group}");
        let annotations = json!({"annotations": {
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
            "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
            "operators.operatorframework.io.bundle.package.v1": package,
            "operators.operatorframework.io.bundle.channels.v1": "stable",
        }});
        let service_version = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": csv},
            "spec": {
                "displayName": package, "version": version,
                "installModes": [{"type": ALL, "supported": true}],
                "customresourcedefinitions": {"owned": [{"name": name, "kind": kind, "version": field("version")}]},
                "install": {"strategy": "deployment", "spec": {"deployments": []}},
            },
        });
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": singular, "listKind": format!("{kind}List")},
                "versions": [{"name": field("version"), "served": true, "storage": true,
                              "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let files = [
            ("metadata/annotations.yaml", annotations),
            ("manifests/csv.yaml", service_version),
            ("manifests/definition.yaml", definition),
        ];
        Self {
            package: package.to_owned(),
            version: version.to_owned(),
            csv,
            modes: vec![ALL.to_owned()],
            owned: vec![api.clone()],
            needs: Vec::new(),
            files: files.map(|(path, value)| (path.to_owned(), value.to_string())).into(), // JSON is YAML
        }
    }

    fn supports(&self, mode: &str) -> bool {
        self.modes.iter().any(|known| known == mode)
    }

    fn is_in(&self, range: &str) -> bool {
        is_in(&self.version, range)
    }

    /// The namespace that it is installed in with all of its set.
    fn space(&self) -> String {
        format!("of-{}", self.package)
    }

    /// What the catalog has of it.
    fn documents(&self, image: &str) -> Vec<Value> {
        let identity = json!({"packageName": self.package, "version": self.version});
        let mut properties = vec![json!({"type": "olm.package", "value": identity})];
        properties.extend(self.owned.iter().map(|api| json!({"type": "olm.gvk", "value": api})));
        properties.extend(self.needs.iter().cloned());
        vec![
            package(&self.package, "stable"),
            channel(&self.package, "stable", json!([{"name": self.csv}])),
            json!({"schema": "olm.bundle", "name": self.csv, "package": self.package, "image": image,
                   "properties": properties}),
        ]
    }

    /// The one object that a user creates to have it and all of its set.
    fn extension(&self, case: &str) -> Value {
        let catalog = json!({"packageName": self.package, "selector": {"matchLabels": {"case": case}}});
        let mut object = json!({
            "apiVersion": V1, "kind": "ClusterExtension",
            "metadata": {"name": self.package, "annotations": {DEPENDENCIES: "Install"}},
            "spec": {"namespace": self.space(), "source": {"sourceType": "Catalog", "catalog": catalog}},
        });
        if !self.supports(ALL) {
            let inline = json!({"watchNamespace": self.space()});
            object["spec"]["config"] = json!({"configType": "Inline", "inline": inline});
        }
        object
    }
}

/// Returns the APIs of the CRDs that a ClusterServiceVersion lists as `owned` or `required`.
fn apis(csv: &Value, list: &str) -> Vec<Value> {
    let references = csv["spec"]["customresourcedefinitions"][list].as_array().into_iter().flatten();
    let api = |reference: &Value| {
        let (_, group) = reference["name"].as_str()?.split_once('.')?;
        Some(json!({"group": group, "version": reference["version"], "kind": reference["kind"]}))
    };
    references.filter_map(api).collect()
}

/// Returns what a bundle depends on as the properties that `opm render` makes of it. Like opm it knows the files of
/// `metadata` by their content: one publisher calls them `dependency.yaml`, another has them in `properties.yaml`.
fn requirements(csv: &Value, files: &[(String, String)]) -> Vec<Value> {
    let required = apis(csv, "required").into_iter().map(|api| json!({"type": API, "value": api}));
    let annotation = csv["metadata"]["annotations"]["olm.properties"].as_str();
    let annotated: Vec<Value> = annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut all: Vec<Value> = required.chain(annotated).collect();
    for (_, text) in files.iter().filter(|(path, _)| path.starts_with("metadata/")) {
        let Ok(document) = serde_saphyr::from_str::<Value>(text) else { continue };
        all.extend(document["properties"].as_array().into_iter().flatten().cloned());
        all.extend(document["dependencies"].as_array().into_iter().flatten().map(to_property));
    }
    let mut needs = Vec::new();
    for property in all {
        if [PACKAGE, API, CONSTRAINT].iter().any(|kind| property["type"] == *kind) && !needs.contains(&property) {
            needs.push(property);
        }
    }
    needs
}

/// Makes a property of an entry of `dependencies.yaml`, which has shorter names for two types.
fn to_property(dependency: &Value) -> Value {
    let value = &dependency["value"];
    match dependency["type"].as_str() {
        Some("olm.package") => {
            let required = json!({"packageName": value["packageName"], "versionRange": value["version"]});
            json!({"type": PACKAGE, "value": required})
        }
        Some("olm.gvk") => json!({"type": API, "value": value}),
        _ => dependency.clone(),
    }
}

fn is_in(version: &str, range: &str) -> bool {
    let range = Range::parse(range).expect("a published range can be read");
    Version::parse(version).is_ok_and(|version| range.contains(&version))
}

/// Returns a version that the range names and holds.
fn version_in(range: &str) -> &str {
    let is_between = |c: char| !c.is_ascii_alphanumeric() && !".-+".contains(c);
    let mut versions = range.split(is_between).filter(|text| !text.is_empty());
    versions.find(|version| is_in(version, range)).unwrap_or_else(|| panic!("{range:?} names no version in it"))
}

/// Returns the packages whose files are `wanted` and can be installed, each in its last version by name.
fn last_versions(corpus: &Path, wanted: impl Fn(&[(String, String)]) -> bool) -> Vec<Offer> {
    let packages = tools::listing(&corpus.join("registry-v1")).expect("the corpus has bundles");
    let read_last = |folder: std::fs::DirEntry| {
        let last = tools::listing(&folder.path()).ok()?.pop()?.path();
        corpus::files(&last).filter(|files| wanted(files))?;
        Offer::read(folder.file_name().to_str()?, &last)
    };
    packages.into_iter().filter_map(read_last).collect()
}

/// Returns the packages with most dependencies, most first.
fn most_demanding(corpus: &Path) -> Vec<Offer> {
    let words = ["dependencies:", "required", CONSTRAINT];
    let may_say = |(path, text): &(String, String)| {
        let is_looked_at = path.starts_with("metadata/") || text.contains("ClusterServiceVersion");
        is_looked_at && words.iter().any(|word| text.contains(word))
    };
    let mut offers = last_versions(corpus, |files| files.iter().any(may_say));
    offers.retain(|offer| !offer.needs.is_empty());
    offers.sort_by_key(|offer| Reverse(offer.needs.len()));
    offers.truncate(SETS);
    offers
}

/// Returns the published bundle that meets a requirement of a package or an API. A member of a set gets no
/// configuration, so it has to support AllNamespaces.
fn published(corpus: &Path, need: &Value) -> Option<Offer> {
    let value = &need["value"];
    let field = |key: &str| value[key].as_str().unwrap_or_default();
    if need["type"] == PACKAGE {
        let name = field("packageName");
        let versions = tools::listing(&corpus.join("registry-v1").join(name)).unwrap_or_default();
        let mut offers = versions.iter().rev().filter_map(|version| Offer::read(name, &version.path()));
        return offers.find(|offer| offer.is_in(field("versionRange")) && offer.supports(ALL));
    }
    let may_own = |(_, text): &(String, String)| {
        ["ClusterServiceVersion", field("group"), field("kind")].iter().all(|word| text.contains(word))
    };
    let offers = last_versions(corpus, |files| files.iter().any(may_own));
    offers.into_iter().find(|offer| offer.owned.contains(value) && offer.supports(ALL))
}

/// Returns the bundle that meets a requirement of a package or an API: a published one, or else one of our own.
fn provider(corpus: &Path, need: &Value) -> Offer {
    let value = &need["value"];
    let field = |key: &str| value[key].as_str().unwrap_or_default();
    published(corpus, need).unwrap_or_else(|| {
        if need["type"] == PACKAGE {
            let name = field("packageName");
            let api = json!({"group": packages::group(name), "version": "v1", "kind": "Pump"});
            return Offer::make(name, version_in(field("versionRange")), &api);
        }
        Offer::make(&format!("provider-of-{}s", field("kind").to_lowercase()), "1.0.0", value)
    })
}

/// Returns the packages and APIs that a requirement comes down to. Of alternatives it takes the first that is
/// published, else the first.
fn parts(corpus: &Path, need: &Value) -> Vec<Value> {
    if need["type"] != CONSTRAINT {
        return vec![need.clone()];
    }
    let constraint = &need["value"];
    let simple = [(PACKAGE, "package"), (API, "gvk")].into_iter().filter(|(_, key)| constraint[*key].is_object());
    let simple = simple.map(|(kind, key)| json!({"type": kind, "value": constraint[key]}));
    let inner = |key: &str| -> Vec<Vec<Value>> {
        let constraints = constraint[key]["constraints"].as_array().into_iter().flatten();
        constraints.map(|one| parts(corpus, &json!({"type": CONSTRAINT, "value": one}))).collect()
    };
    let mut found: Vec<Value> = simple.chain(inner("all").into_iter().flatten()).collect();
    let alternatives = inner("any");
    let is_published = |parts: &&Vec<Value>| parts.iter().all(|part| published(corpus, part).is_some());
    found.extend(alternatives.iter().find(is_published).or(alternatives.first()).into_iter().flatten().cloned());
    assert!(!found.is_empty(), "no provider can be made for {constraint}");
    found
}

/// Adds to what is offered all that `package` depends on, directly or not; returns the names of these packages.
fn complete(corpus: &Path, package: &str, offered: &mut BTreeMap<String, Offer>) -> BTreeSet<String> {
    let mut members = BTreeSet::new();
    let mut open = vec![package.to_owned()];
    while let Some(next) = open.pop() {
        let needs: Vec<Value> = offered[&next].needs.iter().flat_map(|need| parts(corpus, need)).collect();
        for need in needs {
            let found = provider(corpus, &need);
            if members.insert(found.package.clone()) {
                open.push(found.package.clone());
                offered.entry(found.package.clone()).or_insert(found);
            }
        }
    }
    members
}

/// Waits until an extension has installed its bundle; whoever waits in vain gets the story of the whole set.
async fn await_installed(case: &Case<'_>, name: &str, set: &[&str]) {
    let target = Target::cluster(V1, "ClusterExtension", name);
    let is_installed = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| installed().met_by(object) && rolled_out().met_by(object))
    };
    let waited = verbs::await_object(&case.client, &target, "an installed bundle", PATIENCE, is_installed).await;
    if let Err(error) = waited {
        panic!("{error:#}\n{}", verbs::story(&case.client, set).await);
    }
}

/// Installs a package by one command; all `members` must be installed for it, and nothing else.
async fn install(case: &Case<'_>, offer: &Offer, members: &[&Offer]) {
    let begin = Instant::now();
    case.create(&offer.extension(&case.name)).await;
    let names: Vec<&str> = members.iter().map(|member| member.package.as_str()).collect();
    let set: Vec<&str> = names.iter().copied().chain([offer.package.as_str()]).collect();
    for name in &set {
        await_installed(case, name, &set).await;
    }
    let seconds = begin.elapsed().as_secs_f64();

    let labels = format!("{INSTALLED_FOR}={}", offer.package);
    let made = verbs::list(&case.client, V1, "ClusterExtension", &labels).await.expect("extensions are listed");
    let mut found = BTreeSet::new();
    for object in &made {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        found.insert((name, text(object, "/status/install/bundle/version")));
    }
    let wanted: BTreeSet<(&str, &str)> =
        members.iter().map(|member| (member.package.as_str(), member.version.as_str())).collect();
    assert_eq!(found, wanted, "what is installed for {}", offer.package);
    eprintln!("{}: {} members in {seconds:.1} s: {}", offer.package, names.len(), names.join(", "));
}

#[tokio::test(flavor = "multi_thread")]
async fn installs_published_package_with_its_whole_set_when_one_extension_asks_for_it() {
    let Some(corpus) = tools::corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: no published package was installed with its set");
        return;
    };
    let demanding = most_demanding(&corpus);
    let names: Vec<String> = demanding.iter().map(|offer| offer.package.clone()).collect();
    assert_eq!(names.len(), SETS, "packages of {} that depend on others: {names:?}", corpus.display());
    let mut offered: BTreeMap<String, Offer> =
        demanding.into_iter().map(|offer| (offer.package.clone(), offer)).collect();
    let mut sets = Vec::new();
    for name in names {
        let members = complete(&corpus, &name, &mut offered);
        sets.push((name, members));
    }

    let world = World::new().await;
    let case = Case::within(&world, "published").await;
    let mut documents = Documents::default();
    for offer in offered.values() {
        let image = packages::push(&world.registry, &offer.package, &offer.version, offer.files.clone()).await;
        documents = offer.documents(&image).into_iter().fold(documents, Documents::with);
    }
    case.serve(documents).await;
    for (name, members) in &sets {
        let offer = &offered[name];
        // As for any extension, the namespace is there before.
        case.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": offer.space()}})).await;
        let _kubelet = Kubelet::play(case.client.clone(), &offer.space());
        let members: Vec<&Offer> = members.iter().map(|member| &offered[member]).collect();
        install(&case, offer, &members).await;
    }
}
