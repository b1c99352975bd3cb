//! Which rights it takes to install, upgrade and remove objects.
//!
//! An object is created by an apply (`create` and `patch`, both with its name), changed by one, and deleted when it leaves the bundle.
//! It is read and watched by the controller, and in the end garbage collected, which takes no right of whoever installed it.
//!
//! The API server asks for more where rights are handed on
//! (<https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping>): whoever writes
//! a role holds its rules, or may `escalate` it; whoever writes a binding holds the rules of its role, or may `bind` it. Holding the
//! rules is asked for here, because who may escalate a role and change it may do anything. Roles that are not among the objects are
//! bound by name.

use std::collections::BTreeSet;

use crate::Identity;
use k8s_openapi::api::rbac::v1::PolicyRule;
use rukpak_crd_upgrade::Migration;
use serde_json::Value;

use crate::rights::right::{Right, Rights, Scope};

/// The API group of roles and bindings, the only objects whose bodies say which rights they hand on.
pub const RBAC: &str = "rbac.authorization.k8s.io";
/// What is done with every object.
const VERBS: [&str; 3] = ["create", "patch", "delete"];

/// What it takes to install these objects, and to remove each of them, for the BundleDeployment `deployment`.
///
/// Its name is in one right: clusters with the admission plugin `OwnerReferencesPermissionEnforcement` (OpenShift has it on) want whoever
/// names it as an owner to be allowed to update its finalizers. Without a name the right is for all of them.
pub fn needed<'a>(objects: impl IntoIterator<Item = (&'a Identity, &'a Value)>, deployment: Option<&str>) -> Rights {
    let objects: Vec<_> = objects.into_iter().collect();
    let known: BTreeSet<RoleKey<'_>> = objects.iter().filter_map(|(role, body)| key_of_role(role, body)).collect();
    let mut rights = Rights::new();
    for (identity, body) in &objects {
        rights.extend(VERBS.map(|verb| of_object(identity, verb)));
        if identity.kind.resource.group == RBAC {
            handed_on(identity, body, &known, &mut rights);
        }
    }
    if !objects.is_empty() {
        rights.insert(Right::Objects {
            scope: Scope::Cluster,
            group: "core.rukpak.io".to_owned(),
            resource: "bundledeployments/finalizers".to_owned(),
            name: deployment.map(str::to_owned),
            verb: "update".to_owned(),
        });
    }
    rights
}

/// The right to do `verb` to one object.
pub fn of_object(identity: &Identity, verb: &str) -> Right {
    let resource = &identity.kind.resource;
    Right::Objects {
        scope: identity.namespace.clone().map_or(Scope::Cluster, Scope::Namespace),
        group: resource.group.clone(),
        resource: resource.plural.clone(),
        name: Some(identity.name.clone()),
        verb: verb.to_owned(),
    }
}

/// What it takes to migrate the stored objects of `crd`, beside what installs it: each is written, and then the status of the CRD. They are
/// listed by the controller itself.
pub fn of_migration(crd: &Identity, migration: &Migration) -> Rights {
    let patch = |group: &str, resource: String, name: Option<&str>| Right::Objects {
        scope: Scope::Cluster,
        group: group.to_owned(),
        resource,
        name: name.map(str::to_owned),
        verb: "patch".to_owned(),
    };
    let resource = &crd.kind.resource;
    let status = patch(&resource.group, format!("{}/status", resource.plural), Some(&crd.name));
    Rights::from([patch(&migration.group, migration.plural.clone(), None), status])
}

/// Kind, namespace and name of a role.
type RoleKey<'a> = (&'a str, Option<&'a str>, &'a str);

/// The role, if its rules are known: those of an aggregated one are gathered in the cluster.
fn key_of_role<'a>(identity: &'a Identity, body: &Value) -> Option<RoleKey<'a>> {
    let resource = &identity.kind.resource;
    let is_role = resource.group == RBAC && matches!(resource.kind.as_str(), "Role" | "ClusterRole");
    (is_role && !is_aggregated(body)).then(|| (resource.kind.as_str(), identity.namespace.as_deref(), &*identity.name))
}

fn is_aggregated(body: &Value) -> bool {
    body.get("aggregationRule").is_some_and(|rule| !rule.is_null())
}

/// What a role or a binding takes beside the rights to write it.
fn handed_on(identity: &Identity, body: &Value, known: &BTreeSet<RoleKey<'_>>, rights: &mut Rights) {
    let scope = identity.namespace.clone().map_or(Scope::Cluster, Scope::Namespace);
    match identity.kind.resource.kind.as_str() {
        "ClusterRole" if is_aggregated(body) => {
            rights.insert(of_object(identity, "escalate"));
        }
        "Role" | "ClusterRole" => {
            for rule in body.get("rules").and_then(Value::as_array).into_iter().flatten() {
                // One that is none is refused by the API server.
                let rule: PolicyRule = serde_json::from_value(rule.clone()).unwrap_or_default();
                rights.extend(Right::of_rule(&rule, &scope));
            }
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            let text = |pointer| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (kind, name) = (text("/roleRef/kind"), text("/roleRef/name"));
            let namespace = identity.namespace.as_deref().filter(|_| kind == "Role");
            if !known.contains(&(kind, namespace, name)) {
                rights.insert(Right::Objects {
                    scope,
                    group: RBAC.to_owned(),
                    resource: if kind == "Role" { "roles" } else { "clusterroles" }.to_owned(),
                    name: Some(name.to_owned()),
                    verb: "bind".to_owned(),
                });
            }
        }
        _ => {}
    }
}
