//! Service accounts and what they may do.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Context, Error, Places};
use crate::csv::{Permission, PolicyRule};
use crate::install_mode::is_all;
use crate::name;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Where a permission stands in the CSV.
const PERMISSIONS: &str = "spec.install.spec.permissions";
const CLUSTER_PERMISSIONS: &str = "spec.install.spec.clusterPermissions";

/// One for each name in the permissions, except `default`, which every namespace has, and those that the bundle ships.
pub(super) fn service_accounts(context: &mut Context<'_>) -> Result<(), Error> {
    let strategy = &context.bundle.csv.spec.install.spec;
    let others = context.bundle.others.iter().filter(|other| other.kind == "ServiceAccount");
    let mut made: BTreeSet<&str> = others.map(|other| other.name.as_str()).collect();
    made.insert("default");
    let lists = [(PERMISSIONS, &strategy.permissions), (CLUSTER_PERMISSIONS, &strategy.cluster_permissions)];
    for (list, permissions) in lists {
        for (index, permission) in permissions.iter().enumerate() {
            if !made.insert(permission.account()) {
                continue;
            }
            let account = json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": permission.account(), "namespace": context.namespace()},
            });
            context.push(account, &format!("{list}[{index}]"))?;
        }
    }
    Ok(())
}

/// A Role and a RoleBinding for each permission in each namespace that is watched, unless all are.
pub(super) fn roles(context: &mut Context<'_>) -> Result<(), Error> {
    if is_all(&context.targets) {
        return Ok(());
    }
    for target in context.targets.clone() {
        for (index, permission) in context.bundle.csv.spec.install.spec.permissions.iter().enumerate() {
            grant(context, permission, Some(&target), &format!("{PERMISSIONS}[{index}]"))?;
        }
    }
    Ok(())
}

/// A ClusterRole and a ClusterRoleBinding for each cluster permission, and for each permission if all namespaces are
/// watched; the latter may then also see the namespaces.
pub(super) fn cluster_roles(context: &mut Context<'_>) -> Result<(), Error> {
    let strategy = &context.bundle.csv.spec.install.spec;
    for (index, permission) in strategy.cluster_permissions.iter().enumerate() {
        grant(context, permission, None, &format!("{CLUSTER_PERMISSIONS}[{index}]"))?;
    }
    if !is_all(&context.targets) {
        return Ok(());
    }
    for (index, permission) in strategy.permissions.iter().enumerate() {
        let mut promoted = permission.clone();
        promoted.rules.get_or_insert_default().push(see_namespaces());
        grant(context, &promoted, None, &format!("{PERMISSIONS}[{index}]"))?;
    }
    Ok(())
}

fn see_namespaces() -> PolicyRule {
    PolicyRule {
        verbs: Some(["get", "list", "watch"].map(str::to_owned).to_vec()),
        api_groups: vec![String::new()],
        resources: vec!["namespaces".to_owned()],
        ..PolicyRule::default()
    }
}

fn grant(
    context: &mut Context<'_>,
    permission: &Permission,
    namespace: Option<&str>,
    field: &str,
) -> Result<(), Error> {
    let account = permission.account();
    let hash = match (namespace, context.options.places) {
        // Each installation has its own, which are bound to its own account.
        (None, Places::Several) => name::hash(&(permission, context.namespace())),
        _ => name::hash(permission),
    };
    let hash = hash.map_err(|source| Error::Json { origin: context.bundle.origin_of(field), source })?;
    let name = name::object_name(&format!("{}-{account}", context.bundle.csv.metadata.name), &hash);
    let prefix = if namespace.is_some() { "" } else { "Cluster" };
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = Value::from(namespace);
    }
    let role = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": format!("{prefix}Role"),
        "metadata": metadata,
        "rules": context.json(&rules(permission), field)?,
    });
    let binding = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": format!("{prefix}RoleBinding"),
        "metadata": metadata,
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": context.namespace()}],
        "roleRef": {"apiGroup": GROUP, "kind": format!("{prefix}Role"), "name": name},
    });
    context.push(role, field)?;
    context.push(binding, field)
}

/// The rules as they are sent: lists that the hash takes as null are empty.
fn rules(permission: &Permission) -> Vec<PolicyRule> {
    let rules = permission.rules.iter().flatten().cloned();
    rules.map(|rule| PolicyRule { verbs: Some(rule.verbs.unwrap_or_default()), ..rule }).collect()
}
