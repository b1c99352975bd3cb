//! What others need is deleted only by those who say so. The manager of PlatformOperators and ClusterExtensions notes on each object who
//! needs it; nothing else is looked at.

use rukpak_crds::names::{IGNORE_DEPENDENTS, NEEDED_BY};
use serde_json::Value;

/// Who deletes what has lost its owner: the owner was asked about. With and without accounts of their own for controllers.
pub const COLLECTORS: [&str; 2] =
    ["system:serviceaccount:kube-system:generic-garbage-collector", "system:kube-controller-manager"];
/// So many dependents are named.
const SHOWN: usize = 10;

/// Others need it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind} {name:?} cannot be deleted, because others need what it has installed: {}; delete these first, or say by the annotation \
     {IGNORE_DEPENDENTS}=\"true\" on {kind} {name:?} that they can do without it",
    shown(.dependents)
)]
pub struct Denial {
    kind: String,
    name: String,
    dependents: Vec<String>,
}

/// Decides on the deletion of an object by a user.
pub fn check_deletion(object: &Value, user: &str) -> Result<(), Denial> {
    let annotation = |name: &str| object["metadata"]["annotations"][name].as_str().unwrap_or_default();
    let dependents = annotation(NEEDED_BY).split(',').filter(|name| !name.is_empty());
    let dependents: Vec<String> = dependents.map(|name| name.replacen('/', " ", 1)).collect();
    let is_said = annotation(IGNORE_DEPENDENTS) == "true";
    if dependents.is_empty() || is_said || COLLECTORS.contains(&user) {
        return Ok(());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Err(Denial { kind: text(&object["kind"]), name: text(&object["metadata"]["name"]), dependents })
}

fn shown(dependents: &[String]) -> String {
    let names = dependents.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match dependents.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{names} and {more} more"),
        _ => names,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(annotations: &Value) -> Value {
        json!({"kind": "ClusterExtension", "metadata": {"name": "wells", "annotations": annotations}})
    }

    #[test]
    fn refuses_what_others_need_and_names_them() {
        let needed = json!({NEEDED_BY: "ClusterExtension/p,PlatformOperator/q"});
        let denial = check_deletion(&object(&needed), "alice").unwrap_err().to_string();
        let told = "ClusterExtension \"wells\" cannot be deleted, because others need what it has installed: \
                    ClusterExtension p, PlatformOperator q; delete these first, ";
        assert!(denial.starts_with(told), "{denial}");
        let many: Vec<String> = (0..12).map(|number| format!("ClusterExtension/p{number}")).collect();
        let denial = check_deletion(&object(&json!({NEEDED_BY: many.join(",")})), "alice").unwrap_err().to_string();
        assert!(denial.contains("ClusterExtension p9 and 2 more; "), "{denial}");
    }

    #[test]
    fn allows_what_nobody_needs_who_says_so_and_garbage_collection() {
        assert_eq!(check_deletion(&object(&json!({})), "alice"), Ok(()));
        assert_eq!(check_deletion(&object(&json!({NEEDED_BY: ""})), "alice"), Ok(()));
        let said = json!({NEEDED_BY: "ClusterExtension/p", IGNORE_DEPENDENTS: "true"});
        assert_eq!(check_deletion(&object(&said), "alice"), Ok(()));
        for collector in COLLECTORS {
            assert_eq!(check_deletion(&object(&json!({NEEDED_BY: "ClusterExtension/p"})), collector), Ok(()));
        }
    }
}
