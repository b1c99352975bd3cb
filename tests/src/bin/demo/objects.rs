//! What a BundleDeployment has in the cluster, found as an administrator would find it: by its owner labels.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use serde_json::Value;

/// Objects by what they are called.
#[derive(Default)]
pub struct Objects(BTreeMap<String, Object>);

struct Object {
    target: Target,
    uid: String,
    /// The object without what the API server and others keep writing.
    content: Value,
}

/// How one set of objects differs from another.
#[derive(Default)]
pub struct Difference {
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub pruned: Vec<String>,
    pub same: usize,
}

/// The label selector for the objects of a BundleDeployment.
pub fn selector(deployment: &str) -> String {
    format!("core.rukpak.io/owner-kind=BundleDeployment,core.rukpak.io/owner-name={deployment}")
}

impl Objects {
    /// The objects of the kinds that the deployment's inventory lists.
    pub async fn of(client: &Client, deployment: &DynamicObject) -> Result<Self> {
        let name = deployment.metadata.name.as_deref().context("a BundleDeployment without a name")?;
        let kinds = deployment.data.pointer("/status/inventory/kinds").and_then(Value::as_array);
        let mut found = Self::default();
        for kind in kinds.context("the BundleDeployment has no inventory")? {
            let text = |key: &str| kind[key].as_str().unwrap_or_default();
            let api_version = match text("group") {
                "" => text("version").to_owned(),
                group => format!("{group}/{}", text("version")),
            };
            found.list(client, &api_version, text("kind"), name).await?;
        }
        Ok(found)
    }

    async fn list(&mut self, client: &Client, api_version: &str, kind: &str, deployment: &str) -> Result<()> {
        for mut object in verbs::list(client, api_version, kind, &selector(deployment)).await? {
            let metadata = &mut object.metadata;
            let target = Target {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone().unwrap_or_default(),
            };
            let uid = metadata.uid.take().unwrap_or_default();
            metadata.managed_fields = None;
            metadata.resource_version = None;
            metadata.generation = None;
            if let Some(annotations) = &mut metadata.annotations {
                annotations.remove("deployment.kubernetes.io/revision");
            }
            object.types = None;
            if let Some(data) = object.data.as_object_mut() {
                data.remove("status");
            }
            self.0.insert(named(&target), Object { target, uid, content: serde_json::to_value(&object)? });
        }
        Ok(())
    }

    /// What carries the labels now, of the kinds that these are of.
    pub async fn left(&self, client: &Client, deployment: &str) -> Result<Self> {
        let kinds: BTreeSet<(&str, &str)> =
            self.targets().map(|target| (target.api_version.as_str(), target.kind.as_str())).collect();
        let mut found = Self::default();
        for (api_version, kind) in kinds {
            found.list(client, api_version, kind, deployment).await?;
        }
        Ok(found)
    }

    /// How `self` differs from `before`.
    pub fn since(&self, before: &Self) -> Difference {
        let mut difference = Difference::default();
        for (name, object) in &self.0 {
            match before.0.get(name) {
                None => difference.added.push(name.clone()),
                Some(old) if old.uid != object.uid || old.content != object.content => {
                    difference.changed.push(name.clone());
                }
                Some(_) => difference.same += 1,
            }
        }
        difference.pruned = before.0.keys().filter(|name| !self.0.contains_key(*name)).cloned().collect();
        difference
    }

    /// Where they are.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.0.values().map(|object| &object.target)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A table of kinds, namespaces and names.
    pub fn table(&self) -> Vec<String> {
        let header = ["KIND", "NAMESPACE", "NAME"].map(str::to_owned).to_vec();
        let mut rows: Vec<Vec<String>> = self
            .targets()
            .map(|target| vec![target.kind.clone(), target.namespace.clone().unwrap_or_default(), target.name.clone()])
            .collect();
        rows.sort();
        rows.insert(0, header);
        aligned(&rows)
    }
}

impl Difference {
    /// One line an object: `+` added, `~` changed, `-` pruned.
    pub fn lines(&self) -> Vec<String> {
        let marked =
            |mark: char, names: &[String]| names.iter().map(|name| format!("  {mark} {name}")).collect::<Vec<_>>();
        [marked('+', &self.added), marked('~', &self.changed), marked('-', &self.pruned)].concat()
    }

    /// Whether nothing differs.
    pub fn is_none(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.pruned.is_empty()
    }
}

/// Kind, group and name, as kubectl names objects: `deployment.apps/name`.
pub fn named(target: &Target) -> String {
    let kind = target.kind.to_lowercase();
    match target.api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", target.name),
        None => format!("{kind}/{}", target.name),
    }
}

/// Rows as columns three spaces apart.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("   ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
