//! The OperatorCondition, in which an operator says whether it may be upgraded, and the right to write it. Names and rules are those of
//! OLM v0; OLM v1 makes none.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Context, Error};
use crate::csv::Permission;

const GROUP: &str = "operators.coreos.com";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The object, a Role and a RoleBinding, all with the name of the CSV, if they are asked for.
///
/// What the operator and people say in the object is theirs: those fields are not declared.
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    if !context.options.operator_condition {
        return Ok(());
    }

    let (name, strategy) = (&context.bundle.csv.metadata.name, &context.bundle.csv.spec.install.spec);
    let namespace = context.namespace().to_owned();
    let permissions = strategy.permissions.iter().chain(&strategy.cluster_permissions);
    let mut accounts: BTreeSet<&str> = permissions.map(Permission::account).collect();
    if accounts.is_empty() {
        accounts.insert("default");
    }
    let mut spec = json!({ "serviceAccounts": accounts });
    // An operator that writes the object leaves out an empty list, which would be drift.
    if !strategy.deployments.is_empty() {
        let deployments = strategy.deployments.iter().map(|deployment| deployment.name.as_str());
        spec["deployments"] = deployments.collect();
    }

    let metadata = json!({"name": name, "namespace": namespace});
    let condition =
        json!({"apiVersion": format!("{GROUP}/v2"), "kind": "OperatorCondition", "metadata": metadata, "spec": spec});
    let may_write = json!({"verbs": ["get", "update", "patch"], "apiGroups": [GROUP], "resources": ["operatorconditions"],
        "resourceNames": [name]});
    let role = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata, "rules": [may_write]});
    let subjects: Vec<Value> = accounts
        .iter()
        .map(|account| json!({"kind": "ServiceAccount", "name": account, "namespace": namespace}))
        .collect();
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": metadata,
        "subjects": subjects,
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
    });
    for object in [condition, role, binding] {
        context.push(object, "metadata.name")?;
    }
    Ok(())
}
