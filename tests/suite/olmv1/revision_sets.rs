//! The revisions of extensions, shown as ClusterObjectSets behind upstream's gate. The first three tests are scenarios of
//! operator-controller (`install.feature`).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use rukpak_tests::Documents;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::verbs::{Expected, Target};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::case::{Case, rolled_out, text};
use super::world::World;
use crate::platform::packages::{ALL, bundle, with_deployment};

const GROUP: &str = "olm.operatorframework.io/v1";
const OWNER_NAME: &str = "olm.operatorframework.io/owner-name";

static SHOWING: OnceCell<World> = OnceCell::const_new();

/// A new name in a world whose manager has the gate.
async fn showing(prefix: &str) -> Case<'static> {
    let world = SHOWING.get_or_init(async || World::with(&["--feature-gates=BoxcutterRuntime=true"]).await).await;
    Case::within(world, prefix).await
}

fn revision(case: &Case<'_>, number: u8) -> Target {
    Target::cluster(GROUP, "ClusterObjectSet", &format!("{}-{number}", case.name))
}

/// Installs version 1.2.0 with a Deployment and a property, and waits until it is rolled out and available.
async fn install(case: &Case<'_>) -> Kubelet {
    let kubelet = Kubelet::play(case.client.clone(), &case.space());
    let properties = json!({"properties": [{"type": "olm.test-property", "value": "some-value"}]});
    let mut files = with_deployment(bundle(&case.name, "1.2.0", ALL));
    files.push(("metadata/properties.yaml".to_owned(), properties.to_string()));
    let image = case.push("1.2.0", files).await;
    case.serve(Documents::package(&case.name, &[("1.2.0", image.as_str())])).await;
    case.extend(json!({}), json!({})).await;
    case.until_at(&case.extension(), rolled_out()).await;
    case.until_at(&case.extension(), Expected::is_true("Available", "ProbesSucceeded")).await;
    kubelet
}

async fn until_succeeded(case: &Case<'_>, number: u8) -> DynamicObject {
    let has_succeeded = |set: &DynamicObject| {
        Expected::is_true("Succeeded", "Succeeded").met_by(set) && text(set, "/spec/lifecycleState") == "Active"
    };
    case.until_object(&revision(case, number), "a revision that has succeeded", has_succeeded).await
}

async fn until_archived(case: &Case<'_>, number: u8) {
    let is_archived = |set: &DynamicObject| {
        Expected::is_false("Progressing", "Archived").saying("revision is archived").met_by(set)
            && text(set, "/spec/lifecycleState") == "Archived"
    };
    case.until_object(&revision(case, number), "a revision that is archived", is_archived).await;
}

/// The Secrets of the system namespace that are about the extension: what its sets hold, and what was kept for them.
async fn stored(case: &Case<'_>) -> Vec<Secret> {
    let secrets: Api<Secret> = Api::namespaced(case.client.clone(), SYSTEM_NAMESPACE);
    let listed = secrets.list(&ListParams::default()).await.expect("Secrets are listed");
    let is_meant = |secret: &Secret| {
        secret.labels().get(OWNER_NAME) == Some(&case.name)
            || secret.owner_references().iter().any(|owner| owner.name == case.name)
    };
    listed.items.into_iter().filter(is_meant).collect()
}

#[tokio::test]
async fn a_revision_is_annotated_with_the_properties_of_its_bundle() {
    let case = showing("properties").await;
    let _kubelet = install(&case).await;
    let set = until_succeeded(&case, 1).await;
    let properties = r#"[{"type":"olm.test-property","value":"some-value"}]"#;
    assert_eq!(set.annotations().get("olm.properties").map(String::as_str), Some(properties));
    for (key, value) in [
        ("package-name", case.name.clone()),
        ("bundle-name", format!("{}.v1.2.0", case.name)),
        ("bundle-version", "1.2.0".to_owned()),
    ] {
        assert_eq!(set.annotations().get(&format!("olm.operatorframework.io/{key}")), Some(&value));
    }
}

#[tokio::test]
async fn a_revision_is_labelled_with_its_owner() {
    let case = showing("labels").await;
    let _kubelet = install(&case).await;
    let set = until_succeeded(&case, 1).await;
    assert_eq!(set.labels().get("olm.operatorframework.io/owner-kind").map(String::as_str), Some("ClusterExtension"));
    assert_eq!(set.labels().get(OWNER_NAME), Some(&case.name));
    assert_eq!(set.owner_references()[0].uid, case.get(&case.extension()).await.uid().unwrap());
    assert!(Expected::is_true("Progressing", "Succeeded").saying("Revision 1.2.0 has rolled out.").met_by(&set));
    case.until_at(&revision(&case, 1), Expected::is_true("Available", "ProbesSucceeded")).await;
}

#[tokio::test]
async fn the_objects_of_a_revision_are_in_immutable_secrets() {
    let case = showing("objects").await;
    let _kubelet = install(&case).await;
    let set = until_succeeded(&case, 1).await;
    let secrets: Api<Secret> = Api::namespaced(case.client.clone(), SYSTEM_NAMESPACE);
    let mut held: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for phase in set.data["spec"]["phases"].as_array().expect("it has phases") {
        for object in phase["objects"].as_array().expect("it has objects") {
            assert!(object.get("object").is_none(), "{object}");
            assert_eq!(object["ref"]["namespace"], SYSTEM_NAMESPACE);
            let name = object["ref"]["name"].as_str().expect("a name");
            let secret = secrets.get(name).await.expect("the Secret is there");
            assert_eq!(secret.immutable, Some(true));
            assert_eq!(secret.type_.as_deref(), Some("olm.operatorframework.io/object-data"));
            assert_eq!(secret.labels().get("olm.operatorframework.io/revision-name"), Some(&set.name_any()));
            assert_eq!(secret.labels().get(OWNER_NAME), Some(&case.name));
            let owner = &secret.owner_references()[0];
            assert_eq!((owner.kind.as_str(), &owner.uid), ("ClusterObjectSet", &set.uid().unwrap()));
            let key = object["ref"]["key"].as_str().expect("a key");
            let manifest: Value = serde_json::from_slice(&secret.data.as_ref().unwrap()[key].0).expect("JSON");
            let phase = phase["name"].as_str().expect("a name").to_owned();
            held.entry(phase).or_default().push(format!("{} {}", manifest["kind"], manifest["metadata"]["name"]));
        }
    }
    let holds = |phase: &str, words: &str| held.get(phase).is_some_and(|all| all.iter().any(|one| one == words));
    assert!(holds("configuration", r#""ConfigMap" "settings""#), "{held:?}");
    assert!(holds("deploy", r#""Deployment" "pump""#), "{held:?}");
    assert_eq!(held.get("crds").map(Vec::len), Some(1), "{held:?}");
}

#[tokio::test]
async fn revisions_that_are_replaced_are_archived_and_all_go_with_their_extension() {
    let case = showing("replaced").await;
    case.install(&["1.0.0", "1.1.0"], json!({"version": "1.0.0"})).await;
    until_succeeded(&case, 1).await;
    let definition = case.get(&case.definition()).await;
    case.ask(json!({"version": "1.1.0"})).await;
    case.until_version("1.1.0").await;
    until_succeeded(&case, 2).await;
    until_archived(&case, 1).await;
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.1.0");

    // What was archived cannot be taken back: another set takes the name.
    case.merge(&json!({"spec": {"rollbackTo": 1}})).await;
    until_succeeded(&case, 1).await;
    until_archived(&case, 2).await;
    let is_back = |map: &DynamicObject| map.data["data"]["version"] == "1.0.0";
    case.until_object(&case.settings(), "version 1.0.0", is_back).await;
    assert_eq!(case.get(&case.definition()).await.metadata.uid, definition.metadata.uid);

    let secrets = stored(&case).await;
    let types: Vec<&str> = secrets.iter().filter_map(|secret| secret.type_.as_deref()).collect();
    assert!(types.contains(&"olm.operatorframework.io/object-data"), "{types:?}");
    assert!(types.contains(&"core.rukpak.io/manifests"), "{types:?}");
    case.delete(&case.extension()).await;
    for target in [case.definition(), case.settings(), revision(&case, 1), revision(&case, 2)] {
        case.until_gone(&target).await;
    }
    for secret in secrets {
        case.until_gone(&Target::namespaced("v1", "Secret", SYSTEM_NAMESPACE, &secret.name_any())).await;
    }
}

#[tokio::test]
async fn a_set_that_shows_a_revision_has_nothing_done() {
    let case = showing("shows").await;
    case.install(&["1.0.0"], json!({})).await;
    let set = until_succeeded(&case, 1).await;
    let settings = case.get(&case.settings()).await;

    // One that looks like it, but for what it holds.
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "forged", "namespace": case.space()}});
    let mut forged = json!({
        "apiVersion": GROUP, "kind": "ClusterObjectSet",
        "metadata": {"name": format!("{}-9", case.name), "labels": set.labels(), "annotations": set.annotations(),
                     "ownerReferences": set.owner_references()},
        "spec": {"lifecycleState": "Active", "revision": 9, "collisionProtection": "None",
                 "phases": [{"name": "deploy", "objects": [{"object": map}]}]},
    });
    case.create(&forged).await;
    forged["metadata"]["name"] = json!(format!("{}-forged", case.name));
    forged["metadata"]["annotations"] = json!({});
    case.create(&forged).await;

    // Neither its end nor that of the real one is the end of anything.
    case.merge_into(&revision(&case, 1), &json!({"spec": {"lifecycleState": "Archived"}})).await;
    case.delete(&revision(&case, 9)).await;
    let forged = Target::namespaced("v1", "ConfigMap", &case.space(), "forged");
    case.holds_for(&forged, "what was forged", Duration::from_secs(3), |map| map.is_none()).await;
    assert!(case.find(&Target::bundle_deployment(&format!("{}-9.deploy", case.name))).await.is_none());

    // It is made anew when the extension is looked at.
    case.merge_into(&case.extension(), &json!({"metadata": {"annotations": {"example.com/look": "1"}}})).await;
    let anew = until_succeeded(&case, 1).await;
    assert_ne!(anew.metadata.uid, set.metadata.uid);
    case.delete(&revision(&case, 1)).await;
    case.merge_into(&case.extension(), &json!({"metadata": {"annotations": {"example.com/look": "2"}}})).await;
    until_succeeded(&case, 1).await;

    // Nor is anything done with one that an extension has left behind.
    case.merge_into(&revision(&case, 1), &json!({"metadata": {"ownerReferences": null}})).await;
    let phase = Target::bundle_deployment(&format!("{}-1.configuration", case.name));
    case.holds_for(&phase, "a phase of what is shown", Duration::from_secs(3), |phase| phase.is_none()).await;
    assert_eq!(case.get(&case.settings()).await.metadata.uid, settings.metadata.uid);
}

#[tokio::test]
async fn a_set_of_somebody_else_keeps_the_name_of_a_revision() {
    let case = showing("taken").await;
    let spec = json!({"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"});
    let metadata = json!({"name": format!("{}-1", case.name)});
    let taken = json!({"apiVersion": GROUP, "kind": "ClusterObjectSet", "metadata": metadata, "spec": spec});
    let theirs = case.create(&taken).await;
    case.install(&["1.0.0"], json!({})).await;
    let is_theirs = |set: Option<&DynamicObject>| {
        set.is_some_and(|set| set.metadata.uid == theirs.metadata.uid && set.owner_references().is_empty())
    };
    case.holds_for(&revision(&case, 1), "the set of somebody else", Duration::from_secs(2), is_theirs).await;
    let types: Vec<Option<String>> = stored(&case).await.into_iter().map(|secret| secret.type_).collect();
    assert!(!types.contains(&Some("olm.operatorframework.io/object-data".to_owned())), "{types:?}");
}

#[tokio::test]
async fn no_revision_is_shown_without_the_gate() {
    let case = Case::new("unshown").await;
    case.install(&["1.0.0"], json!({})).await;
    case.holds_for(&revision(&case, 1), "a revision", Duration::from_secs(2), |set| set.is_none()).await;
    let deployment = case.get(&case.target()).await;
    assert!(!deployment.annotations().contains_key("core.rukpak.io/keep-manifests"));
    assert!(stored(&case).await.is_empty(), "nothing is kept");
}
