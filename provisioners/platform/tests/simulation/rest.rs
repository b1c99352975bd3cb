//! What has to hold of packages when nothing happens any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use rukpak_crds::names::UPGRADED_WITH;
use serde_json::Value;

use crate::cluster::State;
use crate::packages::{all_offers, offers};
use crate::properties::deployments;
use crate::server::{Key, Object};
use crate::story::Told;

/// An object that asks for a package.
struct Asking<'a> {
    key: &'a Key,
    object: &'a Arc<Object>,
    package: &'a str,
    /// The version that its status calls installed.
    says: Option<&'a str>,
    /// The versions that are installed for it: one at most.
    has: Vec<&'static str>,
}

/// Says what is wrong with the packages.
pub fn wrong(state: &State, told: &Told) -> Option<String> {
    let all = all(state, told);
    let wrong = all.iter().find_map(|asking| {
        let Asking { key, object, .. } = asking;
        let wrong = of_one(state, asking, &all)?;
        Some(format!("{} {:?}: {wrong}; its status is {}", key.kind, key.name, object.value["status"]))
    });
    wrong.or_else(|| apart(&all)).map(|wrong| format!("at rest, {wrong}"))
}

fn all<'a>(state: &'a State, told: &Told) -> Vec<Asking<'a>> {
    let objects = &state.server.objects;
    let deployments = deployments(objects);
    let installed = |owner: &Object| {
        let is_owned = |name: &str| {
            let owners = objects[&Key::new("BundleDeployment", name)].value["metadata"]["ownerReferences"].as_array();
            owners.into_iter().flatten().any(|reference| reference["uid"] == owner.uid.as_str())
        };
        let own = deployments.iter().filter(|this| is_owned(&this.name));
        own.filter_map(|this| this.installed(told)).map(|release| told.story.packaged[release].1).collect()
    };
    let asking = |(key, object): (&'a Key, &'a Arc<Object>)| {
        let (spec, status) = (&object.value["spec"], &object.value["status"]);
        let (package, says) = match key.kind.as_str() {
            "ClusterExtension" => (&spec["source"]["catalog"]["packageName"], &status["install"]["bundle"]["version"]),
            "PlatformOperator" => (&spec["package"]["name"], &status["source"]["version"]),
            _ => return None,
        };
        Some(Asking { key, object, package: package.as_str()?, says: says.as_str(), has: installed(object) })
    };
    objects.iter().filter(|(_, object)| !object.is_terminating).filter_map(asking).collect()
}

fn of_one(state: &State, asking: &Asking<'_>, all: &[Asking<'_>]) -> Option<String> {
    let Asking { object, package, says, has, .. } = asking;
    if has.len() > 1 {
        return Some(format!("it has {has:?} installed"));
    }
    let has = has.first().copied();
    if *says != has {
        return Some(format!("its status says that {says:?} is installed, and that is {has:?}"));
    }
    let conditions = object.value["status"]["conditions"].as_array().into_iter().flatten();
    let is_late = |condition: &&Value| condition["observedGeneration"].as_u64() != object.generation;
    if let Some(late) = conditions.into_iter().find(is_late) {
        return Some(format!("{} is of another generation", late["type"]));
    }

    let newest = newest(state, package, has)?;
    // A package that is held at its version may hold others, and one that another object has is not for two.
    let is_pinned = |one: &Asking<'_>| one.object.value["spec"]["source"]["catalog"]["version"].is_string();
    let is_elsewhere = all.iter().any(|one| one.package == *package && one.key != asking.key && !one.has.is_empty());
    let is_held = !state.server.refused.is_empty()
        || is_elsewhere
        || all.iter().any(is_pinned)
        || state.server.objects.values().any(|object| has_failed(object));
    (has != Some(newest) && !is_held).then(|| format!("{newest} is offered, and {has:?} is installed"))
}

/// The newest version that the catalog offers, if it is available and leads there from what is installed.
fn newest(state: &State, package: &str, installed: Option<&str>) -> Option<&'static str> {
    let catalog = state.server.objects.get(&Key::new("ClusterCatalog", "c"))?;
    let spec = &catalog.value["spec"];
    if catalog.is_terminating || spec["availabilityMode"] == "Unavailable" {
        return None;
    }
    let offered = offers(spec["source"]["image"]["ref"].as_str()?).iter().filter(|offer| package == offer.package);
    let versions: Vec<&str> = offered.map(|offer| offer.version).collect();
    let is_known = installed.is_none_or(|installed| versions.contains(&installed));
    versions.last().copied().filter(|_| is_known)
}

/// Whether upgrades that go together have failed, and are not tried again.
fn has_failed(deployment: &Object) -> bool {
    let noted = deployment.value["metadata"]["annotations"][UPGRADED_WITH].as_str();
    noted.is_some_and(|noted| noted.contains("\"failure\""))
}

/// Says which package needs another version of a package than is installed, and which package two objects have installed.
fn apart(all: &[Asking<'_>]) -> Option<String> {
    let mut installed: BTreeMap<&str, &str> = BTreeMap::new();
    for Asking { package, has, .. } in all {
        for version in has {
            if installed.insert(package, version).is_some() {
                return Some(format!("{package} is installed twice"));
            }
        }
    }
    installed.iter().find_map(|(package, version)| {
        let offer = all_offers().find(|offer| offer.package == *package && offer.version == *version)?;
        let is_other = |needed: &&(&str, &str)| installed.get(needed.0).is_some_and(|other| *other != needed.1);
        let (needed, wanted) = offer.requires.iter().find(is_other)?;
        Some(format!("{package} {version} needs {needed} {wanted}, and there is {}", installed[needed]))
    })
}
