//! What a deployment has installed, or is about to: a content, and how its objects are made from it.

use std::fmt;

use jiff::Timestamp;
use rukpak_content::Digest;
use rukpak_crds::{Inventory, Pending, ReleaseRecord, names};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A format, as the provisioner class of a Bundle names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// `plain+v0`: the objects themselves.
    Plain,
    /// `registry+v1`: OLM's; objects are rendered from a ClusterServiceVersion.
    Registry,
}

impl Format {
    /// The format that Bundles of a provisioner class have; `None` for classes of other provisioners.
    pub fn of_class(class: &str) -> Option<Self> {
        match class {
            names::CLASS_PLAIN => Some(Self::Plain),
            names::CLASS_REGISTRY => Some(Self::Registry),
            _ => None,
        }
    }

    /// Which version of our reading of the format makes the objects: part of the digest over an installation, so that a change
    /// of what we make of the same content applies it again.
    pub fn renderer(self) -> &'static str {
        match self {
            Self::Plain => "plain/1",
            Self::Registry => "registry/1",
        }
    }

    /// The format that [`Display`](fmt::Display) printed.
    pub fn read(name: &str) -> Option<Self> {
        [Self::Plain, Self::Registry].into_iter().find(|format| format.to_string() == name)
    }
}

/// As media types name it.
impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plain => "plain+v0",
            Self::Registry => "registry+v1",
        })
    }
}

/// Equal releases give equal objects, but for certificates, which are renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The content, as the store names it.
    pub content: Digest,
    /// The format it is read in.
    pub format: Format,
    /// The settings it is rendered with; `None` if there are none.
    pub config: Option<Map<String, Value>>,
}

impl Release {
    /// The release of `content` under the settings of a BundleDeployment.
    pub fn new(content: Digest, format: Format, config: Option<&Map<String, Value>>) -> Self {
        let config = config.map(without_nulls).filter(|config| !config.is_empty());
        Self { content, format, config }
    }

    /// What a status records; `None` if another version of this program recorded something else.
    pub fn read(record: &ReleaseRecord) -> Option<Self> {
        let format = match &record.format {
            Some(name) => Format::read(name)?,
            None => Format::Plain,
        };
        Some(Self { content: record.content_digest.parse().ok()?, format, config: record.config.clone() })
    }

    /// What an inventory says is installed.
    pub fn installed(inventory: &Inventory) -> Option<Self> {
        let content_digest = inventory.content_digest.clone()?;
        Self::read(&ReleaseRecord {
            content_digest,
            format: inventory.format.clone(),
            config: inventory.config.clone(),
        })
    }

    /// As a status records it.
    pub fn record(&self) -> ReleaseRecord {
        ReleaseRecord {
            content_digest: self.content.to_string(),
            format: Some(self.format.to_string()),
            config: self.config.clone(),
        }
    }

    /// Says in an inventory that this is installed.
    pub fn install_in(&self, inventory: &mut Inventory) {
        let ReleaseRecord { content_digest, format, config } = self.record();
        inventory.content_digest = Some(content_digest);
        inventory.format = format.filter(|_| self.format != Format::Plain);
        inventory.config = config;
    }

    /// Says in an inventory that this is being installed in place of what is, unless it says so already.
    pub fn begin_in(&self, inventory: &mut Inventory, since: Timestamp) {
        let begun = inventory.pending.as_ref().and_then(|pending| Self::read(&pending.release));
        if Self::installed(inventory).as_ref() != Some(self) && begun.as_ref() != Some(self) {
            inventory.pending = Some(Pending { release: self.record(), since });
        }
    }
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
        for format in [Format::Plain, Format::Registry] {
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
}
