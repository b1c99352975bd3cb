//! What a deployment has installed, or is about to: a content, and how its objects are made from it. Pure.

use rukpak_content::Digest;
use rukpak_crds::Inventory;
use serde_json::{Map, Value};

use crate::format::{Certificates, Format};

/// Equal releases give equal objects, but for certificates, which are renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The content, as the store names it.
    pub content: Digest,
    /// The format it is read in.
    pub format: Format,
    /// The settings it is rendered with; `None` where the format has no use for them.
    pub config: Option<Map<String, Value>>,
}

impl Release {
    /// The release of `content` under the settings of a BundleDeployment.
    pub fn new(content: Digest, format: Format, config: Option<&Map<String, Value>>) -> Self {
        let config = config.filter(|_| format == Format::Registry).map(without_nulls);
        Self { content, format, config: config.filter(|config| !config.is_empty()) }
    }

    /// What an inventory says is installed.
    pub fn read(inventory: &Inventory) -> Option<Self> {
        let content = inventory.content_digest.as_ref()?.parse().ok()?;
        let format = match &inventory.format {
            Some(name) => Format::read(name)?,
            None => Format::Plain,
        };
        Some(Self { content, format, config: inventory.config.clone() })
    }

    /// Says in an inventory that this is installed.
    pub fn write(&self, inventory: &mut Inventory) {
        inventory.content_digest = Some(self.content.to_string());
        inventory.format = (self.format != Format::Plain).then(|| self.format.to_string());
        inventory.config.clone_from(&self.config);
    }

    /// What made the objects, for the digest over an installation.
    pub fn renderer(&self, certificates: Certificates) -> String {
        let renderer = match self.format {
            Format::Plain => return self.format.renderer().to_owned(),
            Format::Registry => format!("{} {certificates:?}", self.format.renderer()),
        };
        match &self.config {
            None => renderer,
            Some(config) => {
                let digest = Digest::sha256(Value::Object(config.clone()).to_string().as_bytes());
                format!("{renderer} {digest}")
            }
        }
    }
}

/// Null is as good as absent, and a status cannot keep it: merge patches take it for a removal.
fn without_nulls(config: &Map<String, Value>) -> Map<String, Value> {
    let kept = config.iter().filter(|(_, value)| !value.is_null());
    kept.map(|(key, value)| (key.clone(), bare(value))).collect()
}

fn bare(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(without_nulls(map)),
        Value::Array(items) => Value::Array(items.iter().map(bare).collect()),
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
    fn settings_make_another_release_only_where_they_are_used() {
        let (none, some) = (Value::Null, json!({"watchNamespace": "a"}));
        assert_eq!(release(Format::Plain, &none), release(Format::Plain, &some));
        assert_eq!(release(Format::Registry, &none), release(Format::Registry, &json!({})));
        assert_ne!(release(Format::Registry, &none), release(Format::Registry, &some));
        let renderer = |config| release(Format::Registry, config).renderer(Certificates::SelfManaged);
        assert_ne!(renderer(&none), renderer(&some));
        assert_ne!(renderer(&none), release(Format::Registry, &none).renderer(Certificates::CertManager));
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
            release.write(&mut inventory);
            assert_eq!(Release::read(&inventory), Some(release));
        }
        assert_eq!(Release::read(&Inventory::default()), None);
    }
}
