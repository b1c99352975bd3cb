//! The objects that grant rights to a ServiceAccount.

use rukpak_crds::ServiceAccountReference;
use serde_json::{Value, json};

use crate::rights::right::Scope;
use crate::rights::rules::Rules;

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// A ClusterRole and a Role for each namespace, all of one name, each with its binding to `account` behind it.
pub fn roles(rules: &Rules, name: &str, account: Option<&ServiceAccountReference>) -> Vec<Value> {
    let mut objects = Vec::new();
    for (scope, rules) in rules {
        let (prefix, mut metadata) = ("Cluster", json!({"name": name}));
        let prefix = match scope {
            Scope::Cluster => prefix,
            Scope::Namespace(namespace) => {
                metadata["namespace"] = json!(namespace);
                ""
            }
        };
        let kind = format!("{prefix}Role");
        objects.push(json!({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "rules": rules}));
        objects.extend(account.map(|account| {
            json!({
                "apiVersion": API_VERSION, "kind": format!("{kind}Binding"), "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
            })
        }));
    }
    objects
}
