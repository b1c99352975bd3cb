//! The Bundle generated from the template: its name and marks, its replacement, and the limit on their number.

use std::time::Duration;

use rukpak_tests::plane::install::CONTROLLER_ACCOUNT;
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::{Value, json};

use super::case::{Case, active, broken_git, installed, is_controlled_by, label, name};

const HASH: &str = "core.rukpak.io/bundle-template-hash";

#[tokio::test]
async fn the_generated_bundle_carries_owner_reference_and_labels() {
    let case = Case::new("p23").await;
    let deployment = case.install(&[case.config_map("a")]).await;
    let bundle = case.only_bundle().await;
    assert!(is_controlled_by(&bundle, &deployment), "{:#?}", bundle.metadata);
    assert_eq!(bundle.metadata.owner_references.as_ref().map(Vec::len), Some(1));
    assert_eq!(label(&bundle, "core.rukpak.io/owner-kind"), Some("BundleDeployment"));
    assert_eq!(label(&bundle, "core.rukpak.io/owner-name"), Some(case.name.as_str()));
    assert_eq!(label(&bundle, "app"), Some(case.name.as_str()));
    assert_eq!(active(&deployment), Some(name(&bundle).as_str()));
}

#[tokio::test]
async fn a_broken_pivot_leaves_everything_as_it_was() {
    let case = Case::new("p25").await;
    let before = case.install(&[case.config_map("a")]).await;
    let old = case.only_bundle().await;
    let object = case.get(&case.config_map_target("a")).await;
    case.change_source(&broken_git(case.world, "nothing-here")).await;
    let failed = case.until(Expected::is_false("HasValidBundle", "UnpackFailed").saying("Failed to unpack")).await;

    let bundles = case.bundles().await;
    assert_eq!(bundles.len(), 2);
    let new = bundles.iter().find(|bundle| name(bundle) != name(&old)).expect("one is new");
    assert_ne!(label(new, HASH), label(&old, HASH));
    assert!(label(new, HASH).is_some_and(|hash| name(new) == cut(&format!("{}-{hash}", case.name))), "{new:#?}");
    let text = super::case::message(&failed, "HasValidBundle");
    let inner = super::case::message(new, "Unpacked");
    assert_eq!(text, format!("Failed to unpack the {} Bundle: {inner}", name(new)));
    assert!(inner.starts_with("source bundle content: "), "{inner}");

    // The figure of upstream's suite.
    let period = Duration::from_secs(15);
    let (old_target, config_map) = (Target::bundle(&name(&old)), case.config_map_target("a"));
    let deployment = case.target();
    tokio::join!(
        case.holds_for(&old_target, "the old Bundle is there", period, |bundle| {
            bundle.is_some_and(|bundle| bundle.metadata.uid == old.metadata.uid && !is_deleted(bundle))
        }),
        case.holds_for(&deployment, "the old version is installed", period, |now| {
            now.is_some_and(|now| {
                installed().met_by(now)
                    && Expected::is_true("Healthy", "Healthy").met_by(now)
                    && active(now) == active(&before)
            })
        }),
        case.holds_for(&config_map, "the object is untouched", period, |now| {
            now.is_some_and(|now| now.metadata.resource_version == object.metadata.resource_version)
        }),
    );
}

#[tokio::test]
async fn a_new_label_makes_a_new_bundle_and_the_old_one_goes() {
    let case = Case::new("p27").await;
    let before = case.install(&[case.config_map("a")]).await;
    let old = case.only_bundle().await;
    let object = case.get(&case.config_map_target("a")).await;
    case.merge(&json!({"spec": {"template": {"metadata": {"labels": {"added": "yes"}}}}})).await;
    let switched = case
        .until_object(&case.target(), "another active Bundle", |now| {
            active(now).is_some() && active(now) != active(&before)
        })
        .await;
    assert!(installed().met_by(&switched), "{:#}", switched.data);
    case.until_gone(&Target::bundle(&name(&old))).await;
    let new = case.only_bundle().await;
    assert_eq!(active(&switched), Some(name(&new).as_str()));
    assert_eq!(label(&new, "added"), Some("yes"));
    assert_ne!(label(&new, HASH), label(&old, HASH));
    // The content is the same: nothing was there to write.
    let now = case.get(&case.config_map_target("a")).await;
    assert_eq!(now.metadata.resource_version, object.metadata.resource_version);
}

#[tokio::test]
async fn a_deleted_active_bundle_comes_back() {
    let case = Case::new("p37").await;
    case.install(&[case.config_map("a")]).await;
    let old = case.only_bundle().await;
    let target = Target::bundle(&name(&old));
    case.delete(&target).await;
    let new = case
        .until_object(&target, "another UID", |bundle| {
            bundle.metadata.uid != old.metadata.uid && Expected::is_true("Unpacked", "UnpackSuccessful").met_by(bundle)
        })
        .await;
    let deployment = case
        .until_object(&case.target(), "a valid Bundle again", |now| {
            Expected::is_true("HasValidBundle", "UnpackSuccessful").met_by(now) && installed().met_by(now)
        })
        .await;
    assert!(is_controlled_by(&new, &deployment));
    assert_eq!(active(&deployment), Some(name(&new).as_str()));
}

/// A deployment with version 1 installed, and three later templates whose Bundles cannot be unpacked.
async fn with_three_failures(case: &Case) {
    case.install(&[case.config_map("a")]).await;
    for index in 0..3 {
        let repository = format!("nothing-{index}");
        case.change_source(&broken_git(case.world, &repository)).await;
        let generation = case.get(&case.target()).await.metadata.generation;
        case.until_object(&case.target(), "the failure of this generation", |now| {
            Expected::is_false("HasValidBundle", "UnpackFailed").met_by(now)
                && now.data["status"]["observedGeneration"] == json!(generation)
                && super::case::message(now, "HasValidBundle").contains(&repository)
        })
        .await;
    }
    assert_eq!(case.bundles().await.len(), 4);
}

/// Automatons write templates: three that fail do not keep the fourth from being installed.
#[tokio::test]
async fn a_good_template_after_three_that_failed_is_installed() {
    let case = Case::new("fourth").await;
    with_three_failures(&case).await;
    let mut good = case.push("v2", &[case.config_map("b")]).await;
    good["git"] = json!(null);
    case.change_source(&good).await;
    case.until_object(&case.config_map_target("b"), "the good version's object", |_| true).await;
    case.until(Expected::is_true("Ready", "Succeeded")).await;
}

/// Bundles that somebody's finalizer keeps stop the deployment, whatever its template says: upstream counts before it matches.
#[tokio::test]
async fn more_than_four_bundles_stop_a_deployment_until_some_are_gone() {
    let case = Case::new("limit").await;
    with_three_failures(&case).await;
    // Not by their phase: one that is tried again is not `Failing` meanwhile.
    let installed_now = case.get(&case.target()).await;
    let failing: Vec<_> = case
        .bundles()
        .await
        .into_iter()
        .filter(|bundle| active(&installed_now) != Some(name(bundle).as_str()))
        .collect();
    assert_eq!(failing.len(), 3);
    for bundle in &failing {
        hold(&case, bundle, json!(["example.com/hold"])).await;
    }
    let mut good = case.push("v2", &[case.config_map("b")]).await;
    good["git"] = json!(null);
    case.change_source(&good).await;
    let text = "reached the maximum generated Bundle limit";
    let limit = Expected { kind: "HasValidBundle", status: "Unknown", reason: Some("ReconcileFailed"), message: text };
    let stopped = case.until(limit).await;
    let message = super::case::message(&stopped, "HasValidBundle");
    assert!(failing.iter().all(|bundle| message.contains(&name(bundle))), "the way out is told: {message}");
    assert!(installed().met_by(&stopped), "{:#}", stopped.data);
    assert!(Expected::is_false("Ready", "ReconcileFailed").met_by(&stopped));
    // A sixth is not made.
    case.merge(&json!({"spec": {"template": {"metadata": {"labels": {"sixth": "no"}}}}})).await;
    case.holds_for(&case.target(), "nothing happens", Duration::from_secs(2), |now| {
        now.is_some_and(|now| limit.met_by(now))
    })
    .await;
    assert_eq!(case.bundles().await.len(), 5);

    for bundle in failing {
        hold(&case, &bundle, json!(null)).await;
    }
    case.until_object(&case.config_map_target("b"), "the good version's object", |_| true).await;
    case.until(Expected::is_true("Ready", "Succeeded")).await;
}

/// Puts finalizers on a Bundle, or takes them off.
async fn hold(case: &Case, bundle: &kube::api::DynamicObject, finalizers: Value) {
    let patch = json!({"metadata": {"finalizers": finalizers}});
    verbs::merge(&case.client, &Target::bundle(&name(bundle)), &patch)
        .await
        .unwrap_or_else(|error| panic!("{error:#}"));
}

#[tokio::test]
async fn foreign_bundles_with_copied_labels_are_neither_counted_nor_deleted() {
    let case = Case::new("copied").await;
    let source = case.push("v1", &[case.config_map("a")]).await;
    let controller = case.world.plane.as_account(CONTROLLER_ACCOUNT).await.expect("its kubeconfig is good");
    let mut copies = Vec::new();
    for index in 0..5 {
        let copy = json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": format!("{}-copy-{index}", case.name), "labels": {
                "core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": case.name,
                HASH: format!("{index}")}},
            "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": source},
        });
        // Nobody else may: they are older than the webhook, say.
        copies.push(verbs::create(&controller, &copy).await.unwrap_or_else(|error| panic!("{error:#}")));
    }
    case.deploy(source).await;
    case.until(installed()).await;
    // A pivot is when old Bundles are deleted.
    case.merge(&json!({"spec": {"template": {"metadata": {"labels": {"added": "yes"}}}}})).await;
    let pivoted = |bundle: &kube::api::DynamicObject| label(bundle, "added").is_some();
    let before: Vec<_> = case.bundles().await.iter().filter(|bundle| !pivoted(bundle)).map(name).collect();
    for generated in before.iter().filter(|name| !name.contains("-copy-")) {
        case.until_gone(&Target::bundle(generated)).await;
    }
    case.until(Expected::is_true("Ready", "Succeeded")).await;
    for copy in &copies {
        let now = case.get(&Target::bundle(&name(copy))).await;
        assert_eq!(now.metadata.uid, copy.metadata.uid);
        assert!(!is_deleted(&now));
        assert!(now.metadata.owner_references.is_none());
        case.delete(&Target::bundle(&name(copy))).await;
    }
}

#[tokio::test]
async fn a_foreign_bundle_of_the_generated_name_is_reported_and_left_alone() {
    let case = Case::new("taken").await;
    let source = case.push("v1", &[case.config_map("a")]).await;
    case.deploy(source.clone()).await;
    case.until(installed()).await;
    let taken = name(&case.only_bundle().await);
    case.delete(&case.target()).await;
    case.until_gone(&case.target()).await;
    // What garbage collection would do in its own time.
    for target in [Target::bundle(&taken), case.config_map_target("a")] {
        case.delete(&target).await;
        case.until_gone(&target).await;
    }

    let foreign = case.create(&rukpak_tests::world::bundle(&taken, source.clone())).await;
    case.deploy(source).await;
    let text = format!("bundles.core.rukpak.io \"{taken}\" already exists");
    let refused =
        Expected { kind: "HasValidBundle", status: "Unknown", reason: Some("ReconcileFailed"), message: &text };
    let deployment = case.until(refused).await;
    assert!(verbs::condition(&deployment, "Installed").is_none(), "{:#}", deployment.data);
    assert_eq!(active(&deployment), None);
    let now = case.get(&Target::bundle(&taken)).await;
    assert_eq!((&now.metadata.uid, &now.metadata.labels), (&foreign.metadata.uid, &None));
    assert!(now.metadata.owner_references.is_none());

    case.delete(&Target::bundle(&taken)).await;
    case.until(installed()).await;
}

fn is_deleted(object: &kube::api::DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// Names of Bundles have at most 52 characters.
fn cut(name: &str) -> String {
    name.chars().take(52).collect()
}
