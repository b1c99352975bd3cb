//! One package has one PlatformOperator, and a BundleDeployment that is not ours is left alone.

use futures::future::Either;
use kube::api::{DeleteParams, DynamicObject};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{deployment, image};
use serde_json::{Value, json};

use super::case::{CONSISTENTLY, Case, installed, operator, platform_operator, source_failed};
use super::world::Platform;

#[tokio::test]
async fn a_second_platform_operator_for_a_package_is_refused_with_both_names() {
    let case = Case::new("first").await;
    case.install(&["1.0.0"], None).await;
    let second = format!("a-{}", case.name);
    case.make(&operator(&second, json!({"package": {"name": case.name}}))).await;
    let refused = Expected::is_false("Installed", "PackageNotUnique");
    let found = case.until_at(&platform_operator(&second), refused.saying(&second)).await;
    let text = format!("spec.package.name is not unique, conflicts with PlatformOperator {}", case.name);
    assert!(refused.saying(&text).met_by(&found), "{:#}", found.data);
    assert!(case.find(&verbs::Target::bundle_deployment(&second)).await.is_none());
    assert!(installed().met_by(&case.get(&case.target()).await));
    case.remove().await;
    case.until_at(&platform_operator(&second), installed()).await;
}

/// Of two that are not installed yet the older one has the package; once it asks for another, the second one goes on.
#[tokio::test]
async fn a_package_that_its_first_platform_operator_gives_up_is_installed_by_the_second() {
    let case = Case::new("gives-up").await;
    case.create(&json!({"catalog": "nobody"}), None).await;
    case.until(Expected::is_false("Installed", "SourceFailed")).await;
    case.publish(case.chain(&["1.0.0"]).await.0).await;
    let second = format!("{}-b", case.name);
    case.make(&operator(&second, json!({"package": {"name": case.name}}))).await;
    case.until_at(&platform_operator(&second), Expected::is_false("Installed", "PackageNotUnique")).await;
    case.merge(&case.target(), &json!({"spec": {"package": {"name": format!("{}-other", case.name)}}})).await;
    case.until_at(&platform_operator(&second), installed()).await;
}

/// Neither of them knows of the other at first, whatever their names say.
#[tokio::test]
async fn of_two_at_the_same_moment_one_installs_and_the_other_does_once_it_is_gone() {
    let pairs = (0..10).map(|_| Case::new("pair"));
    let cases = futures::future::join_all(pairs).await;
    futures::future::join_all(cases.iter().map(pair)).await;
}

async fn pair(case: &Case<'_>) {
    case.publish(case.chain(&["1.0.0"]).await.0).await;
    let names = ["z", "a"].map(|prefix| format!("{prefix}-{}", case.name));
    let recordings = names.each_ref().map(|name| Target::bundle_deployment(name));
    let recordings = [case.record(&recordings[0]).await, case.record(&recordings[1]).await];
    let package = json!({"package": {"name": case.name, "catalog": "redhat-operators"}});
    futures::future::join_all(names.iter().map(|name| async {
        case.make(&operator(name, package.clone())).await;
    }))
    .await;
    // One of them is installed in the end, the other one is told so.
    let [first, second] =
        names.each_ref().map(|name| Box::pin(async { case.until_at(&platform_operator(name), installed()).await }));
    let (winner, other) = match futures::future::select(first, second).await {
        Either::Left(_) => (&names[0], &names[1]),
        Either::Right(_) => (&names[1], &names[0]),
    };
    case.until_at(&platform_operator(other), Expected::is_false("Installed", "PackageNotUnique").saying(winner)).await;
    let added = recordings.iter().map(|recording| recording.so_far().iter().filter(|seen| seen.added).count());
    assert_eq!(added.sum::<usize>(), 1, "one BundleDeployment of {names:?}");
    case.delete_as(&platform_operator(winner), &DeleteParams::foreground()).await;
    case.until_at(&platform_operator(other), installed()).await;
}

/// Who has made a BundleDeployment has the package, also while the watch has not shown it yet.
#[tokio::test]
async fn a_package_stays_with_the_one_that_made_a_bundle_deployment_however_late_the_watch() {
    let world = Platform::alone().await;
    world.open().await;
    let case = Case::within(&world, "late").await;
    case.publish(case.chain(&["1.0.0"]).await.0).await;
    // The older one comes before the other where neither is installed, and does by its name if they are of the same second.
    let [older, maker] = ["a", "z"].map(|prefix| format!("{prefix}-{}", case.name));
    let other_package = json!({"package": {"name": format!("{}-other", case.name)}});
    case.make(&operator(&older, other_package)).await;
    case.until_at(&platform_operator(&older), source_failed("")).await;
    let told = case.record(&platform_operator(&maker)).await;
    world.gate.hold_watches(Some("/bundledeployments?"));
    case.make(&operator(&maker, json!({"package": {"name": case.name}}))).await;
    case.until_object(&Target::bundle_deployment(&maker), "made", |_| true).await;
    case.merge(&platform_operator(&older), &json!({"spec": {"package": {"name": case.name}}})).await;
    let refused = Expected::is_false("Installed", "PackageNotUnique");
    case.until_at(&platform_operator(&older), refused.saying(&maker)).await;
    let is_absent = |found: Option<&DynamicObject>| found.is_none();
    case.holds_for(&Target::bundle_deployment(&older), "absent", CONSISTENTLY, is_absent).await;
    world.gate.hold_watches(None);
    case.until_at(&platform_operator(&maker), installed()).await;
    case.until_at(&platform_operator(&older), refused.saying(&maker)).await;
    assert!(!told.so_far().iter().any(|seen| refused.met_by(&seen.object)), "the maker was refused for a while");
    for name in [older, maker] {
        case.delete_as(&platform_operator(&name), &DeleteParams::foreground()).await;
        case.until_gone(&platform_operator(&name)).await;
    }
}

/// A BundleDeployment as others make it: with another owner, or with none.
async fn foreign(prefix: &str, owner: Option<Value>, says: &str) {
    let case = Case::new(prefix).await;
    let (documents, images) = case.chain(&["1.0.0"]).await;
    case.publish(documents).await;
    // Nobody reconciles this class, so that nothing but the manager could change it.
    let mut object = deployment(&case.name, image(&images[0]));
    object["spec"]["provisionerClassName"] = json!("example-rukpak-io-nobody");
    if let Some(owner) = owner {
        object["metadata"]["ownerReferences"] = json!([owner]);
    }
    let before = case.make(&object).await;
    case.create(&json!({}), None).await;
    case.until(Expected::is_false("Installed", "InstallFailed").saying(says)).await;
    case.merge(&case.target(), &json!({"metadata": {"annotations": {"a": "b"}}})).await;
    case.publish(case.chain(&["1.0.0", "1.1.0"]).await.0).await;
    let operator = case.until(Expected::is_true("Stalled", "InstallFailed")).await;
    assert!(operator.data["status"]["activeBundleDeployment"].is_null());
    assert_eq!(case.get(&case.deployment()).await, before, "untouched");
    case.delete_as(&case.deployment(), &DeleteParams::background()).await;
    case.until_version("1.1.0").await;
}

#[tokio::test]
async fn a_bundle_deployment_without_an_owner_is_reported_and_not_touched() {
    foreign("ownerless", None, "was not made for this PlatformOperator; it is left alone").await;
}

#[tokio::test]
async fn a_bundle_deployment_with_a_foreign_owner_is_reported_and_not_touched() {
    // The owner must exist, else garbage collection takes its dependents.
    let case = Case::new("owner").await;
    let map = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.name}});
    let owner = case.make(&map).await;
    let owner = json!({"apiVersion": "v1", "kind": "Namespace", "name": case.name,
                       "uid": super::case::uid(&owner), "controller": true});
    let says = format!("belongs to Namespace {}; it is left alone", case.name);
    foreign("foreign", Some(owner), &says).await;
}
