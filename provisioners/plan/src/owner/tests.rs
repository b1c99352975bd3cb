//! Whose an object is.

use serde_json::{Value, json};

use super::*;

fn ownership(meta: Value) -> Ownership {
    let owner = Owner { name: "a".to_owned(), uid: "1".to_owned() };
    let predecessors = Predecessors { system_namespace: "rukpak-system", extension: None };
    owner.ownership(&serde_json::from_value(meta).unwrap(), predecessors)
}

#[test]
fn what_operator_controller_installed_goes_over_to_the_same_extension_alone() {
    let ours: ObjectMeta = serde_json::from_value(json!({"ownerReferences": [
        {"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "e", "uid": "9", "controller": true},
    ]}))
    .unwrap();
    let owner = Owner { name: "e".to_owned(), uid: "1".to_owned() };
    let predecessors = Predecessors { system_namespace: "rukpak-system", extension: extension(&ours) };
    let is_taken = |labels_name: &str, api_version: &str, kind: &str, name: &str, uid: &str| {
        let meta = json!({
            "labels": {"olm.operatorframework.io/owner-kind": "ClusterExtension",
                       "olm.operatorframework.io/owner-name": labels_name},
            "ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}],
        });
        owner.ownership(&serde_json::from_value(meta).unwrap(), predecessors) == Ownership::Extension
    };
    let olm = "olm.operatorframework.io/v1";
    assert!(is_taken("e", olm, "ClusterExtension", "e", "9"));
    assert!(is_taken("e", olm, "ClusterObjectSet", "e-1", "5"));
    assert!(is_taken("e", olm, "ClusterExtensionRevision", "e-12", "5"));
    assert!(!is_taken("e", olm, "ClusterExtension", "e", "8"), "an earlier extension of the name");
    assert!(!is_taken("f", olm, "ClusterExtension", "e", "9"), "another extension's by its labels");
    for name in ["e", "e-", "e-x", "e-f-1", "f-1"] {
        assert!(!is_taken("e", olm, "ClusterObjectSet", name, "5"), "{name}");
    }
    let set: ObjectMeta = serde_json::from_value(json!({"ownerReferences": [
        {"apiVersion": olm, "kind": "ClusterObjectSet", "name": "s", "uid": "7", "controller": true},
    ]}))
    .unwrap();
    let of_set = Predecessors { system_namespace: "rukpak-system", extension: extension(&set) };
    for (uid, is_its) in [("7", true), ("8", false)] {
        let mut meta = set.clone();
        meta.owner_references.as_mut().unwrap()[0].uid = uid.to_owned();
        assert_eq!(owner.ownership(&meta, of_set) == Ownership::Extension, is_its, "a set of a user: {uid}");
    }
    assert!(!is_taken("e", "apps/v1", "ClusterObjectSet", "e-1", "5"));
    assert!(!is_taken("e", olm, "Other", "e-1", "5"));
    // Without such an extension it is somebody else's.
    let labels =
        json!({"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "e"});
    let meta = json!({"labels": labels, "ownerReferences": ours.owner_references});
    assert!(matches!(ownership(meta), Ownership::Foreign(ForeignOwner::Controller { .. })));
}

fn reference(name: &str, uid: &str) -> Value {
    json!([{"apiVersion": OWNER_API_VERSION, "kind": "BundleDeployment", "name": name, "uid": uid, "controller": true}])
}

#[test]
fn ours_is_by_uid() {
    assert_eq!(ownership(json!({"ownerReferences": reference("a", "1")})), Ownership::Ours);
    assert_eq!(ownership(json!({"ownerReferences": reference("a", "0")})), Ownership::LeftBehind { uid: "0".into() });
    assert!(matches!(ownership(json!({"ownerReferences": reference("b", "2")})), Ownership::Foreign(_)));
}

#[test]
fn marks_that_an_operator_copied_are_not_ours() {
    let marks = json!({
        "labels": {"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "a"},
        "annotations": {"core.rukpak.io/owner-uid": "1"},
    });
    assert_eq!(ownership(marks.clone()), Ownership::Ours, "it outlives us");
    let mut copy = marks;
    copy["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "7", "controller": true}]);
    let us = Owner { name: "a".to_owned(), uid: "1".to_owned() };
    assert!(!us.owns_fully(&serde_json::from_value(copy.clone()).unwrap()), "it would be pruned");
    assert!(matches!(ownership(copy), Ownership::Foreign(ForeignOwner::Controller { is_deployment: false, .. })));
}

#[test]
fn what_others_own_would_go_with_them() {
    let us = Owner { name: "a".to_owned(), uid: "1".to_owned() };
    let lost =
        |references: Value| us.would_lose(&serde_json::from_value(json!({"ownerReferences": references})).unwrap());
    assert!(!lost(json!([])), "a user's own");
    assert!(lost(reference("b", "2")));
    let both = [reference("b", "2")[0].clone(), reference("a", "1")[0].clone()];
    assert!(!lost(json!(both)), "shared already");
    assert!(!lost(json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "3"}])));
}

#[test]
fn what_others_lead_share_or_keep_is_left_to_them() {
    let us = Owner { name: "a".to_owned(), uid: "1".to_owned() };
    let is_shared = |meta: Value| us.is_shared(&serde_json::from_value(meta).unwrap());
    let (ours, theirs) = (reference("a", "1")[0].clone(), reference("b", "2")[0].clone());
    let mut sharer = ours.clone();
    sharer["controller"] = json!(false);
    assert!(!is_shared(json!({"ownerReferences": [ours]})));
    assert!(is_shared(json!({"ownerReferences": [theirs, sharer]})), "led by another");
    assert!(!is_shared(json!({"ownerReferences": [sharer]})), "nobody else is left");
    let kept = json!({"core.rukpak.io/owner-uid": "2"});
    assert!(is_shared(json!({"ownerReferences": [sharer], "annotations": kept})), "another outlives itself with it");
    assert!(!is_shared(json!({"ownerReferences": [ours], "annotations": kept})), "a copy of marks");
}

#[test]
fn what_was_shared_is_inherited_once_nobody_controls_it() {
    let shared = |name: &str, uid: &str| {
        let mut shared = reference(name, uid)[0].clone();
        shared["controller"] = json!(false);
        shared
    };
    let labels = json!({"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "b"});
    let owned = |owners: &[Value]| ownership(json!({"labels": labels, "ownerReferences": owners}));
    assert_eq!(owned(&[shared("a", "1")]), Ownership::Inherited);
    assert_eq!(owned(&[shared("c", "3"), shared("a", "1")]), Ownership::Inherited, "whoever is first");
    assert!(matches!(owned(&[reference("b", "2")[0].clone(), shared("a", "1")]), Ownership::Foreign(_)));
    assert!(matches!(owned(&[shared("a", "0")]), Ownership::Foreign(_)), "of an earlier one of the name");
    let users = json!({"ownerReferences": [shared("a", "1")]});
    assert_eq!(ownership(users), Ownership::Foreign(ForeignOwner::Unknown), "no BundleDeployment made it");
}

#[test]
fn a_rule_takes_what_nothing_controls_or_more() {
    let rule = |controlled: bool| TakeOver { controlled, ..TakeOver::default() };
    let of = |meta: Value, controlled: bool| ownership(meta).ruled(Some(&rule(controlled)));
    assert_eq!(ownership(json!({})).ruled(None), Ownership::Foreign(ForeignOwner::Unknown));
    for controlled in [false, true] {
        assert_eq!(of(json!({}), controlled), Ownership::AdoptionAllowed);
        assert_eq!(of(json!({"ownerReferences": reference("a", "1")}), controlled), Ownership::Ours);
        let kept = json!({
            "labels": {"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "b"},
            "annotations": {"core.rukpak.io/owner-uid": "2"},
        });
        assert!(matches!(of(kept, controlled), Ownership::Foreign(ForeignOwner::Keeper { .. })));
    }
    let controlled = json!({"ownerReferences": reference("b", "2")});
    assert!(matches!(of(controlled.clone(), false), Ownership::Foreign(ForeignOwner::Controller { .. })));
    assert_eq!(of(controlled, true), Ownership::Extension);
}

#[test]
fn a_rule_takes_no_crd_from_another_deployment() {
    let mut rule = TakeOver { controlled: true, ..TakeOver::default() };
    rule.objects.group = "apiextensions.k8s.io".to_owned();
    rule.objects.kind = "CustomResourceDefinition".to_owned();
    let led = ownership(json!({"ownerReferences": reference("b", "2")}));
    assert_eq!(led.clone().ruled(Some(&rule)), led, "it is shared");
    let mut operator = reference("o", "3");
    operator[0]["apiVersion"] = json!("example.com/v1");
    operator[0]["kind"] = json!("Operator");
    assert_eq!(ownership(json!({"ownerReferences": operator})).ruled(Some(&rule)), Ownership::Extension);
    assert_eq!(ownership(json!({})).ruled(Some(&rule)), Ownership::AdoptionAllowed);
}

#[test]
fn of_two_deployments_that_take_an_object_over_the_later_one_keeps_it() {
    let deployment = |uid: &str, created: &str, controlled: bool| -> BundleDeployment {
        serde_json::from_value(json!({
            "apiVersion": OWNER_API_VERSION, "kind": "BundleDeployment",
            "metadata": {"name": uid, "uid": uid, "creationTimestamp": created},
            "spec": {
                "provisionerClassName": "c", "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}},
                "takeOver": [{"kind": "ConfigMap", "name": "x", "controlled": controlled}],
            },
        }))
        .unwrap()
    };
    let key = |name: &str| ObjectKey {
        group: String::new(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("n".to_owned()),
        name: name.to_owned(),
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
    let (older, newer) = (deployment("b", early, true), deployment("a", late, true));
    assert!(is_outranked(&older, &newer, &key("x")));
    assert!(!is_outranked(&newer, &older, &key("x")));
    assert!(!is_outranked(&older, &newer, &key("y")), "it does not take that one");
    let same_second = deployment("c", early, true);
    assert!(is_outranked(&older, &same_second, &key("x")) && !is_outranked(&same_second, &older, &key("x")));
    assert!(!is_outranked(&older, &deployment("a", late, false), &key("x")), "it takes nothing back");
    let (mut going, at) = (newer.clone(), newer.metadata.creation_timestamp);
    going.metadata.deletion_timestamp = at;
    assert!(!is_outranked(&older, &going, &key("x")));
}

#[test]
fn labels_alone_are_foreign() {
    let labels = json!({"labels": {"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "a"}});
    assert_eq!(ownership(labels), Ownership::Foreign(ForeignOwner::Labelled));
}

#[test]
fn upstream_releases_are_taken_over_only_by_the_same_name_and_namespace() {
    let helm = |release: &str, namespace: &str| {
        ownership(json!({
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
        }))
    };
    assert_eq!(helm("a", "rukpak-system"), Ownership::HelmRelease);
    assert!(matches!(helm("b", "rukpak-system"), Ownership::Foreign(_)));
    assert!(matches!(helm("a", "default"), Ownership::Foreign(_)));
}

#[test]
fn adoption_names_the_adopter_and_a_controller_goes_first() {
    let annotated = json!({"annotations": {"core.rukpak.io/adopt-by": "a"}});
    assert_eq!(ownership(annotated), Ownership::AdoptionAllowed);
    assert!(matches!(ownership(json!({"annotations": {"core.rukpak.io/adopt-by": "b"}})), Ownership::Foreign(_)));
    let controlled = json!({"annotations": {"core.rukpak.io/adopt-by": "a"}, "ownerReferences": reference("b", "2")});
    let Ownership::Foreign(foreign) = ownership(controlled) else { panic!("it has a controller") };
    assert_eq!(foreign.why(), "it is controlled by BundleDeployment \"b\"");
    assert!(matches!(foreign, ForeignOwner::Controller { is_deployment: true, .. }));
    let mut set = reference("web", "3");
    set[0]["apiVersion"] = json!("apps/v1");
    set[0]["kind"] = json!("ReplicaSet");
    let Ownership::Foreign(foreign) = ownership(json!({"ownerReferences": set})) else { panic!("it has a controller") };
    assert!(matches!(foreign, ForeignOwner::Controller { is_deployment: false, .. }));
}
