//! One right, as RBAC knows rights.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;

/// Stands for everything, in groups, resources, verbs and paths.
pub(crate) const ANY: &str = "*";

/// Where a right counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In every namespace, and for what is in none.
    Cluster,
    /// In one namespace.
    Namespace(String),
}

/// One verb on one thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// On objects.
    Objects {
        /// Where.
        scope: Scope,
        /// API group; empty for the core group.
        group: String,
        /// The resource's plural, with a subresource behind a slash.
        resource: String,
        /// One object; `None` for all of them.
        name: Option<String>,
        /// The verb.
        verb: String,
    },
    /// On a path of the API server.
    Path {
        /// The path; a `*` at its end stands for whatever follows.
        path: String,
        /// The verb.
        verb: String,
    },
}

/// Rights, each once.
pub type Rights = BTreeSet<Right>;

impl Scope {
    /// Whether what counts here counts there.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        *self == Self::Cluster || self == other
    }
}

impl Right {
    /// Where it counts.
    pub fn scope(&self) -> &Scope {
        match self {
            Self::Objects { scope, .. } => scope,
            Self::Path { .. } => &Scope::Cluster,
        }
    }

    /// Whether who holds this right holds the other.
    pub fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Objects { scope, group, resource, name, verb },
                Self::Objects { scope: there, group: of, resource: on, name: one, verb: what },
            ) => {
                scope.includes(there)
                    && is_any_or(group, of)
                    && includes_resource(resource, on)
                    && (name.is_none() || name == one)
                    && is_any_or(verb, what)
            }
            (Self::Path { path, verb }, Self::Path { path: other, verb: what }) => {
                includes_path(path, other) && is_any_or(verb, what)
            }
            _ => false,
        }
    }

    /// Every right of a rule that counts in `scope`.
    pub fn of_rule(rule: &PolicyRule, scope: &Scope) -> Vec<Self> {
        let mut rights = Vec::new();
        for verb in &rule.verbs {
            for (group, resource) in pairs(rule) {
                let right = |name| Self::Objects {
                    scope: scope.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name,
                    verb: verb.clone(),
                };
                match rule.resource_names.as_deref().unwrap_or_default() {
                    [] => rights.push(right(None)),
                    names => rights.extend(names.iter().cloned().map(Some).map(right)),
                }
            }
            let paths = rule.non_resource_urls.iter().flatten();
            rights.extend(paths.map(|path| Self::Path { path: path.clone(), verb: verb.clone() }));
        }
        rights
    }
}

fn pairs(rule: &PolicyRule) -> impl Iterator<Item = (&String, &String)> {
    let resources = rule.resources.as_deref().unwrap_or_default();
    rule.api_groups.iter().flatten().flat_map(move |group| resources.iter().map(move |resource| (group, resource)))
}

fn is_any_or(held: &str, asked: &str) -> bool {
    held == ANY || held == asked
}

/// `*/scale` stands for that subresource of all resources.
fn includes_resource(held: &str, asked: &str) -> bool {
    let is_subresource = || {
        let (Some(held), Some((_, asked))) = (held.strip_prefix("*/"), asked.split_once('/')) else { return false };
        held == asked
    };
    is_any_or(held, asked) || is_subresource()
}

fn includes_path(held: &str, asked: &str) -> bool {
    held == asked || held.strip_suffix(ANY).is_some_and(|begin| asked.starts_with(begin))
}
