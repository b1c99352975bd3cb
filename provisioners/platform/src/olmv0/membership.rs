//! OperatorGroups: which namespaces the operators of a namespace watch. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::core::{Selector, SelectorExt as _};
use kube::{Resource, ResourceExt};
use rukpak_crds::olmv0::operator_group::OperatorGroupSpec;
use rukpak_crds::olmv0::service_version::InstallMode;
use rukpak_crds::olmv0::{OperatorGroup, Subscription};

/// The reason where another OperatorGroup has some of the targets, and the package; OLM's.
pub(super) const CONFLICT: &str = "InterOperatorGroupOwnerConflict";

/// What the OperatorGroups of a namespace make of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// There is one.
    One(Group),
    /// Nothing may be installed: reason and message are those of OLM.
    Unfit { reason: &'static str, message: String },
}

/// The OperatorGroup of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub name: String,
    /// Namespaces that are watched, sorted; one empty name stands for all.
    pub targets: Vec<String>,
    /// The ServiceAccount whose rights are used; the controller's, if there is none.
    pub account: Option<String>,
}

impl Membership {
    pub fn group(&self) -> Option<&Group> {
        match self {
            Self::One(group) => Some(group),
            Self::Unfit { .. } => None,
        }
    }
}

/// What follows from the OperatorGroups of one namespace. Pure.
pub(super) fn membership(groups: &[Arc<OperatorGroup>], namespaces: &[Arc<Namespace>]) -> Membership {
    let mut there = groups.iter().filter(|group| group.meta().deletion_timestamp.is_none());
    let unfit = |reason, message: &str| Membership::Unfit { reason, message: message.to_owned() };
    let (Some(group), others) = (there.next(), there.count()) else {
        return unfit("NoOperatorGroup", "csv in namespace with no operatorgroups");
    };
    if others > 0 {
        let message = "csv created in namespace with multiple operatorgroups, can't pick one automatically";
        return unfit("TooManyOperatorGroups", message);
    }
    let targets = match targets(&group.spec, namespaces) {
        Ok(targets) => targets,
        Err(message) => return Membership::Unfit { reason: "NoTargetNamespaces", message },
    };
    if targets.is_empty() {
        return unfit("NoTargetNamespaces", "no targetNamespaces are matched operatorgroups namespace selection");
    }
    let account = Some(group.spec.service_account_name.clone()).filter(|name| !name.is_empty());
    Membership::One(Group { name: group.name_any(), targets, account })
}

/// The namespaces that a spec targets, sorted; one empty name stands for all.
pub(super) fn targets(spec: &OperatorGroupSpec, namespaces: &[Arc<Namespace>]) -> Result<Vec<String>, String> {
    if !spec.target_namespaces.is_empty() {
        let named: BTreeSet<String> = spec.target_namespaces.iter().cloned().collect();
        if named.contains("") {
            return Err("spec.targetNamespaces has an empty name: leave the field out to target all namespaces".into());
        }
        return Ok(named.into_iter().collect());
    }
    let selector = spec.selector.clone().unwrap_or_default();
    if selector.match_labels.as_ref().is_none_or(std::collections::BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
    {
        return Ok(vec![String::new()]);
    }
    let selector = Selector::try_from(selector).map_err(|error| format!("spec.selector: {error}"))?;
    let chosen = namespaces.iter().filter(|namespace| selector.matches(namespace.labels()));
    let chosen: BTreeSet<String> = chosen.map(|namespace| namespace.name_any()).collect();
    Ok(chosen.into_iter().collect())
}

/// Whether a Subscription waits for another one of its package to go, or to watch other namespaces.
pub(super) fn is_in_conflict(subscription: &Subscription) -> bool {
    let mut conditions = subscription.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.reason == CONFLICT)
}

/// Why an operator with these modes cannot watch `targets` from the namespace `own`; the words are OLM's. Pure.
pub(super) fn unsupported(modes: &[InstallMode], own: &str, targets: &[String]) -> Option<String> {
    let supports = |name: &str| modes.iter().any(|mode| mode.type_ == name && mode.supported);
    let refusal = |mode: &str, what: &str| {
        (!supports(mode)).then(|| format!("{mode} InstallModeType not supported, cannot configure to watch {what}"))
    };
    match targets {
        [] => {
            Some("operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces".to_owned())
        }
        [all] if all.is_empty() => refusal("AllNamespaces", "all namespaces"),
        [only] if only == own => refusal("OwnNamespace", "own namespace"),
        [_] => refusal("SingleNamespace", "one namespace"),
        several => {
            let own_too = several.iter().any(|target| target == own);
            let own = if own_too { refusal("OwnNamespace", "own namespace") } else { None };
            refusal("MultiNamespace", &format!("{} namespaces", several.len())).or(own)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn group(name: &str, spec: &Value) -> Arc<OperatorGroup> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "namespace": "own"}, "spec": spec})).unwrap())
    }

    fn namespaces() -> Vec<Arc<Namespace>> {
        let namespace = |name: &str, labels: Value| {
            Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap())
        };
        vec![namespace("b", json!({"team": "x"})), namespace("a", json!({"team": "x"})), namespace("c", json!({}))]
    }

    fn targets_of(spec: &Value) -> Vec<String> {
        membership(&[group("g", spec)], &namespaces()).group().map(|group| group.targets.clone()).unwrap_or_default()
    }

    #[test]
    fn targets_are_named_chosen_or_all() {
        assert_eq!(targets_of(&json!({})), [""]);
        assert_eq!(targets_of(&json!({"selector": {}})), [""]);
        assert_eq!(targets_of(&json!({"targetNamespaces": ["z", "own"]})), ["own", "z"]);
        assert_eq!(targets_of(&json!({"selector": {"matchLabels": {"team": "x"}}})), ["a", "b"]);
        let named = json!({"targetNamespaces": ["z"], "selector": {"matchLabels": {"team": "x"}}});
        assert_eq!(targets_of(&named), ["z"], "names win");
    }

    #[test]
    fn there_must_be_one_that_chooses_something() {
        let reason = |groups: &[Arc<OperatorGroup>]| match membership(groups, &namespaces()) {
            Membership::Unfit { reason, .. } => reason,
            Membership::One(_) => "",
        };
        assert_eq!(reason(&[]), "NoOperatorGroup");
        let any = || group("g", &json!({}));
        assert_eq!(reason(&[any()]), "");
        assert_eq!(reason(&[any(), group("h", &json!({}))]), "TooManyOperatorGroups");
        let nothing = json!({"selector": {"matchLabels": {"team": "y"}}});
        assert_eq!(reason(&[group("g", &nothing)]), "NoTargetNamespaces");
        assert_eq!(reason(&[group("g", &json!({"targetNamespaces": ["", "a"]}))]), "NoTargetNamespaces");
        let bound = membership(&[group("g", &json!({"serviceAccountName": "installer"}))], &[]);
        assert_eq!(bound.group().and_then(|group| group.account.as_deref()), Some("installer"));
    }

    #[test]
    fn modes_are_held_against_targets_in_olms_words() {
        let modes = |names: &[&str]| -> Vec<InstallMode> {
            names.iter().map(|name| InstallMode { type_: (*name).to_owned(), supported: true }).collect()
        };
        let refused = |modes: &[InstallMode], targets: &[&str]| {
            let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
            unsupported(modes, "own", &targets)
        };
        let all = modes(&["AllNamespaces"]);
        assert_eq!(refused(&all, &[""]), None);
        let text = "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace";
        assert_eq!(refused(&all, &["own"]).as_deref(), Some(text));
        let own = modes(&["OwnNamespace"]);
        assert_eq!(refused(&own, &["own"]), None);
        let text = "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces";
        assert_eq!(refused(&own, &[""]).as_deref(), Some(text));
        let text = "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace";
        assert_eq!(refused(&own, &["other"]).as_deref(), Some(text));
        let text = "MultiNamespace InstallModeType not supported, cannot configure to watch 2 namespaces";
        assert_eq!(refused(&own, &["a", "b"]).as_deref(), Some(text));
        assert_eq!(refused(&modes(&["MultiNamespace"]), &["a", "b"]), None);
        assert!(refused(&modes(&["MultiNamespace"]), &["a", "own"]).is_some());
    }
}
