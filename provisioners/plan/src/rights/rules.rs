//! As few rules as say the same as some rights, in a fixed order.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::rights::held::is_broad;
use crate::rights::right::{Right, Rights, Scope};

/// Rules, by where they count.
pub type Rules = BTreeMap<Scope, Vec<PolicyRule>>;

/// Verbs, by the names that they are for; `None` stands for all names.
type ByName<'a> = BTreeMap<Option<&'a str>, BTreeSet<&'a str>>;

/// Group, names (none: all of them) and verbs: what rules for different resources share.
type Shared<'a> = (&'a str, BTreeSet<&'a str>, BTreeSet<&'a str>);

/// The rules: no right twice, neither by a rule of its own nor by a broader one; what differs in one thing only is one rule.
pub fn rules(rights: &Rights) -> Rules {
    let mut resources: BTreeMap<(&Scope, &str, &str), ByName<'_>> = BTreeMap::new();
    let mut paths: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for right in without_included(rights) {
        match right {
            Right::Objects { scope, group, resource, name, verb } => {
                let names = resources.entry((scope, group, resource)).or_default();
                names.entry(name.as_deref()).or_default().insert(verb);
            }
            Right::Path { path, verb } => {
                paths.entry(path).or_default().insert(verb);
            }
        }
    }
    let mut merged: BTreeMap<&Scope, BTreeMap<Shared<'_>, BTreeSet<&str>>> = BTreeMap::new();
    for ((scope, group, resource), names) in &resources {
        for (names, verbs) in by_verbs(names) {
            merged.entry(scope).or_default().entry((group, names, verbs)).or_default().insert(resource);
        }
    }
    let mut rules = Rules::new();
    for (scope, shared) in merged {
        let mut here: Vec<PolicyRule> = shared.into_iter().map(of_resources).collect();
        // As people look for them.
        here.sort_by_cached_key(|rule| (rule.api_groups.clone(), rule.resources.clone(), rule.resource_names.clone()));
        rules.insert(scope.clone(), here);
    }
    let mut of_verbs: BTreeMap<BTreeSet<&str>, BTreeSet<&str>> = BTreeMap::new();
    for (path, verbs) in paths {
        of_verbs.entry(verbs).or_default().insert(path);
    }
    for (verbs, paths) in of_verbs {
        let rule = PolicyRule { non_resource_urls: Some(owned(&paths)), verbs: owned(&verbs), ..PolicyRule::default() };
        rules.entry(Scope::Cluster).or_default().push(rule);
    }
    rules
}

/// The rights that no other one includes.
fn without_included(rights: &Rights) -> Vec<&Right> {
    let broad: Vec<&Right> = rights.iter().filter(|right| is_broad(right)).collect();
    let is_included = |right: &&Right| broad.iter().any(|other| other != right && other.includes(right));
    rights.iter().filter(|right| !is_included(right)).collect()
}

/// Names with the same verbs are one rule.
fn by_verbs<'a>(names: &ByName<'a>) -> Vec<(BTreeSet<&'a str>, BTreeSet<&'a str>)> {
    let mut by_verbs: BTreeMap<&BTreeSet<&str>, BTreeSet<&str>> = BTreeMap::new();
    for (name, verbs) in names {
        if let Some(name) = name {
            by_verbs.entry(verbs).or_default().insert(name);
        }
    }
    let of_all = names.get(&None).map(|verbs| (BTreeSet::new(), verbs.clone()));
    of_all.into_iter().chain(by_verbs.into_iter().map(|(verbs, names)| (names, verbs.clone()))).collect()
}

fn of_resources(((group, names, verbs), resources): (Shared<'_>, BTreeSet<&str>)) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(&resources)),
        resource_names: (!names.is_empty()).then(|| owned(&names)),
        verbs: owned(&verbs),
        ..PolicyRule::default()
    }
}

fn owned(texts: &BTreeSet<&str>) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Rules in words, one a line: `create, delete, patch deployments.apps "web" in namespace "shop"`.
pub fn text(rules: &Rules) -> Vec<String> {
    rules.iter().flat_map(|(scope, rules)| rules.iter().map(move |rule| line(scope, rule))).collect()
}

fn line(scope: &Scope, rule: &PolicyRule) -> String {
    let verbs = rule.verbs.join(", ");
    if let Some(paths) = &rule.non_resource_urls {
        return format!("{verbs} {}", paths.join(", "));
    }
    let group = rule.api_groups.iter().flatten().next().map(String::as_str).unwrap_or_default();
    let of_group = |resource: &String| if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
    let resources: Vec<String> = rule.resources.iter().flatten().map(of_group).collect();
    let names: Vec<String> = rule.resource_names.iter().flatten().map(|name| format!("{name:?}")).collect();
    let names = if names.is_empty() { String::new() } else { format!(" {}", names.join(", ")) };
    let place = match scope {
        Scope::Cluster => String::new(),
        Scope::Namespace(namespace) => format!(" in namespace {namespace:?}"),
    };
    format!("{verbs} {}{names}{place}", resources.join(", "))
}
