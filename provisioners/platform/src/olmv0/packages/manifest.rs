//! A package as PackageManifest: what its channels lead to, and what the catalog says of that. Pure; names and order are upstream's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use rukpak_catalog::{Bundle, Channel, Package, graph};
use rukpak_crds::olmv0::CatalogSource;
use serde_json::{Value, json};

use super::request::Rows;
use super::{GROUP, VERSION};

/// How a bundle can be installed; what supports one of them says so.
const MODES: [&str; 4] = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
const ARCHITECTURE: &str = "operatorframework.io/arch.";
const OPERATING_SYSTEM: &str = "operatorframework.io/os.";

/// A package of a CatalogSource.
pub(super) struct Manifest<'a> {
    source: &'a CatalogSource,
    package: &'a Package,
    /// By name, never none: those whose heads are there.
    channels: Vec<Head<'a>>,
    /// The place of the default channel among them.
    default: usize,
}

/// A channel and the bundle that it leads to.
struct Head<'a> {
    channel: &'a Channel,
    bundle: &'a Bundle,
}

impl<'a> Manifest<'a> {
    /// `None` if no channel leads anywhere. Channels that do not are left out; if the default one is, the first takes its place.
    pub fn of(source: &'a CatalogSource, package: &'a Package) -> Option<Self> {
        let head = |channel: &'a Channel| {
            let bundle = package.bundles.get(graph::head(channel).ok()?)?;
            Some(Head { channel, bundle })
        };
        let channels: Vec<Head<'a>> = package.channels.values().filter_map(head).collect();
        if channels.is_empty() {
            return None;
        }
        let is_default = |head: &Head<'_>| Some(&head.channel.name) == package.default_channel.as_ref();
        let default = channels.iter().position(is_default).unwrap_or_default();
        Some(Self { source, package, channels, default })
    }

    /// What names the content of the default channel, without quotes.
    pub fn tag(&self) -> String {
        let head = self.default_head();
        format!("{}.{}.{}", self.package.name, head.channel.name, head.bundle.name)
    }

    /// Those of the CatalogSource, and what the default channel's bundle says.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let facts = &self.default_head().bundle.facts;
        let mut labels = self.source.labels().clone();
        labels.insert("catalog".to_owned(), self.source.name_any());
        labels.insert("catalog-namespace".to_owned(), self.source.namespace().unwrap_or_default());
        for (label, text) in [("provider", &facts.provider), ("provider-url", &facts.provider_url)] {
            labels.insert(label.to_owned(), text.clone().unwrap_or_default());
        }
        for (prefix, known, otherwise) in
            [(ARCHITECTURE, &facts.architectures, "amd64"), (OPERATING_SYSTEM, &facts.operating_systems, "linux")]
        {
            let names = if known.is_empty() { std::slice::from_ref(&otherwise) } else { known.as_slice() };
            labels.extend(names.iter().map(|name| (format!("{prefix}{name}"), "supported".to_owned())));
        }
        labels
    }

    /// The object, as one of `namespace`, or of the CatalogSource's.
    pub fn object(&self, namespace: Option<&str>) -> Value {
        json!({"kind": "PackageManifest", "apiVersion": format!("{GROUP}/{VERSION}"),
            "metadata": self.metadata(namespace), "spec": {}, "status": self.status()})
    }

    /// The object without spec and status.
    pub fn partial(&self, namespace: Option<&str>) -> Value {
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": self.metadata(namespace)})
    }

    /// The row of a table.
    pub fn row(&self, namespace: Option<&str>, rows: Rows, now: Timestamp) -> Value {
        let created = self.source.creation_timestamp().map(|time| time.0);
        let age = created.map_or_else(|| "<unknown>".to_owned(), |created| age(created, now));
        let mut row = json!({"cells": [self.package.name, self.source.spec.display_name, age]});
        match rows {
            Rows::Cells => {}
            Rows::Metadata => row["object"] = self.partial(namespace),
            Rows::Object => row["object"] = self.object(namespace),
        }
        row
    }

    fn default_head(&self) -> &Head<'a> {
        &self.channels[self.default]
    }

    fn metadata(&self, namespace: Option<&str>) -> Value {
        let own = self.source.namespace();
        json!({"name": self.package.name, "namespace": namespace.or(own.as_deref()), "labels": self.labels(),
            "creationTimestamp": self.source.creation_timestamp()})
    }

    fn status(&self) -> Value {
        let (spec, default) = (&self.source.spec, self.default_head());
        let channels: Vec<Value> = self.channels.iter().map(|head| self.channel(head)).collect();
        let mut status = json!({
            "catalogSource": self.source.name_any(), "catalogSourceNamespace": self.source.namespace(),
            "catalogSourceDisplayName": spec.display_name, "catalogSourcePublisher": spec.publisher,
            "provider": provider(default.bundle), "packageName": self.package.name,
            "channels": channels, "defaultChannel": default.channel.name,
        });
        deprecate(&mut status, self.package.deprecation.as_ref());
        status
    }

    fn channel(&self, head: &Head<'_>) -> Value {
        let Head { channel, bundle } = head;
        let mut shown = json!({"name": channel.name, "currentCSV": bundle.name, "currentCSVDesc": described(bundle),
            "entries": self.entries(channel)});
        deprecate(&mut shown, channel.deprecation.as_ref());
        shown
    }

    /// The highest version first.
    fn entries(&self, channel: &Channel) -> Vec<Value> {
        let names: BTreeSet<&str> = channel.entries.iter().map(|entry| entry.name.as_str()).collect();
        let mut bundles: Vec<&Bundle> = names.into_iter().filter_map(|name| self.package.bundles.get(name)).collect();
        bundles.sort_by(|one, other| other.version.cmp(&one.version));
        let shown = bundles.into_iter().map(|bundle| {
            let mut entry = json!({"name": bundle.name, "version": bundle.version_text});
            deprecate(&mut entry, bundle.deprecation.as_ref());
            entry
        });
        shown.collect()
    }
}

/// What is kept of the ClusterServiceVersion: see the documentation for what is not.
fn described(bundle: &Bundle) -> Value {
    let facts = &bundle.facts;
    let mut shown = json!({"displayName": facts.display_name.clone().unwrap_or_default(), "version": bundle.version_text,
        "provider": provider(bundle), "customresourcedefinitions": {}, "apiservicedefinitions": {}});
    // Where the catalog does not say, neither do we: all would read as unsupported.
    if let Some(supported) = &facts.install_modes {
        let mode = |mode: &&str| json!({"type": mode, "supported": supported.iter().any(|known| known == mode)});
        shown["installModes"] = MODES.iter().map(mode).collect();
    }
    if let Some(version) = &facts.min_kube_version {
        shown["minKubeVersion"] = json!(version);
    }
    shown
}

fn provider(bundle: &Bundle) -> Value {
    let facts = &bundle.facts;
    let named = [("name", &facts.provider), ("url", &facts.provider_url)];
    named.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text.as_ref()?)))).collect()
}

fn deprecate(shown: &mut Value, message: Option<&String>) {
    if let Some(message) = message {
        shown["deprecation"] = json!({ "message": message });
    }
}

/// How long ago that was, as kubectl writes it: in the two largest units that still say something.
fn age(created: Timestamp, now: Timestamp) -> String {
    let passed = Duration::try_from(now.duration_since(created)).unwrap_or_default().as_secs();
    let (minutes, hours, days) = (passed / 60, passed / 3600, passed / 86400);
    let two = |large: u64, unit: char, small: u64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match passed {
        0..120 => format!("{passed}s"),
        _ if minutes < 10 => two(minutes, 'm', passed % 60, 's'),
        _ if hours < 3 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if days < 2 => format!("{hours}h"),
        _ if days < 8 => two(days, 'd', hours % 24, 'h'),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rukpak_catalog::Entry;
    use rukpak_catalog::model::Facts;

    use super::*;

    pub fn source() -> CatalogSource {
        let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "community", "namespace": "olm", "labels": {"tier": "free"},
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"sourceType": "grpc", "image": "r.example/c:1", "displayName": "Ours", "publisher": "Us"}});
        serde_json::from_value(object).unwrap()
    }

    /// Channel `stable`: 1.9.0 -> 1.10.0, of which the first is deprecated; `fast`: 2.0.0; `lost` leads to what is not there.
    pub fn package(name: &str) -> Package {
        let mut package =
            Package { name: name.to_owned(), default_channel: Some("stable".to_owned()), ..Package::default() };
        let facts = Facts {
            install_modes: Some(vec!["AllNamespaces".to_owned()]),
            display_name: Some("Pump".to_owned()),
            provider: Some("Water Works".to_owned()),
            ..Facts::default()
        };
        for (channel, version, replaces) in
            [("stable", "1.9.0", None), ("stable", "1.10.0", Some("1.9.0")), ("fast", "2.0.0", None)]
        {
            let bundle = Bundle {
                name: format!("{name}.v{version}"),
                version: version.parse().ok(),
                version_text: version.to_owned(),
                facts: facts.clone(),
                deprecation: (version == "1.9.0").then(|| "is old".to_owned()),
                ..Bundle::default()
            };
            let replaces = replaces.map(|version| format!("{name}.v{version}"));
            let entry = Entry { name: bundle.name.clone(), replaces, ..Entry::default() };
            let new = || Channel { name: channel.to_owned(), ..Channel::default() };
            package.channels.entry(channel.to_owned()).or_insert_with(new).entries.push(entry);
            package.bundles.insert(bundle.name.clone(), bundle);
        }
        let entries = vec![Entry { name: "absent".to_owned(), ..Entry::default() }];
        let lost = Channel { name: "lost".to_owned(), entries, ..Channel::default() };
        package.channels.insert("lost".to_owned(), lost);
        package
    }

    #[test]
    fn a_package_is_shown_with_what_its_channels_lead_to() {
        let (source, package) = (source(), package("pump"));
        let object = Manifest::of(&source, &package).unwrap().object(Some("pumps"));
        let supported = |mode: &str| json!({"type": mode, "supported": mode == "AllNamespaces"});
        let described = |version: &str| {
            json!({"displayName": "Pump", "version": version, "provider": {"name": "Water Works"},
                "customresourcedefinitions": {}, "apiservicedefinitions": {}, "installModes": MODES.map(supported)})
        };
        let expected = json!({
            "kind": "PackageManifest", "apiVersion": "packages.operators.coreos.com/v1", "spec": {},
            "metadata": {"name": "pump", "namespace": "pumps", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {
                "tier": "free", "catalog": "community", "catalog-namespace": "olm", "provider": "Water Works",
                "provider-url": "", "operatorframework.io/arch.amd64": "supported",
                "operatorframework.io/os.linux": "supported"}},
            "status": {
                "catalogSource": "community", "catalogSourceNamespace": "olm", "catalogSourceDisplayName": "Ours",
                "catalogSourcePublisher": "Us", "provider": {"name": "Water Works"}, "packageName": "pump",
                "defaultChannel": "stable", "channels": [
                    {"name": "fast", "currentCSV": "pump.v2.0.0", "currentCSVDesc": described("2.0.0"),
                     "entries": [{"name": "pump.v2.0.0", "version": "2.0.0"}]},
                    {"name": "stable", "currentCSV": "pump.v1.10.0", "currentCSVDesc": described("1.10.0"), "entries": [
                        {"name": "pump.v1.10.0", "version": "1.10.0"},
                        {"name": "pump.v1.9.0", "version": "1.9.0", "deprecation": {"message": "is old"}}]}]},
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn the_first_channel_takes_the_place_of_a_default_one_that_leads_nowhere() {
        let (source, mut package) = (source(), package("pump"));
        package.default_channel = Some("lost".to_owned());
        assert_eq!(Manifest::of(&source, &package).unwrap().tag(), "pump.fast.pump.v2.0.0");
        package.bundles.clear();
        assert!(Manifest::of(&source, &package).is_none());
    }

    #[test]
    fn what_the_bundle_says_of_processors_takes_the_place_of_the_default() {
        let (source, mut package) = (source(), package("pump"));
        package.bundles.get_mut("pump.v1.10.0").unwrap().facts.architectures = vec!["arm64", "s390x"];
        let labels = Manifest::of(&source, &package).unwrap().labels();
        let names: Vec<&str> = labels.keys().filter_map(|label| label.strip_prefix("operatorframework.io/")).collect();
        assert_eq!(names, ["arch.arm64", "arch.s390x", "os.linux"]);
    }

    #[test]
    fn ages_are_written_as_kubectl_writes_them() {
        let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let after = |seconds: i64| age(created, created + jiff::SignedDuration::from_secs(seconds));
        let (hour, day) = (3600, 86400);
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (600, "10m"),
            (2 * hour, "120m"),
            (3 * hour, "3h"),
            (3 * hour + 60, "3h1m"),
            (9 * hour + 60, "9h"),
            (2 * day + hour, "2d1h"),
            (9 * day + hour, "9d"),
            (800 * day, "2y70d"),
        ] {
            assert_eq!(after(seconds), expected);
        }
    }
}
