//! File-based catalogs as a registry server shows them.

use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rukpak_catalog::registry::message::{Bundle, Channel, Deprecation, GroupVersionKind, Package, Property};
use serde_json::{Value, json};

use crate::tools;

/// The documents of a catalog.
#[derive(Debug, Clone, Default)]
pub struct Documents {
    documents: Vec<Value>,
}

impl Documents {
    /// The documents of a text: JSON values one after the other, or YAML documents.
    pub fn of_text(text: &str) -> Result<Self> {
        let documents = if text.trim_start().starts_with('{') {
            serde_json::Deserializer::from_str(text).into_iter().collect::<Result<Vec<Value>, _>>()?
        } else {
            serde_saphyr::from_multiple(text).map_err(|error| anyhow::anyhow!("{error}"))?
        };
        Ok(Self { documents: documents.into_iter().filter(|document| !document.is_null()).collect() })
    }

    /// The documents of all files below a folder; of hidden files none.
    pub fn of_folder(folder: &Path) -> Result<Self> {
        let mut all = Self::default();
        for child in
            tools::listing(folder)?.iter().filter(|child| !child.file_name().to_string_lossy().starts_with('.'))
        {
            let path = child.path();
            let part = if child.file_type()?.is_dir() {
                Self::of_folder(&path)?
            } else {
                let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
                Self::of_text(&text).with_context(|| format!("parse {}", path.display()))?
            };
            all.documents.extend(part.documents);
        }
        Ok(all)
    }

    /// A package with one channel, `stable`, in which each version replaces the one before. Pairs of version and image.
    ///
    /// Bundles are called `<package>.v<version>` and support all install modes.
    #[must_use]
    pub fn package(package: &str, versions: &[(&str, &str)]) -> Self {
        let name = |version: &str| format!("{package}.v{version}");
        let mut documents = vec![json!({ "schema": "olm.package", "name": package, "defaultChannel": "stable" })];
        let mut entries: Vec<Value> = Vec::new();
        for (version, image) in versions {
            let mut entry = json!({ "name": name(version) });
            if let Some(before) = entries.last() {
                entry["replaces"] = before["name"].clone();
            }
            entries.push(entry);
            let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
                .map(|mode| json!({ "type": mode, "supported": true }));
            documents.push(json!({
                "schema": "olm.bundle", "name": name(version), "package": package, "image": image,
                "properties": [
                    { "type": "olm.package", "value": { "packageName": package, "version": version } },
                    { "type": "olm.csv.metadata", "value": { "displayName": package, "installModes": modes } },
                ],
            }));
        }
        documents.push(json!({ "schema": "olm.channel", "name": "stable", "package": package, "entries": entries }));
        Self { documents }
    }

    /// These and the others.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.documents.extend(others.documents);
        self
    }

    /// This document too.
    #[must_use]
    pub fn with(mut self, document: Value) -> Self {
        self.documents.push(document);
        self
    }

    /// One line of JSON for each document, as catalogd serves them.
    pub fn json_lines(&self) -> String {
        self.documents.iter().flat_map(|document| [document.to_string(), "\n".to_owned()]).collect()
    }

    /// Names of the packages.
    pub fn packages(&self) -> Vec<String> {
        self.of("olm.package").map(|document| text(document, "name")).collect()
    }

    /// A package as `GetPackage` gives it.
    pub fn package_message(&self, name: &str) -> Option<Package> {
        let document = self.of("olm.package").find(|document| document["name"] == name)?;
        let mut channels: Vec<Channel> = self
            .of("olm.channel")
            .filter(|channel| channel["package"] == name)
            .map(|channel| Channel {
                name: text(channel, "name"),
                csv_name: head(channel),
                deprecation: self.deprecation(name, "olm.channel", &text(channel, "name")),
            })
            .collect();
        channels.sort_by(|one, other| one.name.cmp(&other.name));
        Some(Package {
            name: name.to_owned(),
            channels,
            default_channel_name: text(document, "defaultChannel"),
            deprecation: self.deprecation(name, "olm.package", ""),
        })
    }

    /// A bundle as `GetBundle` gives it: with its ClusterServiceVersion, without edges.
    pub fn bundle_message(&self, package: &str, channel: &str, name: &str) -> Option<Bundle> {
        let triple = |bundle: &Bundle| {
            bundle.package_name == package && bundle.channel_name == channel && bundle.csv_name == name
        };
        let mut bundle = self.whole_bundles().find(triple)?;
        bundle.replaces.clear();
        bundle.skips.clear();
        Some(bundle)
    }

    /// One bundle for each entry of each channel, as `ListBundles` sends them: without manifests where there is an image.
    pub fn bundle_messages(&self) -> impl Iterator<Item = Bundle> + '_ {
        self.whole_bundles().map(|mut bundle| {
            if !bundle.bundle_path.is_empty() {
                bundle.csv_json.clear();
                bundle.object.clear();
            }
            bundle
        })
    }

    fn whole_bundles(&self) -> impl Iterator<Item = Bundle> + '_ {
        self.of("olm.channel").flat_map(move |channel| {
            list(channel, "entries").filter_map(move |entry| self.whole_bundle(channel, entry))
        })
    }

    fn whole_bundle(&self, channel: &Value, entry: &Value) -> Option<Bundle> {
        let (package, name) = (text(channel, "package"), text(entry, "name"));
        let document = self.of("olm.bundle").find(|bundle| bundle["package"] == *package && bundle["name"] == *name)?;
        let of_type = |kind: &'static str| values(document, kind);
        let shown =
            |property: &&Value| !matches!(property["type"].as_str(), Some("olm.bundle.object" | "olm.csv.metadata"));
        let property = |kind: &str, value: &Value| Property { r#type: kind.to_owned(), value: value.to_string() };
        let needed = |value: &Value| {
            let value = json!({ "packageName": value["packageName"], "version": value["versionRange"] });
            property("olm.package", &value)
        };
        let object: Vec<String> = of_type("olm.bundle.object").filter_map(object).collect();
        Some(Bundle {
            csv_json: csv(&object, of_type("olm.csv.metadata").next(), &name),
            object,
            bundle_path: text(document, "image"),
            provided_apis: of_type("olm.gvk").map(gvk).collect(),
            required_apis: of_type("olm.gvk.required").map(gvk).collect(),
            version: of_type("olm.package").next().map(|value| text(value, "version")).unwrap_or_default(),
            skip_range: text(entry, "skipRange"),
            dependencies: of_type("olm.gvk.required")
                .map(|value| property("olm.gvk", value))
                .chain(of_type("olm.package.required").map(needed))
                .collect(),
            properties: list(document, "properties")
                .filter(shown)
                .map(|given| property(&text(given, "type"), &given["value"]))
                .collect(),
            replaces: text(entry, "replaces"),
            skips: list(entry, "skips").filter_map(Value::as_str).map(str::to_owned).collect(),
            deprecation: self.deprecation(&package, "olm.bundle", &name),
            channel_name: text(channel, "name"),
            package_name: package,
            csv_name: name,
        })
    }

    fn deprecation(&self, package: &str, schema: &str, name: &str) -> Option<Deprecation> {
        let documents = self.of("olm.deprecations").filter(|document| document["package"] == package);
        let fits = |entry: &&Value| entry["reference"]["schema"] == schema && text(&entry["reference"], "name") == name;
        let entry = documents.flat_map(|document| list(document, "entries")).find(fits)?;
        Some(Deprecation { message: text(entry, "message") })
    }

    fn of(&self, schema: &'static str) -> impl Iterator<Item = &Value> {
        self.documents.iter().filter(move |document| document["schema"] == schema)
    }
}

/// A catalog in which there is nothing to find: one package, which nobody asks for.
pub fn nothing() -> Documents {
    Documents::package("unused", &[("1.0.0", "localhost:1/unused:v1")])
}

/// Refuses what is no catalog, so that a mistake in a test is not served as an empty one.
pub(super) fn checked(documents: Documents) -> Result<Documents> {
    if documents.of("olm.package").next().is_none() {
        bail!("a catalog without a package");
    }
    Ok(documents)
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Values of the properties of one type.
fn values<'a>(bundle: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    list(bundle, "properties").filter(move |property| property["type"] == kind).map(|property| &property["value"])
}

fn gvk(value: &Value) -> GroupVersionKind {
    let [group, version, kind] = ["group", "version", "kind"].map(|key| text(value, key));
    GroupVersionKind { group, version, kind, plural: String::new() }
}

/// The manifest in an `olm.bundle.object`.
fn object(value: &Value) -> Option<String> {
    String::from_utf8(BASE64_STANDARD.decode(value["data"].as_str()?).ok()?).ok()
}

/// The ClusterServiceVersion among the objects, or one made of its metadata.
fn csv(objects: &[String], metadata: Option<&Value>, name: &str) -> String {
    let is_csv = |object: &&String| {
        serde_json::from_str::<Value>(object).is_ok_and(|object| object["kind"] == "ClusterServiceVersion")
    };
    if let Some(object) = objects.iter().find(is_csv) {
        return object.clone();
    }
    let Some(metadata) = metadata else { return String::new() };
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": { "name": name },
        "spec": {
            "displayName": metadata["displayName"], "installModes": metadata["installModes"],
            "minKubeVersion": metadata["minKubeVersion"],
            "apiservicedefinitions": metadata["apiServiceDefinitions"],
            "customresourcedefinitions": metadata["crdDescriptions"],
            "install": { "strategy": "deployment" },
        },
    })
    .to_string()
}

/// The entry that no other one replaces or skips.
fn head(channel: &Value) -> String {
    let below = |name: &Value| {
        list(channel, "entries")
            .any(|entry| entry["replaces"] == *name || list(entry, "skips").any(|skipped| skipped == name))
    };
    list(channel, "entries").find(|entry| !below(&entry["name"])).map(|entry| text(entry, "name")).unwrap_or_default()
}
