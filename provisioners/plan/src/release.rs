//! What a deployment has installed, or is about to: a content, and how its objects are made from it.

use std::fmt;

use jiff::Timestamp;
use rukpak_content::Digest;
use rukpak_crds::{BundleDeploymentStatus, Inventory, Pending, ReleaseRecord, names};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A format, as the provisioner class of a Bundle names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// `plain+v0`: the objects themselves.
    Plain,
    /// `registry+v1`: OLM's; objects are rendered from a ClusterServiceVersion.
    Registry,
    /// `helm+v3`: a chart; objects are what Helm renders.
    Helm,
}

impl Format {
    /// The format that Bundles of a provisioner class have; `None` for classes of other provisioners.
    pub fn of_class(class: &str) -> Option<Self> {
        match class {
            names::CLASS_PLAIN => Some(Self::Plain),
            names::CLASS_REGISTRY => Some(Self::Registry),
            names::CLASS_HELM => Some(Self::Helm),
            _ => None,
        }
    }

    /// Which version of our reading of the format makes the objects: part of the digest over an installation, so that a change
    /// of what we make of the same content applies it again.
    pub fn renderer(self) -> &'static str {
        match self {
            Self::Plain => "plain/1",
            Self::Registry => "registry/3",
            Self::Helm => "helm/1",
        }
    }

    /// The format that [`Display`](fmt::Display) printed.
    pub fn read(name: &str) -> Option<Self> {
        [Self::Plain, Self::Registry, Self::Helm].into_iter().find(|format| format.to_string() == name)
    }
}

/// As media types name it.
impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plain => "plain+v0",
            Self::Registry => "registry+v1",
            Self::Helm => "helm+v3",
        })
    }
}

/// Equal releases give equal objects, but for certificates, which are renewed. Those of a chart do so because what was rendered for one
/// is taken for the other: see [`Release::rendered_in`].
#[derive(Clone, Debug)]
pub struct Release {
    /// The content, as the store names it.
    pub content: Digest,
    /// The format it is read in.
    pub format: Format,
    /// The settings it is rendered with; `None` if there are none.
    pub config: Option<Map<String, Value>>,
    /// What Helm rendered, as the store names it, if the content is a chart that was rendered already.
    pub rendering: Option<Digest>,
}

/// What was rendered follows from the rest, once.
impl PartialEq for Release {
    fn eq(&self, other: &Self) -> bool {
        let Self { content, format, config, rendering: _ } = self;
        (content, format, config) == (&other.content, &other.format, &other.config)
    }
}

impl Eq for Release {}

impl Release {
    /// The release of `content` under the settings of a BundleDeployment.
    pub fn new(content: Digest, format: Format, config: Option<&Map<String, Value>>) -> Self {
        let config = config.map(|config| match format {
            Format::Helm => with_values_as_text(config),
            Format::Plain | Format::Registry => without_nulls(config),
        });
        Self { content, format, config: config.filter(|config| !config.is_empty()), rendering: None }
    }

    /// What a status records; `None` if another version of this program recorded something else.
    pub fn read(record: &ReleaseRecord) -> Option<Self> {
        let format = match &record.format {
            Some(name) => Format::read(name)?,
            None => Format::Plain,
        };
        let rendering = record.rendering.as_ref().and_then(|digest| digest.parse().ok());
        Some(Self { content: record.content_digest.parse().ok()?, format, config: record.config.clone(), rendering })
    }

    /// What an inventory says is installed.
    pub fn installed(inventory: &Inventory) -> Option<Self> {
        let content_digest = inventory.content_digest.clone()?;
        Self::read(&ReleaseRecord {
            content_digest,
            format: inventory.format.clone(),
            config: inventory.config.clone(),
            rendering: inventory.rendering.clone(),
        })
    }

    /// The same release with what was rendered for it, if the status says that it is installed, begun, or in the history.
    #[must_use]
    pub fn rendered_in(self, status: &BundleDeploymentStatus) -> Self {
        if self.rendering.is_some() {
            return self;
        }
        let inventory = status.inventory.as_ref();
        let installed = inventory.and_then(Self::installed);
        let pending = inventory.and_then(|inventory| Self::read(&inventory.pending.as_ref()?.release));
        let history = status.history.iter().filter_map(|revision| Self::read(&revision.release));
        let mut known = installed.into_iter().chain(pending).chain(history).filter(|known| *known == self);
        let rendering = known.find_map(|known| known.rendering);
        Self { rendering, ..self }
    }

    /// As a status records it.
    pub fn record(&self) -> ReleaseRecord {
        ReleaseRecord {
            content_digest: self.content.to_string(),
            format: Some(self.format.to_string()),
            config: self.config.clone(),
            rendering: self.rendering.as_ref().map(ToString::to_string),
        }
    }

    /// Says in an inventory that this is installed.
    pub(crate) fn install_in(&self, inventory: &mut Inventory) {
        let ReleaseRecord { content_digest, format, config, rendering } = self.record();
        inventory.content_digest = Some(content_digest);
        inventory.format = format.filter(|_| self.format != Format::Plain);
        inventory.config = config;
        inventory.rendering = rendering;
    }

    /// Says in an inventory that this is being installed in place of what is, unless it says so already.
    pub fn begin_in(&self, inventory: &mut Inventory, since: Timestamp) {
        let begun = inventory.pending.as_ref().and_then(|pending| Self::read(&pending.release));
        if Self::installed(inventory).as_ref() != Some(self) && begun.as_ref() != Some(self) {
            inventory.pending =
                Some(Pending { release: self.record(), since, migrations: Vec::new(), hooks: Vec::new() });
        }
    }
}

/// Values of a chart are text, as RukPak has them: null in them removes what the chart sets by default, so it is not as good as absent.
fn with_values_as_text(config: &Map<String, Value>) -> Map<String, Value> {
    let kept = config.iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| match value {
        Value::Object(_) if key == names::VALUES => (key.clone(), Value::String(value.to_string())),
        _ => (key.clone(), value.clone()),
    })
    .collect()
}

/// Null is as good as absent, and a status cannot keep it: merge patches take it for a removal.
fn without_nulls(config: &Map<String, Value>) -> Map<String, Value> {
    let kept = config.iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| (key.clone(), stripped(value))).collect()
}

fn stripped(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(without_nulls(map)),
        Value::Array(items) => Value::Array(items.iter().map(stripped).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn release(format: Format, config: &Value) -> Release {
        Release::new(Digest::sha256(b"content"), format, config.as_object())
    }

    #[test]
    fn settings_make_another_release_where_there_are_any() {
        let (none, some) = (Value::Null, json!({"watchNamespace": "a"}));
        for format in [Format::Plain, Format::Registry, Format::Helm] {
            assert_eq!(release(format, &none), release(format, &json!({})));
            assert_ne!(release(format, &none), release(format, &some));
        }
        let nulls =
            json!({"watchNamespace": null, "deploymentConfig": {"env": null, "affinity": {"nodeAffinity": null}}});
        assert_eq!(
            release(Format::Registry, &nulls),
            release(Format::Registry, &json!({"deploymentConfig": {"affinity": {}}}))
        );
    }

    #[test]
    fn an_inventory_keeps_it() {
        let config = json!({"watchNamespace": "a"});
        for release in [release(Format::Plain, &config), release(Format::Registry, &config)] {
            let mut inventory = Inventory::default();
            release.install_in(&mut inventory);
            assert_eq!(Release::installed(&inventory), Some(release.clone()));
            assert_eq!(Release::read(&release.record()), Some(release));
        }
        assert_eq!(Release::installed(&Inventory::default()), None);
    }

    #[test]
    fn values_of_a_chart_are_text_in_which_null_is_kept() {
        let object = release(Format::Helm, &json!({"values": {"a": null}}));
        assert_eq!(object.config, json!({"values": r#"{"a":null}"#}).as_object().cloned());
        assert_eq!(object, release(Format::Helm, &json!({"values": r#"{"a":null}"#})));
    }

    #[test]
    fn what_was_rendered_is_found_in_the_status_of_the_same_release_alone() {
        let (values, others) = (json!({"values": "a: 1"}), json!({"values": "a: 2"}));
        let rendering = Some(Digest::sha256(b"rendering"));
        let installed = Release { rendering: rendering.clone(), ..release(Format::Helm, &values) };
        let mut inventory = Inventory::default();
        installed.install_in(&mut inventory);
        let status = BundleDeploymentStatus { inventory: Some(inventory), ..BundleDeploymentStatus::default() };
        assert_eq!(release(Format::Helm, &values).rendered_in(&status).rendering, rendering);
        assert_eq!(release(Format::Helm, &others).rendered_in(&status).rendering, None);
    }
}
