//! What a ClusterServiceVersion states about how its bundle can be installed.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};

use crate::document::{self, MAX_ITEMS};
use crate::model::Facts;

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    install_modes: Option<Items<InstallMode>>,
    // In lower case throughout.
    apiservicedefinitions: Option<Definitions>,
    min_kube_version: Option<String>,
    display_name: Option<String>,
    provider: Option<Provider>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Provider {
    name: Option<String>,
    url: Option<String>,
}

#[derive(Deserialize)]
struct InstallMode {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    supported: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Definitions {
    owned: Option<Items<ApiService>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ApiService {
    name: Option<String>,
    group: Option<String>,
    version: Option<String>,
}

/// A list of at most [`MAX_ITEMS`] items: one of empty items takes many times the memory of its text.
struct Items<T>(Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ItemsVisitor(PhantomData))
    }
}

struct ItemsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
    type Value = Items<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Items<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            if items.len() == MAX_ITEMS {
                return Err(A::Error::custom(format_args!("more than {MAX_ITEMS} items are not read")));
            }
            items.push(item);
        }
        Ok(Items(items))
    }
}

impl ApiService {
    /// An APIService is called `<version>.<group>`; the field `name` is the resource's.
    fn into_name(self) -> Option<String> {
        match (self.version, self.group) {
            (Some(version), Some(group)) => Some(format!("{version}.{group}")),
            _ => self.name,
        }
    }
}

/// Adds what `json` states to `facts`. Without a ClusterServiceVersion nothing is known, and nothing is added.
pub(super) fn add(json: &str, facts: &mut Facts) -> Result<(), serde_json::Error> {
    if json.is_empty() {
        return Ok(());
    }
    let Document { spec } = serde_json::from_str(json)?;
    // One that names no mode supports none.
    let Items(modes) = spec.install_modes.unwrap_or_default();
    let mut modes: Vec<_> = modes.into_iter().filter(|mode| mode.supported).map(|mode| mode.kind).collect();
    modes.sort();
    facts.install_modes = Some(modes);
    let Items(owned) = spec.apiservicedefinitions.and_then(|definitions| definitions.owned).unwrap_or_default();
    facts.owned_api_services = owned.into_iter().filter_map(ApiService::into_name).collect();
    let said = |text: Option<String>| text.filter(|text| !text.is_empty());
    facts.min_kube_version = said(spec.min_kube_version);
    facts.display_name = said(spec.display_name);
    let Provider { name, url } = spec.provider.unwrap_or_default();
    (facts.provider, facts.provider_url) = (said(name), said(url));
    document::add_metadata(facts, json)
}
