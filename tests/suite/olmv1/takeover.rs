//! Extensions that operator-controller has installed go over to the extension of the same name: as Helm left them, and as its revisions
//! did. Upstream's programs do not run: what they write is written here. Worlds of their own, as nothing may look before it is all there.

use std::time::{Duration, Instant};

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, PropagationPolicy};
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::{Value, json};

use super::case::{Case, installed};
use super::commands::rukpakctl;
use super::world::World;

/// Under which upstream's revisions write objects of bundles.
const MANAGER: &str = "olm.operatorframework.io";
/// Under which its Helm does.
const HELM_MANAGER: &str = "operator-controller";
/// Where upstream keeps its releases.
const SYSTEM_NAMESPACE: &str = "olmv1-system";
const GROUP: &str = "olm.operatorframework.io/v1";
/// What upstream puts on each extension.
const FINALIZERS: [&str; 2] =
    ["olm.operatorframework.io/cleanup-unpack-cache", "olm.operatorframework.io/cleanup-contentmanager-cache"];

/// An object that upstream has installed.
struct Left {
    target: Target,
    uid: String,
}

/// The objects of the bundle `image`, as upstream renders them: without a Namespace.
async fn rendered(case: &Case<'_>, image: &str) -> Vec<Value> {
    let ca = case.world.plane.folder().join("sources-ca.pem");
    let (ca, space) = (ca.to_str().expect("UTF-8"), case.space());
    let did = rukpakctl(case.world, &["render", image, "-ojson", "--install-namespace", &space, "--ca-file", ca]).await;
    let objects: Vec<Value> = serde_json::from_str(&did.out).unwrap_or_else(|error| panic!("{error}: {did:?}"));
    let objects: Vec<Value> = objects.into_iter().filter(|object| object["kind"] != "Namespace").collect();
    assert!(objects.len() > 4, "{did:?}");
    objects
}

/// The extension, which says to have installed version 1.0.0 of `image`.
async fn extension(case: &Case<'_>, image: &str, version: &str) -> DynamicObject {
    let mut object = case.object(&json!({"version": version}), &json!({}));
    object["metadata"]["finalizers"] = json!(FINALIZERS);
    case.create(&object).await;
    let condition = |type_: &str, message: &str| {
        json!({"type": type_, "status": "True", "reason": "Succeeded", "message": message, "observedGeneration": 1,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let status = json!({"status": {
        "conditions": [condition("Installed", &format!("Installed bundle {image} successfully")),
                       condition("Progressing", "Desired state reached"),
                       condition("Available", "Objects are available and pass all probes.")],
        "install": {"bundle": {"name": format!("{}.v1.0.0", case.name), "version": "1.0.0"}},
    }});
    let api = case.extension().api(&case.client).await.expect("it is served");
    api.patch_status(&case.name, &PatchParams::default(), &Patch::Merge(status)).await.expect("it takes a status")
}

/// A controller owner reference to an object.
fn reference(object: &DynamicObject) -> Value {
    let types = object.types.as_ref().expect("the API server says it");
    json!([{"apiVersion": types.api_version, "kind": types.kind, "name": object.metadata.name, "uid": object.metadata.uid,
            "controller": true, "blockOwnerDeletion": true}])
}

fn marked(object: &Value, case: &Case<'_>, managed_by: &str, owner: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!(managed_by);
    object["metadata"]["labels"]["olm.operatorframework.io/owner-kind"] = json!("ClusterExtension");
    object["metadata"]["labels"]["olm.operatorframework.io/owner-name"] = json!(case.name);
    object["metadata"]["ownerReferences"] = owner.clone();
    object
}

fn left(object: &Value, created: &DynamicObject) -> Left {
    Left { target: Target::of(object).expect("it has a kind"), uid: created.metadata.uid.clone().expect("it has one") }
}

/// As Helm installs: POSTs, its annotations, and a release in a Secret.
async fn by_helm(case: &Case<'_>, image: &str, owner: &DynamicObject) -> Vec<Left> {
    let mut all = Vec::new();
    for object in rendered(case, image).await {
        let mut object = marked(&object, case, "Helm", &reference(owner));
        object["metadata"]["annotations"]["meta.helm.sh/release-name"] = json!(case.name);
        object["metadata"]["annotations"]["meta.helm.sh/release-namespace"] = json!(case.space());
        let new: DynamicObject = serde_json::from_value(object.clone()).expect("it is an object");
        let parameters = PostParams { field_manager: Some(HELM_MANAGER.to_owned()), ..PostParams::default() };
        let api = Target::of(&object).expect("it has a kind").api(&case.client).await.expect("it is served");
        all.push(left(&object, &api.create(&parameters, &new).await.expect("the API server takes it")));
    }
    let release = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "operatorframework.io/index.v1",
        "metadata": {"name": format!("sh.helm.release.v1.{}.v1", case.name), "namespace": SYSTEM_NAMESPACE,
                     "labels": {"owner": "operator-controller", "name": case.name, "status": "deployed", "version": "1"},
                     "ownerReferences": reference(owner)},
        "stringData": {"chunk": "a release"},
    });
    all.push(left(&release, &case.create(&release).await));
    all
}

/// Names the revision of a case.
fn revision(case: &Case<'_>) -> Target {
    Target::cluster(GROUP, "ClusterObjectSet", &format!("{}-1", case.name))
}

/// As a revision installs: server-side apply, for a ClusterObjectSet that the extension controls.
async fn by_revision(case: &Case<'_>, image: &str, owner: &DynamicObject) -> Vec<Left> {
    let set = json!({
        "apiVersion": GROUP, "kind": "ClusterObjectSet",
        "metadata": {"name": revision(case).name, "finalizers": ["olm.operatorframework.io/teardown"],
                     "ownerReferences": reference(owner),
                     "annotations": {"olm.operatorframework.io/bundle-reference": image}},
        "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"},
    });
    let set = case.create(&set).await;
    let mut all = Vec::new();
    for object in rendered(case, image).await {
        let mut object = marked(&object, case, MANAGER, &reference(&set));
        object["metadata"]["annotations"]["olm.operatorframework.io/revision"] = json!("1");
        let target = Target::of(&object).expect("it has a kind");
        let api = target.api(&case.client).await.expect("it is served");
        let end = Instant::now() + verbs::PATIENCE;
        let applied = loop {
            match api.patch(&target.name, &PatchParams::apply(MANAGER), &Patch::Apply(&object)).await {
                // Admission learns new kinds of owners every 30 s.
                Err(kube::Error::Api(status)) if status.message.contains("RESTMapping") && Instant::now() < end => {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                applied => break applied.expect("the API server takes it"),
            }
        };
        all.push(left(&object, &applied));
    }
    all
}

/// Nothing was made anew, and the BundleDeployment alone controls what belongs to the bundle.
async fn is_taken_over(case: &Case<'_>, all: &[Left]) {
    let deployment = case.get(&Target::bundle_deployment(&case.name)).await;
    for Left { target, uid } in all {
        let object = case.get(target).await;
        assert_eq!(object.metadata.uid.as_ref(), Some(uid), "{target} was made anew");
        let owners = object.metadata.owner_references.unwrap_or_default();
        if target.name.starts_with("sh.helm.release") {
            assert_eq!(owners[0].kind, "ClusterExtension", "releases are left alone");
            continue;
        }
        let owners: Vec<_> = owners.iter().map(|owner| (owner.kind.as_str(), Some(&owner.uid))).collect();
        assert_eq!(owners, [("BundleDeployment", deployment.metadata.uid.as_ref())], "{target}");
        let labels = object.metadata.labels.unwrap_or_default();
        assert_eq!(labels.get("app.kubernetes.io/managed-by"), None, "{target} has upstream's marks still");
        assert_eq!(labels["olm.operatorframework.io/owner-name"], case.name);
    }
}

/// Waits until everything is taken over, while the extension never says that nothing is installed.
async fn until_taken_over(case: &Case<'_>, all: &[Left]) {
    let (target, period) = (case.extension(), Duration::from_secs(5));
    let stays =
        case.holds_for(&target, "what is installed", period, |object| object.is_some_and(|it| installed().met_by(it)));
    let taken = case
        .until_object(&target, "no finalizers", |object| object.metadata.finalizers.as_ref().is_none_or(Vec::is_empty));
    tokio::join!(stays, taken);
    // Of what it said nobody else says that it is so: no Deployment runs here.
    let stale = Expected::is_true("Available", "Succeeded");
    case.until_object(&target, "its own word on what is available", |object| !stale.met_by(object)).await;
    is_taken_over(case, all).await;
}

async fn two(world: &World) -> [(Case<'_>, Vec<String>); 2] {
    let cases = [Case::within(world, "helm").await, Case::within(world, "revision").await];
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}});
    cases[0].create(&space).await;
    let mut all = Vec::new();
    for case in cases {
        case.make_space().await;
        let images = case.offer(&["1.0.0", "1.1.0"]).await;
        all.push((case, images));
    }
    all.try_into().unwrap_or_else(|_| unreachable!("there are two"))
}

/// 66, 67.
#[tokio::test]
async fn what_upstream_installed_is_taken_over_in_place_and_can_go_back() {
    let world = World::new().await;
    let [(helm, helm_images), (sets, set_images)] = two(&world).await;
    world.manager.terminate().await.expect("it ends");
    let owner = extension(&helm, &helm_images[0], "1.0.0").await;
    let by_helm = by_helm(&helm, &helm_images[0], &owner).await;
    // A range, so that an upgrade comes as soon as everything is taken over.
    let owner = extension(&sets, &set_images[0], "1.x").await;
    let by_sets = by_revision(&sets, &set_images[0], &owner).await;
    world.manager.restart().await.expect("it starts");
    until_taken_over(&helm, &by_helm).await;
    helm.until_version("1.0.0").await;
    until_taken_over(&sets, &by_sets).await;
    sets.until_version("1.1.0").await;
    is_taken_over(&sets, &by_sets).await;
    assert_eq!(sets.get(&sets.settings()).await.data["data"]["version"], "1.1.0");

    // Nothing hangs on the revision any more; everything hangs on the extension.
    sets.merge_into(&revision(&sets), &json!({"metadata": {"finalizers": null}})).await;
    sets.delete(&revision(&sets)).await;
    sets.until_gone(&revision(&sets)).await;
    is_taken_over(&sets, &by_sets).await;
    sets.delete(&sets.extension()).await;
    for Left { target, .. } in &by_sets {
        sets.until_gone(target).await;
    }

    back(&world, &helm, &by_helm).await;
}

/// The way back: our programs end, the BundleDeployment goes without its objects, and what is left belongs to nobody until
/// operator-controller says again that it controls it.
async fn back(world: &World, case: &Case<'_>, all: &[Left]) {
    world.manager.terminate().await.expect("it ends");
    world.controller.terminate().await.expect("it ends");
    let deployment = Target::bundle_deployment(&case.name);
    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    case.delete_as(&deployment, &orphan).await;
    case.until_gone(&deployment).await;
    let owner = reference(&case.get(&case.extension()).await);
    for Left { target, uid } in all {
        let object = case.merge_into(target, &json!({"metadata": {"ownerReferences": owner}})).await;
        assert_eq!(object.metadata.uid.as_ref(), Some(uid), "{target} was made anew");
    }
    assert!(installed().met_by(&case.get(&case.extension()).await));
}

/// What is in the way of an object is no reason to forget what is installed.
#[tokio::test]
async fn an_object_that_another_extension_controls_is_not_taken_over() {
    let world = World::new().await;
    let [(case, images), (other, _)] = two(&world).await;
    world.manager.terminate().await.expect("it ends");
    let owner = extension(&case, &images[0], "1.0.0").await;
    let stranger = extension(&other, "registry.example/none:v1", "1.0.0").await;
    let by_helm = by_helm(&case, &images[0], &owner).await;
    let settings = case.settings();
    let foreign = case.merge_into(&settings, &json!({"metadata": {"ownerReferences": reference(&stranger)}})).await;
    world.manager.restart().await.expect("it starts");
    let words = Expected::is_true("Progressing", "Retrying").saying("it is controlled by ClusterExtension");
    let object = case.until_at(&case.extension(), words).await;
    assert!(installed().met_by(&object) && object.metadata.finalizers.is_some(), "{:#}", object.data);
    assert_eq!(case.get(&settings).await.metadata.resource_version, foreign.metadata.resource_version);
    case.merge_into(&settings, &json!({"metadata": {"ownerReferences": reference(&owner)}})).await;
    until_taken_over(&case, &by_helm).await;
}

/// `rukpakctl diff` says beforehand what the take-over does: all objects get another owner, and what somebody changed is put right.
#[tokio::test]
async fn a_diff_shows_what_the_take_over_changes() {
    let world = World::new().await;
    let [(helm, helm_images), (sets, set_images)] = two(&world).await;
    world.manager.terminate().await.expect("it ends");
    world.controller.terminate().await.expect("it ends");
    let owner = extension(&helm, &helm_images[0], "1.0.0").await;
    let by_helm = by_helm(&helm, &helm_images[0], &owner).await;
    let owner = extension(&sets, &set_images[0], "1.0.0").await;
    let by_sets = by_revision(&sets, &set_images[0], &owner).await;
    world.manager.restart().await.expect("it starts");
    let ca = world.plane.folder().join("sources-ca.pem");
    let diff = async |case: &Case<'_>, image: &str| {
        // The BundleDeployment is there, and no controller has looked at it.
        case.until_object(&Target::bundle_deployment(&case.name), "a BundleDeployment", |_| true).await;
        rukpakctl(&world, &["diff", &case.name, image, "--ca-file", ca.to_str().expect("UTF-8")]).await
    };
    for (case, images) in [(&helm, &helm_images), (&sets, &set_images)] {
        let did = diff(case, &images[0]).await;
        assert_eq!(did.code, Some(1), "{did:?}");
        let fields: Vec<&str> = did.out.lines().filter(|line| line.starts_with(' ')).collect();
        assert!(fields.iter().all(|line| line[4..].starts_with(".metadata.")), "only its owner changes: {did:?}");
        let is_owner =
            |line: &&&str| line[2..].starts_with("+ .metadata.ownerReferences") && line.contains("BundleDeployment");
        assert!(fields.iter().any(|line| is_owner(&line)), "{did:?}");
        let verbs = ["create ", "delete ", "refuse ", "wait ", "? "];
        assert!(!did.out.lines().any(|line| verbs.iter().any(|verb| line.starts_with(verb))), "{did:?}");
        let note = format!("ConfigMap \"settings\" in namespace {:?}", case.space());
        assert!(
            did.err.contains("note: taken over from whoever installed them: ") && did.err.contains(&note),
            "{did:?}"
        );
        case.merge_into(&case.settings(), &json!({"data": {"version": "by hand"}})).await;
        let did = diff(case, &images[0]).await;
        let change = "\n  - .data.version: \"by hand\"\n  + .data.version: \"1.0.0\"\n";
        assert!(did.out.contains(change), "{did:?}");
    }
    world.controller.restart().await.expect("it starts");
    for (case, all) in [(&helm, &by_helm), (&sets, &by_sets)] {
        until_taken_over(case, all).await;
        assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0", "as the diff said");
    }
}
