//! Which rights a bundle grants that the one before did not.
//!
//! Rights are compared by who holds them: a role that is renamed, split or bound in another way grants nothing new, and one that is
//! bound to somebody else does. Roles that the bundle does not have are granted by name, because their rules are the cluster's.
//!
//! A role also counts by itself where somebody else than the bundle may have bound it: if the bundle binds it to nobody, if its labels
//! have it gathered into other roles, and if it was there before.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;
use rukpak_crds::plan::GrownRight;
use serde_json::Value;

use crate::Identity;
use crate::rights::right::{Right, Rights, Scope};
use crate::rights::{Held, RBAC, powerful, rules, text};

/// Roles of Kubernetes with which somebody takes every other right, wherever they are bound to.
const STRONGEST: [&str; 1] = ["cluster-admin"];
/// Those with which somebody does so when they are bound in all namespaces: they read Secrets, or act as ServiceAccounts.
const STRONG_EVERYWHERE: [&str; 2] = ["admin", "edit"];

/// What somebody holds.
#[derive(Clone, Debug, Default)]
struct Granted {
    rights: Rights,
    /// Roles whose rules are not known, in words, with whether they are an escalation.
    roles: BTreeSet<(String, bool)>,
}

/// Kind, namespace and name of a role.
type RoleKey = (String, Option<String>, String);

/// Who holds what.
#[derive(Clone, Debug, Default)]
struct Grants {
    by_holder: BTreeMap<String, Granted>,
    by_role: BTreeMap<RoleKey, Granted>,
    /// Roles that somebody else than the bundle may bind.
    open: BTreeSet<RoleKey>,
}

/// Returns the rights that `new` objects grant and `old` ones do not, one rule after the other.
pub fn growth<'a>(
    old: impl IntoIterator<Item = (&'a Identity, &'a Value)>,
    new: impl IntoIterator<Item = (&'a Identity, &'a Value)>,
) -> Vec<GrownRight> {
    let (old, new) = (Grants::of(old), Grants::of(new));
    let none = Granted::default();
    let (mut grown, mut told) = (Vec::new(), Granted::default());
    for (holder, granted) in &new.by_holder {
        let more = granted.beyond(old.by_holder.get(holder).unwrap_or(&none));
        grown.extend(more.lines(holder));
        told.add(&more);
    }
    for (role, granted) in &new.by_role {
        let before = old.by_role.get(role);
        if before.is_none() && !new.open.contains(role) {
            continue;
        }
        let (kind, namespace, name) = role;
        let holder = format!("whoever {} is bound to", in_words(kind, namespace.as_deref(), name));
        grown.extend(granted.beyond(before.unwrap_or(&none)).untold(&told).lines(&holder));
    }
    grown
}

impl Granted {
    fn add(&mut self, other: &Self) {
        self.rights.extend(other.rights.iter().cloned());
        self.roles.extend(other.roles.iter().cloned());
    }

    /// What is granted here and not `before`.
    fn beyond(&self, before: &Self) -> Self {
        let mut held = Held::default();
        for (scope, rules) in rules(&before.rights) {
            held.add(&scope, &rules);
        }
        let roles = self.roles.difference(&before.roles).cloned().collect();
        Self { rights: held.lacks(&self.rights), roles }
    }

    /// The same without what was `told` of somebody as it counts here: what somebody got in one namespace, others may get in all.
    fn untold(self, told: &Self) -> Self {
        let is_untold = |right: &Right| !told.rights.contains(right);
        let roles = self.roles.difference(&told.roles).cloned().collect();
        Self { rights: self.rights.into_iter().filter(is_untold).collect(), roles }
    }

    /// The same, bound in `scope`: a ClusterRole counts in the namespace of its binding only, and its paths, which are in none, not at all.
    fn within(&self, scope: &Scope) -> Self {
        let counts = |right: &&Right| *scope == Scope::Cluster || !matches!(right, Right::Path { .. });
        let rights = self.rights.iter().filter(counts).map(|right| moved(right, scope)).collect();
        Self { rights, roles: self.roles.clone() }
    }

    /// One line for each rule.
    fn lines(&self, holder: &str) -> Vec<GrownRight> {
        let mut lines = Vec::new();
        for (scope, rules) in rules(&self.rights) {
            for rule in rules {
                let one = [(scope.clone(), vec![rule])].into();
                let (rule, escalation) = (text(&one).join("; "), !powerful(&one).is_empty());
                lines.push(GrownRight { holder: holder.to_owned(), rule, escalation });
            }
        }
        let roles = self.roles.iter();
        lines.extend(roles.map(|(rule, escalation)| GrownRight {
            holder: holder.to_owned(),
            rule: rule.clone(),
            escalation: *escalation,
        }));
        lines
    }
}

fn moved(right: &Right, scope: &Scope) -> Right {
    match right {
        Right::Objects { group, resource, name, verb, .. } => Right::Objects {
            scope: scope.clone(),
            group: group.clone(),
            resource: resource.clone(),
            name: name.clone(),
            verb: verb.clone(),
        },
        path @ Right::Path { .. } => path.clone(),
    }
}

impl Grants {
    fn of<'a>(objects: impl IntoIterator<Item = (&'a Identity, &'a Value)>) -> Self {
        let objects: Vec<_> =
            objects.into_iter().filter(|(identity, _)| identity.kind.resource.group == RBAC).collect();
        let mut grants = Self::default();
        let (mut bound, mut gathered) = (BTreeSet::new(), BTreeSet::new());
        for (identity, body) in &objects {
            if matches!(kind(identity), "Role" | "ClusterRole") {
                let key = (kind(identity).to_owned(), identity.namespace.clone(), identity.name.clone());
                if is_gathered(body) {
                    gathered.insert(key.clone());
                }
                grants.by_role.insert(key, of_role(identity, body));
            }
        }
        for (identity, body) in &objects {
            if matches!(kind(identity), "RoleBinding" | "ClusterRoleBinding") {
                bound.extend(grants.bind(identity, body));
            }
        }
        let open = grants.by_role.keys().filter(|key| !bound.contains(*key) || gathered.contains(*key));
        grants.open = open.cloned().collect();
        grants
    }

    /// Gives every subject of a binding what its role allows, where the binding counts. Returns the role, if there is a subject.
    fn bind(&mut self, identity: &Identity, body: &Value) -> Option<RoleKey> {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let (role_kind, role_name) = (text(&body["roleRef"], "kind"), text(&body["roleRef"], "name"));
        let namespace = identity.namespace.clone().filter(|_| role_kind == "Role");
        let key = (role_kind, namespace, role_name);
        let scope = identity.namespace.clone().map_or(Scope::Cluster, Scope::Namespace);
        let granted = match self.by_role.get(&key) {
            Some(granted) => granted.within(&scope),
            None => foreign(&key, &scope),
        };
        let subjects = body["subjects"].as_array().filter(|subjects| !subjects.is_empty())?;
        for subject in subjects {
            let namespace = subject["namespace"].as_str();
            let holder = in_words(&text(subject, "kind"), namespace, &text(subject, "name"));
            self.by_holder.entry(holder).or_default().add(&granted);
        }
        Some(key)
    }
}

fn kind(identity: &Identity) -> &str {
    &identity.kind.resource.kind
}

fn of_role(identity: &Identity, body: &Value) -> Granted {
    let scope = identity.namespace.clone().map_or(Scope::Cluster, Scope::Namespace);
    let aggregation = body.get("aggregationRule").filter(|rule| !rule.is_null());
    if let Some(rule) = aggregation {
        // Nobody but the cluster knows what that is.
        let what = format!("everything that ClusterRoles grant which are selected by {rule}");
        return Granted { rights: Rights::new(), roles: [(what, true)].into() };
    }
    let mut granted = Granted::default();
    for rule in body["rules"].as_array().into_iter().flatten() {
        // One that is none is refused by the API server.
        let rule: PolicyRule = serde_json::from_value(rule.clone()).unwrap_or_default();
        granted.rights.extend(Right::of_rule(&rule, &scope));
    }
    granted
}

/// A role that the bundle binds and does not have.
fn foreign((kind, namespace, name): &RoleKey, scope: &Scope) -> Granted {
    let place = match scope {
        Scope::Namespace(namespace) if kind == "ClusterRole" => format!(" in namespace {namespace:?}"),
        _ => String::new(),
    };
    let is_everywhere = *scope == Scope::Cluster;
    let escalation = kind == "ClusterRole"
        && (STRONGEST.contains(&name.as_str()) || (is_everywhere && STRONG_EVERYWHERE.contains(&name.as_str())));
    let what = format!("everything that {} grants{place}", in_words(kind, namespace.as_deref(), name));
    Granted { rights: Rights::new(), roles: [(what, escalation)].into() }
}

/// Whether the labels of a role may have its rules gathered into another one.
fn is_gathered(body: &Value) -> bool {
    let labels = body["metadata"]["labels"].as_object();
    labels.is_some_and(|labels| labels.keys().any(|label| label.contains("/aggregate-to-")))
}

fn in_words(kind: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{kind} {name:?} in namespace {namespace:?}"),
        None => format!("{kind} {name:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::{ApiResource, GroupVersionKind};
    use serde_json::json;

    use super::*;
    use crate::Kind;

    fn object(kind: &str, namespace: Option<&str>, name: &str, mut body: Value) -> (Identity, Value) {
        let resource = Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk(RBAC, "v1", kind)));
        let kind = Kind { resource, namespaced: namespace.is_some() };
        if body["metadata"].is_null() {
            body["metadata"] = json!({"name": name});
        }
        (Identity { kind, namespace: namespace.map(str::to_owned), name: name.to_owned() }, body)
    }

    fn role(name: &str, verbs: &[&str]) -> (Identity, Value) {
        let rules = json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": verbs}]);
        object("ClusterRole", None, name, json!({"rules": rules}))
    }

    fn binding(role: &str, account: &str) -> (Identity, Value) {
        let body = json!({"roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": "n", "name": account}]});
        object("ClusterRoleBinding", None, &format!("{role}-{account}"), body)
    }

    fn grown(old: &[(Identity, Value)], new: &[(Identity, Value)]) -> Vec<String> {
        let pairs = |objects: &'static [(Identity, Value)]| objects.iter().map(|(identity, body)| (identity, body));
        let leak = |objects: &[(Identity, Value)]| &*Vec::leak(objects.to_vec());
        let grown = growth(pairs(leak(old)), pairs(leak(new)));
        grown
            .into_iter()
            .map(|GrownRight { holder, rule, escalation }| {
                format!("{holder}: {rule}{}", if escalation { " (!)" } else { "" })
            })
            .collect()
    }

    const ACCOUNT: &str = "ServiceAccount \"a\" in namespace \"n\"";

    #[test]
    fn finds_new_verbs_and_not_roles_that_were_renamed_or_shrank() {
        let old = [role("r", &["get", "list"]), binding("r", "a")];
        assert_eq!(grown(&old, &old), [""; 0]);
        assert_eq!(grown(&old, &[role("other", &["get"]), binding("other", "a")]), [""; 0], "renamed and smaller");
        let more = [role("other", &["get", "delete"]), binding("other", "a")];
        assert_eq!(grown(&old, &more), [format!("{ACCOUNT}: delete deployments.apps")]);
        let broad = [role("r", &["*"]), binding("r", "a")];
        assert!(grown(&broad, &more).is_empty(), "it is included");
        assert!(grown(&more, &broad)[0].ends_with("* deployments.apps (!)"), "{:?}", grown(&more, &broad));
    }

    #[test]
    fn finds_new_subjects_of_the_same_role() {
        let old = [role("r", &["get"]), binding("r", "a")];
        let new = [role("r", &["get"]), binding("r", "a"), binding("r", "b")];
        assert_eq!(grown(&old, &new), ["ServiceAccount \"b\" in namespace \"n\": get deployments.apps"]);
    }

    #[test]
    fn finds_roles_of_the_cluster_that_are_bound() {
        let new = [binding("cluster-admin", "a"), binding("view", "a")];
        assert_eq!(
            grown(&[], &new),
            [
                format!("{ACCOUNT}: everything that ClusterRole \"cluster-admin\" grants (!)"),
                format!("{ACCOUNT}: everything that ClusterRole \"view\" grants")
            ]
        );
        assert_eq!(grown(&new, &new), [""; 0]);
    }

    #[test]
    fn finds_growth_of_roles_that_others_may_have_bound() {
        let unbound = [role("r", &["get"])];
        assert_eq!(grown(&[], &unbound), ["whoever ClusterRole \"r\" is bound to: get deployments.apps"]);
        // The account held it by another role; somebody else may have bound this one.
        let old = [role("r", &["get"]), role("s", &["list"]), binding("r", "a"), binding("s", "a")];
        let new = [role("r", &["get", "list"]), binding("r", "a")];
        assert_eq!(grown(&old, &new), ["whoever ClusterRole \"r\" is bound to: list deployments.apps"]);
        let mut gathered = role("fresh", &["get"]);
        gathered.1["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-edit": "true"});
        let held = [role("r", &["get"]), binding("r", "a")];
        let new = [held[0].clone(), held[1].clone(), gathered, binding("fresh", "a")];
        assert_eq!(grown(&held, &new), ["whoever ClusterRole \"fresh\" is bound to: get deployments.apps"]);
    }

    #[test]
    fn a_role_counts_where_it_is_bound() {
        let here = |namespace: &str| {
            let body = json!({"roleRef": {"kind": "ClusterRole", "name": "r"},
                "subjects": [{"kind": "User", "name": "u"}]});
            object("RoleBinding", Some(namespace), "b", body)
        };
        let (role, one, two) = (role("r", &["get"]), here("one"), here("two"));
        let old = [role.clone(), one.clone()];
        assert_eq!(grown(&old, &[role.clone(), one, two]), ["User \"u\": get deployments.apps in namespace \"two\""]);
        let everywhere = {
            let body =
                json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]});
            object("ClusterRoleBinding", None, "b", body)
        };
        assert_eq!(grown(&old, &[role, everywhere]), ["User \"u\": get deployments.apps"]);
    }

    #[test]
    fn a_path_counts_by_a_binding_for_the_cluster_alone() {
        let rules = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
        let metrics = object("ClusterRole", None, "m", json!({ "rules": rules }));
        let bound = |namespace: Option<&str>| {
            let kind = if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" };
            let role = json!({"kind": "ClusterRole", "name": "m"});
            object(kind, namespace, "b", json!({"roleRef": role, "subjects": [{"kind": "User", "name": "u"}]}))
        };
        assert_eq!(grown(&[], &[metrics.clone(), bound(Some("n"))]), [""; 0]);
        assert_eq!(grown(&[], &[metrics, bound(None)]), ["User \"u\": get /metrics"]);
    }

    #[test]
    fn what_is_gathered_is_not_known_and_is_told_when_the_selectors_change() {
        let gathering = |label: &str| {
            let body = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}});
            object("ClusterRole", None, "sum", body)
        };
        assert_eq!(grown(&[gathering("a")], &[gathering("a")]), [""; 0]);
        let grown = grown(&[gathering("a")], &[gathering("b")]);
        assert!(grown.len() == 1 && grown[0].ends_with("(!)"), "{grown:?}");
    }
}
