//! ClusterRoles for the APIs of a bundle, aggregated into `admin`, `edit` and `view`: who has these in a namespace may use
//! the APIs there. Names and rules are those of OLM v0; OLM v1 makes none.

use serde_json::{Value, json};

use super::{Context, Error};

const OWNED: &str = "spec.customresourcedefinitions.owned";
const OWNED_AGGREGATED: &str = "spec.apiservicedefinitions.owned";
const VERBS: [(&str, &[&str]); 3] =
    [("admin", &["*"]), ("edit", &["create", "update", "patch", "delete"]), ("view", &["get", "list", "watch"])];

/// Four for each owned CRD and three for each aggregated API, if they are asked for.
pub(super) fn generate(context: &mut Context<'_>) -> Result<(), Error> {
    if !context.options.api_roles {
        return Ok(());
    }
    for (index, owned) in context.bundle.csv.spec.crds.owned.iter().enumerate() {
        let field = format!("{OWNED}[{index}]");
        let (plural, group) = owned.name.split_once('.').unwrap_or((&owned.name, ""));
        generate_for(context, &format!("{}-{}", owned.name, owned.version), (group, plural), &field)?;
        let definition = json!({"verbs": ["get"], "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"], "resourceNames": [owned.name]});
        context.push(role(&format!("{}-{}-crdview", owned.name, owned.version), "view", &definition), &field)?;
    }
    for (index, owned) in context.bundle.csv.spec.api_services.owned.iter().enumerate() {
        let name = format!("{}-{}", owned.name, owned.version);
        generate_for(context, &name, (&owned.group, &owned.name), &format!("{OWNED_AGGREGATED}[{index}]"))?;
    }
    Ok(())
}

/// One role for each of `admin`, `edit` and `view`.
fn generate_for(
    context: &mut Context<'_>,
    name: &str,
    (group, plural): (&str, &str),
    field: &str,
) -> Result<(), Error> {
    for (suffix, verbs) in VERBS {
        let rule = json!({"verbs": verbs, "apiGroups": [group], "resources": [plural]});
        context.push(role(&format!("{name}-{suffix}"), suffix, &rule), field)?;
    }
    Ok(())
}

fn role(name: &str, aggregated_into: &str, rule: &Value) -> Value {
    let label = format!("rbac.authorization.k8s.io/aggregate-to-{aggregated_into}");
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {label: "true"}},
        "rules": [rule],
    })
}
