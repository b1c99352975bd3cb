//! The aggregated APIs that Deployments of the bundle serve, and the rights that every such server needs. Names and numbers are
//! those of OLM v0.

use std::collections::BTreeSet;

use serde_json::json;

use super::certificates::Names;
use super::{Context, Error};

const RBAC: &str = "rbac.authorization.k8s.io";

/// One APIService for each group and version, and two bindings for each Deployment: the server asks the API server who its
/// callers are and what they may do.
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    let mut made = BTreeSet::new();
    let mut bound = BTreeSet::new();
    for (index, api) in context.bundle.csv.spec.api_services.owned.iter().enumerate() {
        let field = format!("spec.apiservicedefinitions.owned[{index}]");
        let names = Names::of(&api.deployment_name);
        if bound.insert(&api.deployment_name) {
            bind(context, &api.deployment_name, &names, &field)?;
        }
        let name = format!("{}.{}", api.version, api.group);
        if !made.insert(name.clone()) {
            continue;
        }

        let mut spec = json!({
            "group": api.group,
            "version": api.version,
            "groupPriorityMinimum": 2000,
            "versionPriority": 15,
            "service": {"namespace": context.namespace(), "name": names.service, "port": api.port()},
        });
        let mut object = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": name},
        });
        context.inject_ca(&names, &mut object, std::slice::from_mut(&mut spec));
        object["spec"] = spec;
        context.push(object, &field)?;
    }
    Ok(())
}

/// Binds the service account of a Deployment to the roles that Kubernetes has for extension API servers.
fn bind(context: &mut Context<'_>, deployment: &str, names: &Names, field: &str) -> Result<(), Error> {
    let deployments = &context.bundle.csv.spec.install.spec.deployments;
    let pod = deployments.iter().find(|one| one.name == deployment).and_then(|one| one.spec.template.spec.as_ref());
    let account = pod.and_then(|pod| pod.service_account_name.as_deref()).filter(|name| !name.is_empty());
    let subject =
        json!({"kind": "ServiceAccount", "name": account.unwrap_or("default"), "namespace": context.namespace()});

    let delegator = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{}-system:auth-delegator", names.service)},
        "subjects": [subject],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:auth-delegator"},
    });
    let reader = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": {"name": format!("{}-auth-reader", names.service), "namespace": "kube-system"},
        "subjects": [subject],
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "extension-apiserver-authentication-reader"},
    });
    context.push(delegator, field)?;
    context.push(reader, field)
}
