//! The fields of a BundleDeployment that an extension sets only where it says something of them: by its spec, or by annotations, as
//! the kind is upstream's. Without that they are other people's. Pure.

use kube::ResourceExt;
use rukpak_crds::names::{APPROVAL, DELETION_POLICY, SUSPEND, WINDOWS};
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::{ApprovalPolicy, DeletionPolicy, UpgradeWindow};
use serde_json::{Map, Value, json};

/// The fields and their values; in words what is wrong with an annotation.
pub(super) fn fields(extension: &ClusterExtension) -> Result<Map<String, Value>, String> {
    let annotations = extension.annotations();
    let mut fields = Map::new();
    if let Some(minutes) = extension.spec.progress_deadline_minutes {
        fields.insert("progressDeadline".to_owned(), json!(format!("{minutes}m")));
    }
    match annotations.get(SUSPEND).map(String::as_str) {
        None | Some("false") => {}
        Some("true") => drop(fields.insert("suspend".to_owned(), json!(true))),
        Some(other) => return Err(format!("annotation {SUSPEND}: {other:?} is neither \"true\" nor \"false\"")),
    }
    if let Some(said) = annotations.get(DELETION_POLICY) {
        let policy: DeletionPolicy = serde_json::from_value(json!(said)).map_err(|_| {
            format!("annotation {DELETION_POLICY}: {said:?} is none of Delete, Orphan, KeepCRDs and InOrder")
        })?;
        fields.insert("deletionPolicy".to_owned(), json!(policy));
    }
    if let Some(said) = annotations.get(APPROVAL) {
        let policy: ApprovalPolicy = serde_json::from_value(json!(said)).map_err(|_| {
            format!("annotation {APPROVAL}: {said:?} is none of Automatic, Upgrades, Escalations and Always")
        })?;
        fields.insert("approval".to_owned(), json!(policy));
    }
    if let Some(said) = annotations.get(WINDOWS) {
        let windows: Vec<UpgradeWindow> =
            serde_json::from_str(said).map_err(|error| format!("annotation {WINDOWS}: {error}: {said:?}"))?;
        fields.insert("windows".to_owned(), json!(windows));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(annotations: &Value) -> Result<Value, String> {
        let extension = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "e", "annotations": annotations},
            "spec": {"namespace": "ns", "progressDeadlineMinutes": 30,
                     "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        }));
        fields(&extension.unwrap()).map(Value::Object)
    }

    #[test]
    fn annotations_stand_for_fields_and_without_them_nothing_is_said() {
        let deadline = json!({"progressDeadline": "30m"});
        assert_eq!(of(&json!({})), Ok(deadline.clone()));
        assert_eq!(of(&json!({SUSPEND: "false", "core.rukpak.io/other": "x"})), Ok(deadline));
        for policy in ["Delete", "Orphan", "KeepCRDs", "InOrder"] {
            let expected = json!({"progressDeadline": "30m", "suspend": true, "deletionPolicy": policy});
            assert_eq!(of(&json!({SUSPEND: "true", DELETION_POLICY: policy})), Ok(expected));
        }
        let wrong = "annotation core.rukpak.io/suspend: \"yes\" is neither \"true\" nor \"false\"";
        assert_eq!(of(&json!({SUSPEND: "yes"})), Err(wrong.to_owned()));
        let wrong =
            "annotation core.rukpak.io/deletion-policy: \"keep\" is none of Delete, Orphan, KeepCRDs and InOrder";
        assert_eq!(of(&json!({DELETION_POLICY: "keep"})), Err(wrong.to_owned()));
        let asking = json!({"progressDeadline": "30m", "approval": "Escalations"});
        assert_eq!(of(&json!({APPROVAL: "Escalations"})), Ok(asking));
        let wrong =
            "annotation core.rukpak.io/approval: \"Manual\" is none of Automatic, Upgrades, Escalations and Always";
        assert_eq!(of(&json!({APPROVAL: "Manual"})), Err(wrong.to_owned()));
    }

    #[test]
    fn windows_are_a_list_in_json() {
        let windows = json!([{"schedule": "0 22 * * 6", "duration": "4h"}]);
        let expected = json!({"progressDeadline": "30m", "windows": windows});
        assert_eq!(of(&json!({WINDOWS: windows.to_string()})), Ok(expected));
        for wrong in ["0 22 * * 6", "[{\"schedule\": \"0 22 * * 6\"}]"] {
            let message = of(&json!({WINDOWS: wrong})).unwrap_err();
            assert!(message.starts_with("annotation core.rukpak.io/windows: "), "{message}");
        }
    }
}
