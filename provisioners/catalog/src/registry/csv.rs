//! What a ClusterServiceVersion states about how its bundle can be installed.

use serde::Deserialize;

use crate::model::Facts;

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    install_modes: Option<Vec<InstallMode>>,
    // In lower case throughout.
    apiservicedefinitions: Option<Definitions>,
    min_kube_version: Option<String>,
    display_name: Option<String>,
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
    owned: Option<Vec<ApiService>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ApiService {
    name: Option<String>,
    group: Option<String>,
    version: Option<String>,
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
    let modes = spec.install_modes.unwrap_or_default();
    let mut modes: Vec<_> = modes.into_iter().filter(|mode| mode.supported).map(|mode| mode.kind).collect();
    modes.sort();
    facts.install_modes = Some(modes);
    let owned = spec.apiservicedefinitions.and_then(|definitions| definitions.owned).unwrap_or_default();
    facts.owned_api_services = owned.into_iter().filter_map(ApiService::into_name).collect();
    let said = |text: Option<String>| text.filter(|text| !text.is_empty());
    facts.min_kube_version = said(spec.min_kube_version);
    facts.display_name = said(spec.display_name);
    Ok(())
}
