//! A document of a bundle as a message. Disk; what becomes of each field is upstream's `ConvertModelBundleToAPIBundle`.
//!
//! Values stay text: nothing is made of them that would be larger than the document.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rukpak_content::Limits;
use rukpak_plain::{Budget, yaml};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::Content;
use super::entries::deprecation;
use super::place::{Place, Spot, find};
use crate::model;
use crate::registry::message::{Bundle, GroupVersionKind, Property};

const CSV: &str = "ClusterServiceVersion";
const MANIFEST: &str = "olm.bundle.object";
const METADATA: &str = "olm.csv.metadata";

/// How much of a bundle is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Without its ClusterServiceVersion and its manifests, where there is an image that has them.
    Listed,
    /// All of it.
    Whole,
}

/// What is read of a document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document<'d> {
    #[serde(borrow)]
    properties: Option<Vec<Written<'d>>>,
    #[serde(borrow)]
    related_images: Option<&'d RawValue>,
}

/// A property.
#[derive(Deserialize)]
struct Written<'d> {
    r#type: Option<String>,
    #[serde(borrow)]
    value: Option<&'d RawValue>,
}

/// The value of [`MANIFEST`].
#[derive(Deserialize)]
struct Encoded {
    data: Option<String>,
}

/// What is read of a manifest.
#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

pub(super) fn read(content: &Content, place: &Place, extent: Extent) -> io::Result<Bundle> {
    let spot = find(content.catalog(), place).ok_or(io::ErrorKind::NotFound)?;
    let json = content.bundle(&spot.package.name, &spot.bundle.name)?;
    let document: Document<'_> = serde_json::from_slice(&json)?;
    let mut message = message(spot);
    let properties = document.properties.as_deref().unwrap_or_default();
    let shown = properties.iter().filter(|property| !matches!(property.kind(), MANIFEST | METADATA));
    message.properties = shown.map(|shown| property(shown.kind(), shown.json().to_owned())).collect();
    if extent == Extent::Whole || spot.bundle.image.is_none() {
        let objects = properties.iter().filter(|property| property.kind() == MANIFEST).filter_map(manifest);
        message.object = objects.collect();
        let own = message.object.iter().find(|object| is_csv(object)).cloned();
        message.csv_json = match own {
            Some(csv) => csv,
            None => synthesized(content, spot, &document)?.unwrap_or_default(),
        };
        if message.object.is_empty() && !message.csv_json.is_empty() {
            message.object.push(message.csv_json.clone());
        }
    }
    Ok(message)
}

impl Written<'_> {
    fn kind(&self) -> &str {
        self.r#type.as_deref().unwrap_or_default()
    }

    fn json(&self) -> &str {
        self.value.map_or("null", RawValue::get)
    }
}

/// What is known without the document.
fn message(Spot { package, channel, entry, bundle }: Spot<'_>) -> Bundle {
    let gvk = |gvk: &model::Gvk| {
        let model::Gvk { group, version, kind } = gvk.clone();
        GroupVersionKind { group, version, kind, plural: String::new() }
    };
    let facts = &bundle.facts;
    let apis = facts.requires.iter().map(|gvk| {
        property("olm.gvk", json!({"group": gvk.group, "kind": gvk.kind, "version": gvk.version}).to_string())
    });
    let packages = facts.requires_packages.iter().map(|package| {
        property("olm.package", json!({"packageName": package.name, "version": package.range}).to_string())
    });
    Bundle {
        csv_name: bundle.name.clone(),
        package_name: package.name.clone(),
        channel_name: channel.name.clone(),
        bundle_path: bundle.image.clone().unwrap_or_default(),
        provided_apis: facts.provides.iter().map(gvk).collect(),
        required_apis: facts.requires.iter().map(gvk).collect(),
        version: bundle.version_text.clone(),
        skip_range: entry.skip_range.clone().unwrap_or_default(),
        dependencies: apis.chain(packages).collect(),
        replaces: entry.replaces.clone().unwrap_or_default(),
        skips: entry.skips.clone(),
        deprecation: deprecation(bundle.deprecation.as_ref()),
        ..Bundle::default()
    }
}

fn property(kind: &str, value: String) -> Property {
    Property { r#type: kind.to_owned(), value }
}

/// A manifest as JSON. One that cannot be read is left out.
fn manifest(property: &Written<'_>) -> Option<String> {
    let Encoded { data } = serde_json::from_str(property.json()).ok()?;
    let text = String::from_utf8(STANDARD.decode(data?).ok()?).ok()?;
    if serde_json::from_str::<&RawValue>(&text).is_ok() {
        return Some(text);
    }
    let limits = Limits::default();
    let documents = yaml::parse(&Arc::from("data"), text.as_bytes(), &mut Budget::new(&limits)).ok()?;
    documents.first().map(|document| document.value.to_string())
}

fn is_csv(manifest: &str) -> bool {
    serde_json::from_str::<Kind>(manifest).is_ok_and(|read| read.kind.as_deref() == Some(CSV))
}

/// What is read of an `olm.package`.
#[derive(Deserialize)]
struct About<'d> {
    #[serde(borrow)]
    icon: Option<&'d RawValue>,
    #[serde(borrow)]
    description: Option<&'d RawValue>,
}

/// A ClusterServiceVersion that stands for one whose rest is in the image.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Synthesized<'d> {
    api_version: &'static str,
    kind: &'static str,
    metadata: ObjectMeta<'d>,
    spec: Spec<'d>,
}

/// What [`METADATA`] says of the metadata.
#[derive(Deserialize, Serialize)]
struct ObjectMeta<'d> {
    #[serde(skip_deserializing)]
    name: String,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    annotations: Option<&'d RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    labels: Option<&'d RawValue>,
}

/// What [`METADATA`] says of the spec, where two fields have other names, and what comes from elsewhere.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'d> {
    #[serde(borrow, rename(deserialize = "apiServiceDefinitions", serialize = "apiservicedefinitions"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    services: Option<&'d RawValue>,
    #[serde(borrow, rename(deserialize = "crdDescriptions", serialize = "customresourcedefinitions"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    definitions: Option<&'d RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    description: Option<&'d RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    display_name: Option<&'d RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    install_modes: Option<&'d RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    keywords: Option<&'d RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    links: Option<&'d RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    maintainers: Option<&'d RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    maturity: Option<&'d RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    min_kube_version: Option<&'d RawValue>,
    #[serde(borrow, rename = "nativeAPIs", skip_serializing_if = "Option::is_none")]
    native_apis: Option<&'d RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    provider: Option<&'d RawValue>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    icon: Option<[&'d RawValue; 1]>,
    #[serde(skip_deserializing)]
    install: Install,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    related_images: Option<&'d RawValue>,
    #[serde(skip_deserializing)]
    version: String,
}

/// A strategy without Deployments, which OLM's clients expect to be there.
#[derive(Serialize)]
struct Install {
    strategy: &'static str,
    spec: Strategy,
}

#[derive(Serialize)]
struct Strategy {
    deployments: Option<()>,
}

impl Default for Install {
    fn default() -> Self {
        Self { strategy: "deployment", spec: Strategy { deployments: None } }
    }
}

/// A ClusterServiceVersion made of [`METADATA`], if that is there once.
fn synthesized(content: &Content, spot: Spot<'_>, document: &Document<'_>) -> io::Result<Option<String>> {
    let properties = document.properties.as_deref().unwrap_or_default();
    let mut told = properties.iter().filter(|property| property.kind() == METADATA);
    let (Some(metadata), None) = (told.next(), told.next()) else { return Ok(None) };
    let package = content.package(&spot.package.name)?;
    let about: About<'_> = serde_json::from_slice(&package)?;

    let mut meta: ObjectMeta<'_> = serde_json::from_str(metadata.json())?;
    meta.name.clone_from(&spot.bundle.name);
    let mut spec: Spec<'_> = serde_json::from_str(metadata.json())?;
    spec.description = spec.description.filter(|text| text.get() != "\"\"").or(about.description);
    spec.icon = about.icon.map(|icon| [icon]);
    spec.related_images = document.related_images;
    spec.version.clone_from(&spot.bundle.version_text);
    let csv = Synthesized { api_version: "operators.coreos.com/v1alpha1", kind: CSV, metadata: meta, spec };
    Ok(Some(serde_json::to_string(&csv)?))
}
