//! What an account holds.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::rights::right::{Right, Rights, Scope};

/// The rights of an account, as far as it was asked for them.
#[derive(Clone, Debug, Default)]
pub struct Held {
    exact: Rights,
    /// Those that may include others than themselves.
    broad: BTreeMap<Scope, Vec<Right>>,
}

impl Held {
    /// Adds the rules that count in `scope`.
    pub fn add(&mut self, scope: &Scope, rules: &[PolicyRule]) {
        for right in rules.iter().flat_map(|rule| Right::of_rule(rule, scope)) {
            if is_broad(&right) {
                self.broad.entry(scope.clone()).or_default().push(right.clone());
            }
            self.exact.insert(right);
        }
    }

    /// Whether the account holds the right.
    pub fn includes(&self, right: &Right) -> bool {
        self.exact.contains(right) || self.broad.values().flatten().any(|held| held.includes(right))
    }

    /// What it lacks of `needed`.
    pub fn lacks(&self, needed: &Rights) -> Rights {
        needed.iter().filter(|right| !self.includes(right)).cloned().collect()
    }
}

/// Whether the right may include another one.
pub(crate) fn is_broad(right: &Right) -> bool {
    match right {
        Right::Objects { scope, group, resource, name, verb } => {
            name.is_none()
                || *scope == Scope::Cluster
                || [group, resource, verb].into_iter().any(|part| part.contains('*'))
        }
        Right::Path { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn held(scope: &Scope, rules: &serde_json::Value) -> Held {
        let mut held = Held::default();
        held.add(scope, &serde_json::from_value::<Vec<PolicyRule>>(rules.clone()).unwrap());
        held
    }

    fn right(scope: &Scope, group: &str, resource: &str, name: Option<&str>, verb: &str) -> Right {
        Right::Objects {
            scope: scope.clone(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            verb: verb.to_owned(),
        }
    }

    #[test]
    fn a_rule_includes_what_rbac_says_it_includes() {
        let here = Scope::Namespace("here".to_owned());
        let there = Scope::Namespace("there".to_owned());
        let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        let pods = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        let named = json!([{"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get"]}]);
        let scale = json!([{"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["update"]}]);
        let pod = |scope: &Scope, name, verb| right(scope, "", "pods", name, verb);
        for (scope, rules, asked, expected) in [
            (&Scope::Cluster, &all, pod(&here, None, "*"), true),
            (&here, &all, pod(&here, Some("a"), "get"), true),
            (&here, &all, pod(&there, Some("a"), "get"), false),
            (&here, &all, pod(&Scope::Cluster, None, "get"), false),
            (&Scope::Cluster, &pods, pod(&here, Some("a"), "get"), true),
            (&Scope::Cluster, &pods, pod(&here, None, "*"), false),
            (&Scope::Cluster, &pods, right(&here, "apps", "pods", None, "get"), false),
            (&Scope::Cluster, &pods, right(&here, "", "pods/log", None, "get"), false),
            (&Scope::Cluster, &named, pod(&here, Some("a"), "get"), true),
            (&Scope::Cluster, &named, pod(&here, Some("b"), "get"), false),
            (&here, &named, pod(&here, None, "get"), false),
            (&here, &scale, right(&here, "apps", "deployments/scale", Some("a"), "update"), true),
            (&here, &scale, right(&here, "apps", "deployments", Some("a"), "update"), false),
        ] {
            assert_eq!(held(scope, rules).includes(&asked), expected, "{scope:?} {rules} {asked:?}");
        }
        let paths = json!([{"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]}]);
        let path = |path: &str, verb: &str| Right::Path { path: path.to_owned(), verb: verb.to_owned() };
        for (asked, expected) in [
            (path("/metrics", "get"), true),
            (path("/metrics", "post"), false),
            (path("/logs/a", "get"), true),
            (path("/metrics/a", "get"), false),
        ] {
            assert_eq!(held(&Scope::Cluster, &paths).includes(&asked), expected, "{asked:?}");
        }
    }

    #[test]
    fn what_is_lacking_is_what_is_not_included() {
        let here = Scope::Namespace("here".to_owned());
        let held = held(&here, &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "patch"]}]));
        let all = ["create", "delete", "patch"].map(|verb| right(&here, "", "pods", Some("a"), verb));
        let lacks = held.lacks(&all.clone().into());
        assert_eq!(lacks, [all[1].clone()].into());
    }
}
