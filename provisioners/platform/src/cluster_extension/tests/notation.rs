//! How scenarios are written, and read into the types of the crate. The package is `p`, and so is its extension.

use std::collections::BTreeMap;
use std::sync::Arc;

use rukpak_catalog::model::{Channel, Entry, RequiredPackage};
use rukpak_catalog::{Bundle, Catalog, Package};
use rukpak_crds::BundleDeployment;
use rukpak_crds::olm::{AvailabilityMode, ClusterCatalog, ClusterCatalogSpec, ClusterExtension, UPSTREAM_FINALIZERS};
use rukpak_resolver::Installed;
use rukpak_resolver::set::Offered;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::deployment::Target;
use super::super::work;
use super::Error;
use crate::catalogs::in_status;
use crate::dependencies::installed_as;
use crate::fixtures;
use crate::installed::Identity;

const PACKAGE: &str = "p";
/// Of the BundleDeployment.
pub const GENERATION: i64 = 2;

/// What is observed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Given {
    /// `spec.source.catalog` without the package.
    asks: Map<String, Value>,
    /// More of the spec.
    spec: Map<String, Value>,
    /// Of the extension, without `core.rukpak.io/`.
    annotations: BTreeMap<String, String>,
    /// The version that operator-controller has installed and left.
    left: Option<String>,
    /// Conditions that the extension has, as `True Reason: message`.
    said: BTreeMap<String, String>,
    deployment: Option<Deployment>,
    /// By name.
    pub catalogs: BTreeMap<String, Offering>,
    pub requires_digests: bool,
    /// What others have installed: `q 1.0.0`.
    others: Vec<String>,
    /// Packages that somebody asks for.
    pub asked: Vec<String>,
    /// Whether somebody has agreed to what is asked.
    pub is_agreed: bool,
    /// By version of the package: whom it would leave without what they need.
    pub breaks: BTreeMap<String, Vec<String>>,
}

/// The BundleDeployment, as it was applied for an extension that says nothing special.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Deployment {
    /// The version that it is to install.
    asks: String,
    /// The version that it has installed.
    installed: Option<String>,
    /// As `True Reason: message`. Those of what is installed and healthy, if that is what it is to install.
    #[serde(default)]
    conditions: BTreeMap<String, String>,
    /// Without `core.rukpak.io/`.
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// More of the spec.
    #[serde(default)]
    spec: Map<String, Value>,
    /// `PlatformOperator x`, or `nobody`.
    owner: Option<String>,
    #[serde(default)]
    is_deleted: bool,
}

/// A ClusterCatalog.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Offering {
    priority: i32,
    is_unavailable: bool,
    /// Why its content is not known.
    pub unreadable: Option<String>,
    /// As `True Reason: message`.
    said: BTreeMap<String, String>,
    /// By package and channel: `1.0.0`, `1.1.0 replaces 1.0.0`, `1.1.0 skips 1.0.0`, `2.0.0 skipRange <2.0.0`.
    packages: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// By version of `p`, name of a channel, or `package`: why.
    deprecated: BTreeMap<String, String>,
    /// By version of `p`: `q >=1.0.0`.
    needs: BTreeMap<String, String>,
    /// By version of `p`, where it is another than usual.
    images: BTreeMap<String, String>,
}

impl Given {
    pub fn extension(&self) -> Result<ClusterExtension, Error> {
        let mut catalog = self.asks.clone();
        catalog.insert("packageName".to_owned(), json!(PACKAGE));
        let mut spec = self.spec.clone();
        spec.insert("namespace".to_owned(), json!("ns"));
        spec.insert("source".to_owned(), json!({"sourceType": "Catalog", "catalog": catalog}));
        let mut said = self.said.clone();
        let mut object = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "spec": spec,
            "metadata": {"name": PACKAGE, "uid": "u", "generation": 1, "annotations": ours(&self.annotations)},
        });
        if let Some(version) = &self.left {
            let Identity { name, version, reference, .. } = identity(version);
            object["metadata"]["finalizers"] = json!(UPSTREAM_FINALIZERS);
            object["status"]["install"] = json!({"bundle": {"name": name, "version": version}});
            let message = format!("True Succeeded: Installed bundle {reference} successfully");
            said.insert("Installed".to_owned(), message);
        }
        object["status"]["conditions"] = json!(conditions(&said)?);
        Ok(serde_json::from_value(object)?)
    }

    pub fn deployment(&self) -> Result<Option<BundleDeployment>, Error> {
        self.deployment.as_ref().map(Deployment::object).transpose()
    }

    /// What is installed beside the package.
    pub fn others(&self) -> Result<Vec<Installed>, Error> {
        let other = |text: &String| -> Result<Installed, Error> {
            let (package, version) = text.split_once(' ').ok_or("others: a package and a version")?;
            let installed = installed_as(package, &named(package, version), version);
            installed.ok_or_else(|| format!("{text:?} is no version").into())
        };
        self.others.iter().map(other).collect()
    }

    /// The catalogs, as dependencies are looked for in them.
    pub fn offered(&self) -> Result<Vec<Offered>, Error> {
        let offered = |(name, catalog): (&String, &Offering)| -> Result<Offered, Error> {
            let (name, content) = (in_status(name), Arc::new(catalog.content()?));
            Ok(Offered { name, priority: catalog.priority, content })
        };
        self.catalogs.iter().map(offered).collect()
    }
}

impl Deployment {
    fn object(&self) -> Result<BundleDeployment, Error> {
        let target = Target { bundle: &identity(&self.asks), has_packages: false, set: None };
        let body = work::install(&Given::default().extension()?, target, None, false);
        let mut body = body.map_err(|progress| format!("{progress:?}"))?;
        body["metadata"]["generation"] = json!(GENERATION);
        for (key, value) in ours(&self.annotations) {
            body["metadata"]["annotations"][key] = json!(value);
        }
        for (field, value) in &self.spec {
            body["spec"][field] = value.clone();
        }
        match self.owner.as_deref().map(|owner| owner.split_once(' ')) {
            None => {}
            Some(None) => body["metadata"]["ownerReferences"] = json!([]),
            Some(Some((kind, name))) => {
                let owner = &mut body["metadata"]["ownerReferences"][0];
                (owner["kind"], owner["name"], owner["uid"]) = (json!(kind), json!(name), json!("other"));
            }
        }
        if self.is_deleted {
            body["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }

        let is_there = self.installed.as_ref() == Some(&self.asks);
        let good = ["HasValidBundle", "Installed", "Healthy", "Ready"].map(|type_| (type_, "True Good: m"));
        let mut said: BTreeMap<String, String> =
            good.iter().filter(|_| is_there).map(|(type_, text)| ((*type_).to_owned(), (*text).to_owned())).collect();
        said.extend(self.conditions.clone());
        let revision = self.installed.as_ref().map(|version| {
            json!({"revision": 1, "bundle": "p-1", "contentDigest": "sha256:0a", "result": "Healthy",
                   "time": "2026-01-01T00:00:00Z", "annotations": identity(version).annotations()})
        });
        let active = self.installed.as_ref().map(|_| "p-1");
        let history: Vec<Value> = revision.into_iter().collect();
        body["status"] = json!({"observedGeneration": GENERATION, "activeBundle": active, "history": history,
                                "conditions": conditions(&said)?});
        Ok(serde_json::from_value(body)?)
    }
}

impl Offering {
    pub fn object(&self, name: &str) -> Result<ClusterCatalog, Error> {
        let availability_mode =
            if self.is_unavailable { AvailabilityMode::Unavailable } else { AvailabilityMode::Available };
        let spec = ClusterCatalogSpec { priority: self.priority, availability_mode, ..ClusterCatalogSpec::default() };
        let mut object = ClusterCatalog::new(name, spec);
        object.status = Some(serde_json::from_value(json!({"conditions": conditions(&self.said)?}))?);
        Ok(object)
    }

    pub fn content(&self) -> Result<Catalog, Error> {
        let mut catalog = Catalog::default();
        for (name, channels) in &self.packages {
            catalog.packages.insert(name.clone(), self.package(name, channels)?);
        }
        Ok(catalog)
    }

    fn package(&self, name: &str, channels: &BTreeMap<String, Vec<String>>) -> Result<Package, Error> {
        let is_ours = name == PACKAGE;
        let why = |what: &str| self.deprecated.get(what).filter(|_| is_ours).cloned();
        let default_channel = channels.keys().next().cloned();
        let mut package =
            Package { name: name.to_owned(), default_channel, deprecation: why("package"), ..Package::default() };
        for (channel, lines) in channels {
            let mut entries = Vec::new();
            for line in lines {
                let (version, entry) = entry(name, line)?;
                let mut bundle = Bundle {
                    name: entry.name.clone(),
                    image: Some(format!("r.example/{name}:{version}")),
                    version: version.parse().ok(),
                    version_text: version.to_owned(),
                    deprecation: why(version),
                    ..Bundle::default()
                };
                if let Some(image) = self.images.get(version).filter(|_| is_ours) {
                    bundle.image = Some(image.clone());
                }
                if let Some((other, range)) =
                    self.needs.get(version).filter(|_| is_ours).and_then(|it| it.split_once(' '))
                {
                    bundle.facts.requires_packages =
                        vec![RequiredPackage { name: other.to_owned(), range: range.to_owned() }];
                }
                package.bundles.insert(entry.name.clone(), bundle);
                entries.push(entry);
            }
            let deprecation = why(channel);
            package.channels.insert(channel.clone(), Channel { name: channel.clone(), entries, deprecation });
        }
        Ok(package)
    }
}

fn named(package: &str, version: &str) -> String {
    format!("{package}.v{version}")
}

fn identity(version: &str) -> Identity {
    let (name, reference) = (named(PACKAGE, version), format!("r.example/p:{version}"));
    Identity { package: PACKAGE.to_owned(), name, version: version.to_owned(), reference, release: None }
}

/// Annotations of ours.
fn ours(annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    annotations.iter().map(|(key, value)| (format!("core.rukpak.io/{key}"), value.clone())).collect()
}

/// A line of a channel: the version and the entry.
fn entry<'a>(package: &str, line: &'a str) -> Result<(&'a str, Entry), Error> {
    let (version, edge) = line.split_once(' ').unwrap_or((line, ""));
    let mut entry = Entry { name: named(package, version), ..Entry::default() };
    match edge.split_once(' ') {
        Some(("replaces", other)) => entry.replaces = Some(named(package, other)),
        Some(("skips", other)) => entry.skips = vec![named(package, other)],
        Some(("skipRange", range)) => entry.skip_range = Some(range.to_owned()),
        None if edge.is_empty() => {}
        _ => return Err(format!("{line:?} is no entry of a channel").into()),
    }
    Ok((version, entry))
}

/// From their types and what they say: `True Reason: message`.
fn conditions(said: &BTreeMap<String, String>) -> Result<Vec<Value>, Error> {
    let condition = |(type_, text): (&String, &String)| -> Result<Value, Error> {
        let (words, message) = text.split_once(": ").ok_or("a condition: True Reason: message")?;
        let (status, reason) = words.split_once(' ').ok_or("a condition: a status and a reason")?;
        Ok(fixtures::conditions(&[(type_.as_str(), status, reason, message)]).remove(0))
    };
    said.iter().map(condition).collect()
}
