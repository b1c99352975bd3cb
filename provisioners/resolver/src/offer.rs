//! A catalog as it was read becomes what a resolution looks at.

use std::collections::BTreeMap;
use std::sync::Arc;

use rukpak_catalog::model::{self, Gvk};
use serde_json::{Value, json};

use crate::{Catalog, CatalogName, Entry, Facts, Package, Property};

impl Catalog {
    /// The catalog `name`, and of each bundle that was left out what of its requirements cannot be read, by the bundle's name.
    ///
    /// Rules in CEL see of the properties what the catalog's model keeps: packages and APIs.
    pub fn of(name: CatalogName, priority: i32, catalog: &rukpak_catalog::Catalog) -> (Self, BTreeMap<String, String>) {
        Self::of_some(name, priority, catalog, |_| true)
    }

    /// The same with nothing but the packages that are `wanted`.
    pub(crate) fn of_some(
        name: CatalogName,
        priority: i32,
        catalog: &rukpak_catalog::Catalog,
        wanted: impl Fn(&str) -> bool,
    ) -> (Self, BTreeMap<String, String>) {
        let mut left_out = BTreeMap::new();
        let packages = catalog.packages.values().filter(|package| wanted(&package.name)).map(|package| {
            let mut facts: BTreeMap<&str, Arc<Facts>> = BTreeMap::new();
            for bundle in package.bundles.values() {
                match Facts::of(&package.name, bundle) {
                    Ok(read) => {
                        facts.insert(&bundle.name, Arc::new(read));
                    }
                    Err(problem) => {
                        left_out.insert(bundle.name.clone(), problem);
                    }
                }
            }
            let channels = package.channels.values().map(|channel| {
                let entries = channel.entries.iter().filter_map(|entry| {
                    let is_deprecated =
                        [&package.deprecation, &channel.deprecation, &package.bundles.get(&entry.name)?.deprecation];
                    Some(Entry {
                        name: entry.name.clone(),
                        replaces: entry.replaces.clone(),
                        skips: entry.skips.clone(),
                        skip_range: entry.skipped_versions(),
                        is_deprecated: is_deprecated.iter().any(|text| text.is_some()),
                        facts: facts.get(entry.name.as_str())?.clone(),
                    })
                });
                (channel.name.clone(), entries.collect())
            });
            let offered = Package { default_channel: package.default_channel.clone(), channels: channels.collect() };
            (package.name.clone(), offered)
        });
        let packages = packages.collect();
        (Self { name, priority, packages }, left_out)
    }
}

impl Facts {
    /// Facts of a bundle of `package`, as its catalog states them.
    ///
    /// # Errors
    /// What of its requirements cannot be read.
    pub fn of(package: &str, bundle: &model::Bundle) -> Result<Self, String> {
        let property = |kind: &str, value: Value| Property { kind: kind.to_owned(), value };
        let api = |kind: &str, Gvk { group, version, kind: name }: &Gvk| {
            property(kind, json!({"group": group, "version": version, "kind": name}))
        };
        let stated = &bundle.facts;
        let mut properties =
            vec![property("olm.package", json!({"packageName": package, "version": bundle.version_text}))];
        properties.extend(stated.provides.iter().map(|gvk| api("olm.gvk", gvk)));
        properties.extend(stated.requires.iter().map(|gvk| api("olm.gvk.required", gvk)));
        properties.extend(stated.requires_packages.iter().map(|required| {
            property("olm.package.required", json!({"packageName": required.name, "versionRange": required.range}))
        }));
        for text in &stated.constraints {
            let value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            properties.push(property("olm.constraint", value));
        }
        Self::read(bundle.version.clone(), properties).map_err(|error| error.to_string())
    }
}
