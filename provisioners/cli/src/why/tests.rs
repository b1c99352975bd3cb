use super::*;

fn deployment() -> BundleDeployment {
    let contested = json!([{"group": "apps", "kind": "Deployment", "namespace": "pumps", "name": "pump",
                            "path": ["f:spec", "f:replicas"], "manager": "autoscaler"}]);
    serde_json::from_value(json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "pump", "uid": "1"},
        "spec": {"provisionerClassName": "p", "template": {"spec": {"provisionerClassName": "p",
                 "source": {"type": "image", "image": {"ref": "example.com/pump:v1"}}}}},
        "status": {"activeBundle": "pump-1", "inventory": {"contested": contested}},
    }))
    .unwrap()
}

fn object(uid: &str) -> DynamicObject {
    let entry = |manager: &str, operation: &str, subresource: &str, fields: Value| json!({"manager": manager, "operation": operation, "subresource": subresource, "fieldsType": "FieldsV1", "fieldsV1": fields});
    let managed = json!([
        entry(
            "rukpak-core",
            "Apply",
            "",
            json!({"f:spec": {"f:paused": {}}, "f:metadata": {"f:labels": {"f:app": {}}}})
        ),
        entry("autoscaler", "Update", "scale", json!({"f:spec": {"f:replicas": {}}})),
        entry("kube-controller-manager", "Update", "status", json!({"f:status": {"f:replicas": {}}})),
        entry("kubectl-label", "Update", "", json!({"f:metadata": {"f:labels": {"f:app": {}, "f:team": {}}}})),
    ]);
    let owner = json!([{"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "name": "pump", "uid": uid, "controller": true}]);
    let labels = json!({OWNER_KIND: OWNER_KIND_VALUE, OWNER_NAME: "pump"});
    serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "pump", "namespace": "pumps", "labels": labels, "ownerReferences": owner, "managedFields": managed},
        "spec": {"replicas": 0}, "status": {},
    }))
    .unwrap()
}

fn shown(why: &Why, is_wide: bool) -> String {
    let mut out = Vec::new();
    why.text(&mut out, Palette::of(&tempfile::tempfile().unwrap()), is_wide).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn owner_bundle_and_other_writers_are_told() {
    let mut why = Why::of(&object("1"), Some(&deployment()), Timestamp::UNIX_EPOCH);
    why.manifest_unknown = Some("no Pod is ready".to_owned());
    let text = shown(&why, false);
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("Deployment pumps/pump   "), "{text}");
    let wanted = "\
bundledeployment: pump
bundle:           pump-1
source:           example.com/pump:v1
manifest:         not known: no Pod is ready

MANAGER              FIELD                   CONTESTED
autoscaler (scale)   .spec.replicas          yes: left to it
kubectl-label        .metadata.labels.team   no
";
    assert_eq!(rest, wanted);
    assert!(
        shown(&why, true).contains("\nkube-controller-manager (status)   .status.replicas"),
        "{}",
        shown(&why, true)
    );
    let answer = serde_json::to_value(&why).unwrap();
    assert_eq!((&answer["bundleDeployment"], &answer["bundle"]), (&json!("pump"), &json!("pump-1")));
    let field =
        json!({"manager": "autoscaler", "subresource": "scale", "field": ".spec.replicas", "isContested": true});
    assert_eq!(answer["fields"][0], field);
}

#[test]
fn what_belongs_to_nobody_is_said_with_why() {
    let why = Why::of(&object("0"), Some(&deployment()), Timestamp::UNIX_EPOCH);
    assert!(
        shown(&why, false)
            .contains("\nno BundleDeployment manages it: it is of an earlier BundleDeployment of this name\n")
    );
    let mut alone = object("1");
    alone.metadata = ObjectMeta { name: Some("pump".to_owned()), ..ObjectMeta::default() };
    assert_eq!(claimed(&alone.metadata), None);
    let text = shown(&Why::of(&alone, None, Timestamp::UNIX_EPOCH), false);
    assert!(
        text.ends_with("\nno BundleDeployment manages it: none has created it\nnobody else has changed it\n"),
        "{text}"
    );
    assert_eq!(claimed(&object("0").metadata), Some("pump"));
}
