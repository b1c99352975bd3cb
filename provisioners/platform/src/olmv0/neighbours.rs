//! The same package in other namespaces: where it may not be installed beside them, and which of them has the roles for users. From memory;
//! the decisions are pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::ResourceExt;
use rukpak_crds::olmv0::PACKAGE;
use rukpak_crds::{BundleDeployment, config};
use serde_json::Value;

use super::context::Context;
use super::membership::{CONFLICT, Group, Membership};
use super::unit::Unit;

/// What the OperatorGroups make of a package in a namespace: those of the namespace, and those of others that have the package.
pub(super) fn membership(unit: &Unit, context: &Context) -> Membership {
    let membership = context.membership(&unit.namespace);
    let Membership::One(group) = &membership else { return membership };
    let (own, others) = installed(unit, context);
    match rival(unit, group, own.as_deref(), &others) {
        Some(namespace) => conflict(&unit.package, &namespace),
        None => membership,
    }
}

/// Whether the roles for users are those of the package in another namespace: they are of the cluster, and one installation has them.
pub(super) fn have_roles(unit: &Unit, context: &Context) -> bool {
    let (own, others) = installed(unit, context);
    others
        .iter()
        .any(|other| has_roles(other) && own.as_ref().is_none_or(|own| !has_roles(own) || !is_older(own, other)))
}

/// The BundleDeployment of a package in a namespace, and those of the package in others.
fn installed(unit: &Unit, context: &Context) -> (Option<Arc<BundleDeployment>>, Vec<Arc<BundleDeployment>>) {
    let mut all = context.deployments.state();
    all.retain(|one| one.annotations().get(PACKAGE) == Some(&unit.package) && Unit::of(one).is_some());
    let own = all.iter().position(|one| one.name_any() == unit.name()).map(|place| all.remove(place));
    (own, all)
}

/// The namespace of an installation that watches some of the group's targets. Whoever watches them already goes on if it was there first.
fn rival(
    unit: &Unit,
    group: &Group,
    own: Option<&BundleDeployment>,
    others: &[Arc<BundleDeployment>],
) -> Option<String> {
    let settled = own.filter(|own| targets(own) == group.targets);
    let is_rival = |other: &BundleDeployment, namespace: &str| {
        meet((&unit.namespace, &group.targets), (namespace, &targets(other)))
            && settled.is_none_or(|own| !is_older(own, other))
    };
    others.iter().find_map(|other| Unit::of(other).map(|unit| unit.namespace).filter(|space| is_rival(other, space)))
}

fn conflict(package: &str, namespace: &str) -> Membership {
    let message = format!(
        "intersecting operatorgroups provide the same apis: package {package} is installed in namespace {namespace}, whose OperatorGroup \
         has some of the same targets"
    );
    Membership::Unfit { reason: CONFLICT, message }
}

/// The namespaces that an installation watches, as its settings say; one empty name stands for all.
fn targets(deployment: &BundleDeployment) -> Vec<String> {
    let setting = |key: &str| deployment.spec.config.as_ref().and_then(|settings| settings.get(key));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(several) = setting("watchNamespaces").and_then(Value::as_array) {
        return several.iter().filter_map(text).collect();
    }
    vec![setting("watchNamespace").and_then(text).unwrap_or_default()]
}

/// Whether two installations have a namespace in common: each has its own as well.
fn meet((one, targets): (&str, &[String]), (other, others): (&str, &[String])) -> bool {
    let mut both = targets.iter().chain(others);
    if both.any(String::is_empty) {
        return true;
    }
    let ours: BTreeSet<&str> = targets.iter().map(String::as_str).chain([one]).collect();
    others.iter().map(String::as_str).chain([other]).any(|space| ours.contains(space))
}

/// Whether an installation has the roles for users, as its settings say.
pub(super) fn has_roles(deployment: &BundleDeployment) -> bool {
    let said = deployment.spec.config.as_ref().and_then(|settings| settings.get(config::API_ROLES));
    said == Some(&Value::Bool(true))
}

fn is_older(one: &BundleDeployment, other: &BundleDeployment) -> bool {
    let age = |deployment: &BundleDeployment| {
        (deployment.metadata.creation_timestamp.as_ref().map(|time| time.0), deployment.name_any())
    };
    age(one) < age(other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn unit(namespace: &str) -> Unit {
        Unit { namespace: namespace.to_owned(), package: "pump".to_owned() }
    }

    fn group(targets: &[&str]) -> Group {
        let targets = targets.iter().map(|target| (*target).to_owned()).collect();
        Group { name: "g".to_owned(), targets, account: None }
    }

    /// One in a namespace, made in this year, that watches these namespaces.
    fn installation(namespace: &str, year: u16, watched: &[&str]) -> Arc<BundleDeployment> {
        let settings = match watched {
            [""] => json!({}),
            [only] => json!({"watchNamespace": only}),
            several => json!({"watchNamespaces": several}),
        };
        let metadata = json!({"name": format!("pump.{namespace}"), "creationTimestamp": format!("{year}-01-01T00:00:00Z"),
            "labels": {rukpak_crds::olmv0::NAMESPACE_LABEL: namespace}, "annotations": {PACKAGE: "pump"}});
        let spec = json!({"provisionerClassName": "c", "config": settings,
            "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
    }

    #[test]
    fn only_targets_that_meet_are_in_the_way() {
        let refused = |targets: &[&str], watched: &[&str]| {
            rival(&unit("a"), &group(targets), None, &[installation("b", 2026, watched)])
        };
        for (targets, watched) in [(["a"], ["b"]), (["c"], ["d"])] {
            assert_eq!(refused(&targets, &watched), None, "{targets:?} {watched:?}");
        }
        for (targets, watched) in [(["a"], [""]), ([""], ["b"]), (["c"], ["c"]), (["b"], ["d"]), (["c"], ["a"])] {
            assert_eq!(refused(&targets, &watched).as_deref(), Some("b"), "{targets:?} {watched:?}");
        }
        assert_eq!(refused(&["c", "d"], &["d", "e"]).as_deref(), Some("b"));
    }

    #[test]
    fn whoever_was_there_first_goes_on_and_takes_no_targets_of_another() {
        let (old, young) = (installation("a", 2025, &[""]), installation("b", 2026, &[""]));
        let refused = |space: &str, own: &Arc<BundleDeployment>, other: &Arc<BundleDeployment>, targets: &[&str]| {
            rival(&unit(space), &group(targets), Some(&**own), std::slice::from_ref(other))
        };
        assert_eq!(refused("a", &old, &young, &[""]), None);
        assert_eq!(refused("b", &young, &old, &[""]).as_deref(), Some("a"));
        let (old, young) = (installation("a", 2025, &["a"]), installation("b", 2026, &["b"]));
        assert_eq!(refused("a", &old, &young, &["a", "b"]).as_deref(), Some("b"), "it watches b only from now on");
        assert_eq!(refused("b", &young, &old, &["b"]), None);
    }
}
