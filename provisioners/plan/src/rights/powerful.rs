//! Rights that nobody should grant unread.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::rights::right::{ANY, Scope};
use crate::rights::rules::Rules;

/// Verbs with which somebody takes rights that they were not given.
const TAKING: [&str; 3] = ["bind", "escalate", "impersonate"];

/// Those of `rules` with which whoever holds them gets any right in the cluster, in words.
pub fn powerful(rules: &Rules) -> Vec<String> {
    let each = rules.iter().flat_map(|(scope, rules)| rules.iter().map(move |rule| (scope, rule)));
    each.filter_map(|(scope, rule)| why(scope, rule)).collect()
}

/// Why a rule is powerful, if it is.
fn why(scope: &Scope, rule: &PolicyRule) -> Option<String> {
    let has =
        |list: Option<&Vec<String>>, wanted: &str| list.is_some_and(|list| list.iter().any(|item| item == wanted));
    let (groups, resources) = (rule.api_groups.as_ref(), rule.resources.as_ref());
    let place = match scope {
        Scope::Cluster => "in all namespaces".to_owned(),
        Scope::Namespace(namespace) => format!("in namespace {namespace:?}"),
    };
    let what = resources.map(|resources| resources.join(", ")).unwrap_or_default();

    if has(Some(&rule.verbs), ANY) || has(groups, ANY) || has(resources, ANY) {
        return Some(format!("* among verbs, groups or resources ({what}) {place}"));
    }
    if has(rule.non_resource_urls.as_ref(), ANY) {
        return Some("* as a path of the API server".to_owned());
    }
    if let Some(verb) = rule.verbs.iter().find(|verb| TAKING.contains(&verb.as_str())) {
        return Some(format!("{verb} {what} {place}"));
    }
    let is_named = rule.resource_names.as_ref().is_some_and(|names| !names.is_empty());
    let reads = ["get", "list", "watch"].iter().any(|verb| has(Some(&rule.verbs), verb));
    if *scope == Scope::Cluster && !is_named && reads && has(resources, "secrets") && has(groups, "") {
        return Some(format!("{} secrets {place}", rule.verbs.join(", ")));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(scope: Scope, rule: &Value) -> Vec<String> {
        let rule: PolicyRule = serde_json::from_value(rule.clone()).unwrap();
        powerful(&[(scope, vec![rule])].into())
    }

    fn rule(group: &str, resource: &str, verb: &str) -> Value {
        json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
    }

    #[test]
    fn rights_that_lead_to_every_other_are_named() {
        let rbac = "rbac.authorization.k8s.io";
        for (group, resource, verb, word) in [
            ("*", "pods", "get", "* among"),
            ("", "*", "get", "* among"),
            ("", "pods", "*", "* among"),
            (rbac, "clusterroles", "escalate", "escalate clusterroles"),
            (rbac, "roles", "bind", "bind roles"),
            ("", "users", "impersonate", "impersonate users"),
            ("", "secrets", "list", "list secrets in all namespaces"),
        ] {
            let found = found(Scope::Cluster, &rule(group, resource, verb));
            assert!(found.len() == 1 && found[0].contains(word), "{found:?}");
        }
        let paths = json!({"nonResourceURLs": ["*"], "verbs": ["get"]});
        assert_eq!(found(Scope::Cluster, &paths).len(), 1);
        assert_eq!(found(Scope::Namespace("n".to_owned()), &rule("", "*", "get")).len(), 1);
    }

    #[test]
    fn ordinary_rights_are_not() {
        let one_namespace = || Scope::Namespace("n".to_owned());
        assert!(found(one_namespace(), &rule("", "secrets", "list")).is_empty());
        assert!(found(Scope::Cluster, &rule("apps", "deployments", "create")).is_empty());
        assert!(found(Scope::Cluster, &rule("", "secrets", "create")).is_empty());
        let named = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"]});
        assert!(found(Scope::Cluster, &named).is_empty());
    }
}
