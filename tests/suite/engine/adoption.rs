//! What exists already: refused, or taken over where somebody allows it.

use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, deployment, image, until};
use serde_json::{Value, json};

use crate::deployments::tired::tire;
use crate::engine::case::{Case, OURS, is_owned};
use crate::engine::worlds;

#[tokio::test]
async fn a_foreign_object_is_refused_and_not_touched_until_its_owner_allows_it() {
    let case = Case::new("collide").await;
    let target = case.config_map_target("taken");
    let foreign = case.foreign(&case.config_map("taken", json!({"mine": "yes"}))).await;
    case.create(&[case.config_map("taken", json!({"mine": "no"}))]).await;
    let message = case.refused("InstallFailed", "already exists").await;
    let expected = format!(
        "rendered manifests contain a resource that already exists. Unable to continue with install: ConfigMap \"taken\" in \
         namespace {:?} exists and cannot be imported into the current release: invalid ownership metadata; it was not \
         created by this BundleDeployment. Let this BundleDeployment take it over with the annotation \
         core.rukpak.io/adopt-by={:?} on it, or leave it out of the bundle; this is looked at again within a minute",
        case.namespace, case.name
    );
    assert_eq!(message, expected);
    let untouched = case.get(&target).await.unwrap();
    assert_eq!(untouched.metadata.resource_version, foreign.metadata.resource_version);
    let status = case.status().await;
    assert!(status.get("activeBundle").is_none(), "{status}");

    case.edit("user", &target, json!({"metadata": {"annotations": {"core.rukpak.io/adopt-by": case.name}}})).await;
    case.installed().await;
    let adopted = case.until_owned(&target).await;
    assert_eq!(adopted.metadata.uid, foreign.metadata.uid, "taken over, not made anew");
    assert_eq!(adopted.data["data"], json!({"mine": "no"}));
}

#[tokio::test]
async fn the_spec_has_an_object_taken_over_that_nothing_controls() {
    let case = Case::new("take-over").await;
    let target = case.config_map_target("taken");
    let foreign = case.foreign(&case.config_map("taken", json!({"mine": "yes"}))).await;
    case.create(&[case.config_map("taken", json!({"mine": "no"}))]).await;
    case.refused("InstallFailed", "already exists").await;
    let others = json!([{"kind": "ConfigMap", "name": "other"}]);
    let deployment = Target::bundle_deployment(&case.name);
    case.edit("user", &deployment, json!({"spec": {"takeOver": others}})).await;
    case.refused("InstallFailed", "already exists").await;
    let rules = json!([{"kind": "ConfigMap", "namespace": case.namespace, "name": "taken"}]);
    case.edit("user", &deployment, json!({"spec": {"takeOver": rules}})).await;
    case.installed().await;
    let adopted = case.until_owned(&target).await;
    assert_eq!(adopted.metadata.uid, foreign.metadata.uid, "taken over, not made anew");
    assert_eq!(adopted.data["data"], json!({"mine": "no"}));
}

/// Each would take it from the other again and again.
#[tokio::test]
async fn of_two_deployments_that_take_one_object_over_the_later_one_has_it() {
    let first = Case::new("takers").await;
    let second = first.sibling();
    let target = first.config_map_target("taken");
    let rules = json!({"spec": {"takeOver": [{"kind": "ConfigMap", "name": "taken", "controlled": true}]}});
    first.install(&[first.config_map("taken", json!({"by": first.name}))]).await;
    first.edit("user", &first.target(), rules.clone()).await;
    second.create(&[second.config_map("taken", json!({"by": second.name}))]).await;
    second.refused("InstallFailed", "already exists").await;
    second.edit("user", &second.target(), rules).await;

    // Both may be of one second.
    let (one, two) = (first.get(&first.target()).await.unwrap(), second.get(&second.target()).await.unwrap());
    let age = |of: &DynamicObject| (of.metadata.creation_timestamp.as_ref().map(|at| at.0), of.metadata.uid.clone());
    let (winner, loser, reason) =
        if age(&one) < age(&two) { (&second, &first, "ReconcileFailed") } else { (&first, &second, "InstallFailed") };
    let why = format!("it is controlled by BundleDeployment {:?}", winner.name);
    loser.refused(reason, &why).await;
    winner.installed().await;
    winner.stays(&target, Duration::from_secs(3)).await;
    assert_eq!(winner.until_owned(&target).await.data["data"]["by"], winner.name.as_str());
    loser.refused(reason, &why).await;

    winner.delete(&winner.target()).await;
    loser.installed().await;
    loser.until_owned(&target).await;
}

#[tokio::test]
async fn a_foreign_cluster_scoped_object_is_refused_in_the_same_words() {
    let case = Case::new("collide-cluster").await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": case.name}, "rules": []});
    case.foreign(&role).await;
    case.create(std::slice::from_ref(&role)).await;
    let start = format!("ClusterRole {:?} in namespace \"\" exists and cannot be imported", case.name);
    case.refused("InstallFailed", &start).await;
    case.delete(&Target::of(&role).unwrap()).await;
    case.installed().await;
}

#[tokio::test]
async fn many_foreign_objects_are_told_of_in_one_text() {
    let case = Case::new("crowd").await;
    let objects = case.config_maps(8, "mine");
    for object in &objects {
        case.foreign(object).await;
    }
    case.create(&objects).await;
    let message = case.refused("InstallFailed", "already exists").await;
    let named = |index: usize| format!("ConfigMap \"many-{index:04}\" in namespace {:?}", case.namespace);
    let others: Vec<String> = (1..5).map(named).collect();
    for text in [
        format!("{} exists and cannot be imported", named(0)),
        format!("The same holds for 7 others: {} and 3 more. Let this", others.join(", ")),
    ] {
        assert!(message.contains(&text), "{message}");
    }
    assert_eq!(message.matches("adopt-by").count(), 1, "{message}");
    for object in &objects {
        let target = Target::of(object).unwrap();
        let mine = json!({"metadata": {"annotations": {"core.rukpak.io/adopt-by": case.name}}});
        case.edit("user", &target, mine).await;
    }
    case.installed().await;
}

#[tokio::test]
async fn of_two_deployments_with_the_same_object_exactly_one_gets_it() {
    let one = Case::new("twins").await;
    let two = one.sibling();
    let object = |value: &str| [one.config_map("shared", json!({"by": value}))];
    let (first, second) = (object("1"), object("2"));
    tokio::join!(one.create(&first), two.create(&second));
    let target = one.config_map_target("shared");
    let shared = one.until(&target, "the object", |object| object.is_some()).await.unwrap();
    let (uid_one, uid_two) = (one.uid().await, two.uid().await);
    let one_has_it = is_owned(&shared, &one.name, &uid_one);
    assert_ne!(one_has_it, is_owned(&shared, &two.name, &uid_two));
    let (winner, loser, value) = if one_has_it { (&one, &two, "1") } else { (&two, &one, "2") };
    winner.installed().await;
    let why = format!("it is controlled by BundleDeployment {:?}", winner.name);
    let message = loser.refused("InstallFailed", &why).await;
    let way_out = format!("To give BundleDeployment {:?} up and keep what it installed", winner.name);
    assert!(message.contains(&way_out) && !message.contains("adopt-by"), "{message}");
    assert_eq!(one.get(&target).await.unwrap().data["data"]["by"], value);
    winner.stays(&target, Duration::from_secs(2)).await;

    // The loser inherits what the winner leaves.
    winner.delete(&winner.target()).await;
    loser.installed().await;
    loser.until_owned(&target).await;
}

/// Creates the object the way upstream's Helm client did: a POST by `manager`, with Helm's marks.
pub async fn helm_installed(
    case: &Case<'_>,
    manager: &str,
    object: &Value,
    release: &str,
    uid: Option<&str>,
) -> DynamicObject {
    let mut object = object.clone();
    object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm",
        "core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": release});
    object["metadata"]["annotations"] =
        json!({"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "rukpak-system"});
    if let Some(uid) = uid {
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment",
            "name": release, "uid": uid, "controller": true, "blockOwnerDeletion": true}]);
    }
    let target = Target::of(&object).expect("the object has a kind and a name");
    let new: DynamicObject = serde_json::from_value(object).expect("it is an object");
    let parameters = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
    target
        .api(&case.client)
        .await
        .expect("the kind is served")
        .create(&parameters, &new)
        .await
        .expect("the API server agrees")
}

/// A deployment that upstream installed: it and its objects exist before its content can be fetched.
async fn taken_over(manager: &str, with_reference: bool) {
    let case = Case::new("helm").await;
    let v1 = [case.config_map("a", json!({"x": "1", "gone-later": "1"})), case.workload("w", 0)];
    // The bundle is not pushed yet, so that nothing is installed before the objects of the release are there.
    let reference = format!("{}/bundles/{}:v1", case.world.registry.host(), case.name);
    verbs::create(&case.client, &deployment(&case.name, image(&reference))).await.expect("the API server agrees");
    let uid = case.uid().await;
    let uid = with_reference.then_some(uid.as_str());
    let before = helm_installed(&case, manager, &v1[0], &case.name, uid).await;
    helm_installed(&case, manager, &v1[1], &case.name, uid).await;
    assert_eq!(case.push("v1", &v1).await, reference);
    // Wakes it: a missing image is looked for again after a while only.
    case.edit("user", &case.target(), json!({"spec": {"template": {"metadata": {"labels": {"pushed": "yes"}}}}})).await;
    case.installed().await;

    let target = case.config_map_target("a");
    let after = case.get(&target).await.expect("it is there");
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert!(is_owned(&after, &case.name, &case.uid().await));
    let managers: Vec<_> = after.metadata.managed_fields.iter().flatten().filter_map(|e| e.manager.clone()).collect();
    assert_eq!(managers, [OURS]);
    case.pivot("v2", &[case.config_map("a", json!({"x": "2"})), case.workload("w", 0)]).await;
    assert_eq!(case.get(&target).await.expect("it is there").data["data"], json!({"x": "2"}));
    case.pivot("v3", &[case.config_map("a", json!({"x": "2"}))]).await;
    case.until_gone(&case.in_namespace("apps/v1", "Deployment", "w")).await;
}

#[tokio::test]
async fn what_upstream_installed_is_taken_over_with_its_fields() {
    taken_over("core", true).await;
}

#[tokio::test]
async fn what_upstream_installed_and_lost_its_reference_is_taken_over_as_well() {
    taken_over("manager", false).await;
}

#[tokio::test]
async fn other_helm_releases_are_foreign() {
    let case = Case::new("helm-foreign").await;
    let object = case.config_map("a", json!({"x": "1"}));
    let other = unique_name("other");
    let before = helm_installed(&case, "helm", &object, &other, None).await;
    case.create(&[object]).await;
    let why = format!("it belongs to the Helm release {other:?} in namespace \"rukpak-system\"");
    case.refused("InstallFailed", &why).await;
    let after = case.get(&case.config_map_target("a")).await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
}

#[tokio::test]
async fn labels_alone_are_foreign_to_install_and_to_prune() {
    let case = Case::new("labels").await;
    let labelled = |name: &str| {
        let mut object = case.config_map(name, json!({"x": "foreign"}));
        object["metadata"]["labels"] =
            json!({"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": case.name});
        object
    };
    let bystander = case.foreign(&labelled("bystander")).await;
    case.foreign(&labelled("copied")).await;
    case.create(&[case.config_map("copied", json!({"x": "ours"}))]).await;
    case.refused("InstallFailed", "it was copied or orphaned").await;
    case.delete(&case.config_map_target("copied")).await;
    case.installed().await;
    case.pivot("v2", &[case.config_map("b", json!({}))]).await;
    case.until_gone(&case.config_map_target("copied")).await;
    let after = case.get(&case.config_map_target("bystander")).await.unwrap();
    assert_eq!(after.metadata.resource_version, bystander.metadata.resource_version);
}

#[tokio::test]
async fn what_an_earlier_deployment_of_the_name_left_is_waited_for() {
    let case = Case::new("again").await;
    let objects = [case.config_map("a", json!({"x": "1"}))];
    case.install(&objects).await;
    let target = case.config_map_target("a");
    // It stays, terminating, for as long as the finalizer is there.
    let first = case.edit("user", &target, json!({"metadata": {"finalizers": ["engine.test/hold"]}})).await;
    let old = case.uid().await;
    case.delete(&case.target()).await;
    case.until_gone(&case.target()).await;
    case.create(&objects).await;
    assert_ne!(case.uid().await, old);
    let in_the_way = Expected::is_false("Installed", "InstallFailed").saying("waiting until it is gone");
    until(&case.client, &case.name, in_the_way).await;
    // From here on it is the end of the old object that must wake it.
    let tired = tire(&case.client, &case.name, in_the_way).await;
    assert_eq!(case.get(&target).await.unwrap().metadata.uid, first.metadata.uid);
    case.edit("user", &target, json!({"metadata": {"finalizers": null}})).await;
    case.installed().await;
    tired.was_woken();
    let anew = case.until_owned(&target).await;
    assert_ne!(anew.metadata.uid, first.metadata.uid);
}

#[tokio::test]
async fn a_namespace_that_exists_is_used_and_not_owned() {
    let case = Case::new("used").await;
    let target = Target::cluster("v1", "Namespace", &case.namespace);
    let mine =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.namespace, "labels": {"a": "b"}}});
    let before = case.get(&target).await.unwrap();
    case.install(&[mine.clone(), case.config_map("a", json!({}))]).await;
    let uid = case.uid().await;
    let after = case.get(&target).await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
    assert!(!is_owned(&after, &case.name, &uid));
    case.pivot("v2", &[case.config_map("b", json!({}))]).await;
    case.until_gone(&case.config_map_target("a")).await;
    case.pivot("v3", &[mine, case.config_map("b", json!({}))]).await;
    case.delete(&case.target()).await;
    case.until_gone(&case.config_map_target("b")).await;
    let survivor = case.get(&target).await.unwrap();
    assert_eq!(survivor.metadata.resource_version, before.metadata.resource_version);
}

#[tokio::test]
async fn a_deployment_that_lost_a_race_at_drift_reports_it() {
    let case = Case::new("squat").await;
    case.install(&[case.config_map("a", json!({"x": "ours"}))]).await;
    let target = case.config_map_target("a");
    let api = target.api(&case.client).await.unwrap();
    // Replaced by a foreign one in the blink of an eye: repeated until the squatter is there first.
    let mut foreign: DynamicObject = serde_json::from_value(case.config_map("a", json!({"x": "foreign"}))).unwrap();
    foreign.types = None;
    let end = tokio::time::Instant::now() + SOON;
    loop {
        verbs::delete(&case.client, &target).await.unwrap();
        if api.create(&PostParams::default(), &foreign).await.is_ok() {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "the squatter never was first");
    }
    let expected =
        Expected::is_false("Installed", "ReconcileFailed").saying("it was not created by this BundleDeployment");
    until(&case.client, &case.name, expected).await;
    assert_eq!(case.get(&target).await.unwrap().data["data"]["x"], "foreign");
    case.delete(&target).await;
    case.installed().await;
    case.until_owned(&target).await;
}

#[tokio::test]
async fn a_namespace_of_two_deployments_stays_until_both_are_gone() {
    let (one, two) = (Case::new("shared").await, Case::new("shared").await);
    let name = verbs::unique_name("shared-namespace");
    let namespace =
        |of: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"of": of}}});
    let mut object = two.config_map("of-two", json!({"x": "1"}));
    object["metadata"]["namespace"] = json!(name);
    one.install(&[namespace("one")]).await;
    let used = two.install(&[namespace("two"), object]).await.data["status"].to_string();
    assert!(used.contains("used as they are"), "{used}");
    let target = Target::cluster("v1", "Namespace", &name);
    let owners = one.get(&target).await.unwrap().metadata.owner_references.unwrap();
    let controllers = owners.iter().filter(|owner| owner.controller == Some(true)).count();
    assert_eq!((owners.len(), controllers), (2, 1), "{owners:?}");

    one.delete(&one.target()).await;
    let uid = two.uid().await;
    let only_two = |found: Option<&DynamicObject>| {
        let owners = found.and_then(|found| found.metadata.owner_references.as_ref());
        owners.is_some_and(|owners| owners.len() == 1 && owners[0].uid == uid)
    };
    two.until(&target, "the first deployment's mark gone", only_two).await;
    // The second inherits it, as its manifest says.
    let inherited = two.until_owned(&target).await;
    assert_eq!(inherited.metadata.labels.expect("it has")["of"], "two");
    let is_own = |found: Option<&DynamicObject>| {
        found.is_some_and(|found| !found.data["status"].to_string().contains("used as they are"))
    };
    two.until(&two.target(), "no Namespace of somebody else", is_own).await;
    assert!(two.get(&target).await.unwrap().metadata.deletion_timestamp.is_none());
    assert!(two.get(&Target::namespaced("v1", "ConfigMap", &name, "of-two")).await.is_some());
    two.delete(&two.target()).await;
    two.until_gone(&target).await;
}

#[tokio::test]
async fn a_namespace_is_inherited_although_its_first_deployment_went_while_nobody_looked() {
    let alone = worlds::alone().await;
    let (one, two) = (alone.case("shared").await, alone.case("shared").await);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": unique_name("inherited")}});
    let target = Target::of(&namespace).unwrap();
    one.install(std::slice::from_ref(&namespace)).await;
    two.install(&[namespace, two.config_map("a", json!({"x": "1"}))]).await;
    alone.stop().await;
    one.delete(&one.target()).await;
    let is_alone = |found: Option<&DynamicObject>| {
        found.is_some_and(|found| found.metadata.owner_references.iter().flatten().count() == 1)
    };
    two.until(&target, "the first deployment's reference gone", is_alone).await;
    alone.start().await;
    two.until_owned(&target).await;
}
