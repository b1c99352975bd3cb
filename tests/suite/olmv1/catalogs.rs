//! ClusterCatalogs: unpacked by digest, reported in catalogd's words, polled, switched off, removed.

use std::time::Duration;

use rukpak_tests::catalog::nothing;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::registry::Cosign;
use rukpak_tests::verbs::{self, Expected};
use rukpak_tests::{CatalogImage, Documents, ImageBuilder, Registry, RegistryOptions};
use serde_json::json;

use super::case::{Case, catalog, retrying, serving, text};
use super::world::{World, ca_file};

/// A poll comes after a minute at the earliest.
const POLLED: Duration = Duration::from_mins(2);

fn documents(package: &str) -> Documents {
    Documents::package(package, &[("1.0.0", "registry.example/none:v1")])
}

#[tokio::test]
async fn a_catalog_is_unpacked_labelled_and_reported() {
    let case = Case::new("unpacked").await;
    let (reference, digest) = case.push_catalog("v1", documents(&case.name)).await;
    case.create_catalog(&case.name, &json!({"ref": reference}), &json!({})).await;
    let object = case.until_at(&catalog(&case.name), serving()).await;
    let succeeded = Expected::is_true("Progressing", "Succeeded")
        .saying("Successfully unpacked and stored content from resolved source");
    assert!(succeeded.met_by(&object), "{:#}", object.data);
    assert!(verbs::condition(&object, "Verified").is_none(), "no policy is for it: {:#}", object.data);
    let name = reference.rsplit_once(':').unwrap().0;
    assert_eq!(
        object.data["status"]["resolvedSource"],
        json!({"type": "Image", "image": {"ref": format!("{name}@{digest}")}})
    );
    let base = format!("https://{}/catalogs/{}", case.world.catalogs, case.name);
    assert_eq!(text(&object, "/status/urls/base"), base);
    assert!(!text(&object, "/status/lastUnpacked").is_empty());
    assert_eq!(object.data["spec"]["priority"], 0);
    assert_eq!(object.data["spec"]["availabilityMode"], "Available");
    let labelled = |object: &kube::api::DynamicObject| {
        let labels = object.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get("olm.operatorframework.io/metadata.name")) == Some(&case.name)
    };
    let object = case.until_object(&catalog(&case.name), "the label", labelled).await;
    assert!(object.metadata.finalizers.is_none(), "none of ours");
}

#[tokio::test]
async fn what_is_wrong_with_an_image_is_said_in_catalogds_words() {
    let case = Case::new("wrong").await;
    let (reference, _) = case.push_catalog("v1", documents(&case.name)).await;
    let name = |suffix: &str| format!("{}-{suffix}", case.name);
    let retrying = |message| Expected { message, ..Expected::is_true("Progressing", "Retrying") };

    let unknown = reference.replace(":v1", ":v9");
    case.create_catalog(&name("tag"), &json!({"ref": unknown}), &json!({})).await;
    let object =
        case.until_at(&catalog(&name("tag")), retrying("source catalog content: error creating image source: ")).await;
    assert!(text(&object, "/status/conditions/0/message").contains("manifest unknown"), "{:#}", object.data);
    assert!(verbs::condition(&object, "Serving").is_none(), "it was never unpacked");

    case.create_catalog(&name("host"), &json!({"ref": "localhost:1/a/b:v1"}), &json!({})).await;
    case.until_at(&catalog(&name("host")), retrying("error creating image source")).await;

    let bundle = ImageBuilder::of_files([("manifests/a.yaml".to_owned(), "a: b".to_owned())]);
    let bundle = case.world.registry.push(&case.name, "bundle", &bundle).await.unwrap();
    case.create_catalog(&name("bundle"), &json!({"ref": bundle.reference}), &json!({})).await;
    let label = "is missing the required label \"operators.operatorframework.io.index.configs.v1\"";
    case.until_at(&catalog(&name("bundle")), retrying(label)).await;
    // No other answer can come for a digest.
    let pinned = format!("{}@{}", bundle.reference.rsplit_once(':').unwrap().0, bundle.digest);
    case.create_catalog(&name("pinned"), &json!({"ref": pinned}), &json!({})).await;
    let blocked = Expected::is_false("Progressing", "Blocked").saying("source catalog content: terminal error: ");
    case.until_at(&catalog(&name("pinned")), blocked).await;
}

#[tokio::test]
async fn an_image_without_tag_and_digest_is_refused_in_catalogds_words() {
    let case = Case::new("rule").await;
    let catalog = json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": case.name},
        "spec": {"source": {"type": "Image", "image": {"ref": "localhost:5000/image"}}},
    });
    let denial = verbs::create_expecting_denial(&case.client, &catalog).await.unwrap();
    assert!(denial.message.contains("tag is invalid. valid tags must begin with"), "{denial:?}");
}

/// Mended without a change of the object: the tag comes to be.
#[tokio::test]
async fn a_failed_catalog_is_tried_again_by_itself() {
    let case = Case::new("mended").await;
    let (reference, _) = case.push_catalog("v1", documents(&case.name)).await;
    let later = reference.replace(":v1", ":v2");
    case.create_catalog(&case.name, &json!({"ref": later}), &json!({})).await;
    case.until_at(&catalog(&case.name), Expected::is_true("Progressing", "Retrying")).await;
    case.push_catalog("v2", documents(&case.name)).await;
    case.until_at(&catalog(&case.name), serving()).await;
}

#[tokio::test]
async fn a_moved_tag_is_followed_by_polling_and_an_unmoved_one_changes_nothing() {
    let case = Case::new("polled").await;
    let (reference, first) = case.push_catalog("v1", documents(&case.name)).await;
    let image = json!({"ref": reference, "pollIntervalMinutes": 1});
    case.create_catalog(&case.name, &image, &json!({})).await;
    let object = case.until_at(&catalog(&case.name), serving()).await;
    assert!(text(&object, "/status/resolvedSource/image/ref").ends_with(&first));
    let (_, second) = case.push_catalog("v1", documents("moved")).await;
    assert_ne!(first, second);
    // Another spec is looked at at once, and the content that it finds to be the same stays as it is.
    let polled =
        |object: &kube::api::DynamicObject| text(object, "/status/resolvedSource/image/ref").ends_with(&second);
    let target = catalog(&case.name);
    let found =
        verbs::await_object(&case.client, &target, "the new digest", POLLED, |object| object.is_some_and(polled));
    let object = found.await.unwrap().unwrap();
    let unpacked = text(&object, "/status/lastUnpacked").to_owned();
    case.merge_into(&catalog(&case.name), &json!({"spec": {"priority": -7}})).await;
    let observed = |object: &kube::api::DynamicObject| {
        let serving = verbs::condition(object, "Serving");
        serving.is_some_and(|condition| condition["observedGeneration"] == json!(object.metadata.generation))
    };
    let object = case.until_object(&catalog(&case.name), "the new spec", observed).await;
    assert_eq!(text(&object, "/status/lastUnpacked"), unpacked);
}

#[tokio::test]
async fn unavailable_removes_the_content_and_available_brings_it_back() {
    let case = Case::new("switched").await;
    case.serve(documents(&case.name)).await;
    let set =
        async |mode: &str| case.merge_into(&catalog(&case.name), &json!({"spec": {"availabilityMode": mode}})).await;
    set("Unavailable").await;
    let text = "Catalog availability mode is set to Unavailable";
    let off = Expected::is_false("Serving", "UserSpecifiedUnavailable").saying(text);
    let object = case.until_at(&catalog(&case.name), off).await;
    assert!(Expected::is_true("Progressing", "Succeeded").saying(text).met_by(&object));
    for field in ["resolvedSource", "urls", "lastUnpacked"] {
        assert!(object.data["status"].get(field).is_none(), "{:#}", object.data["status"]);
    }
    set("Available").await;
    case.until_at(&catalog(&case.name), serving()).await;
}

/// What catalogd left must not keep an object from going.
#[tokio::test]
async fn finalizers_of_catalogd_are_taken_away_and_others_are_not() {
    let case = Case::new("finalizers").await;
    case.serve(documents(&case.name)).await;
    let finalizers = json!(["olm.operatorframework.io/delete-server-cache", "example.com/other"]);
    case.merge_into(&catalog(&case.name), &json!({"metadata": {"finalizers": finalizers}})).await;
    case.delete(&catalog(&case.name)).await;
    let is_left = |object: &kube::api::DynamicObject| {
        object.metadata.finalizers.as_deref() == Some(&["example.com/other".to_owned()])
    };
    case.until_object(&catalog(&case.name), "only the other", is_left).await;
    case.merge_into(&catalog(&case.name), &json!({"metadata": {"finalizers": null}})).await;
    case.until_gone(&catalog(&case.name)).await;
}

#[tokio::test]
async fn a_broken_catalog_is_retried_and_what_was_served_is_served_on() {
    let case = Case::new("kept").await;
    let object = case.serve(documents(&case.name)).await;
    let resolved = object.data["status"]["resolvedSource"].clone();
    let image =
        CatalogImage::of(nothing()).unwrap().label("operators.operatorframework.io.index.configs.v1", "/absent");
    let pushed = image.push(&case.world.registry, &format!("catalogs/{}", case.name), "broken").await.unwrap();
    let patch = json!({"spec": {"source": {"image": {"ref": pushed.reference}}}});
    case.merge_into(&catalog(&case.name), &patch).await;
    let object = case.until_at(&catalog(&case.name), Expected::is_true("Progressing", "Retrying")).await;
    assert!(serving().met_by(&object), "{:#}", object.data);
    assert_eq!(object.data["status"]["resolvedSource"], resolved);
}

#[tokio::test]
async fn a_catalog_is_unpacked_once_it_is_signed_where_a_policy_requires_that() {
    let case = Case::new("signed").await;
    let (key, other) = (Cosign::new().unwrap(), Cosign::new().unwrap());
    let image = case.push_guarded(documents(&case.name), &key).await;
    case.world.registry.sign(&image, &other).await.unwrap();
    case.create_catalog(&case.name, &json!({"ref": image.reference}), &json!({})).await;
    let refused = retrying("source catalog content: rule \"ours\" of ContentPolicy");
    let object = case.until_at(&catalog(&case.name), refused).await;
    assert!(verbs::condition(&object, "Serving").is_none(), "it was never unpacked");
    let missing = Expected::is_false("Verified", "SignatureMissing").saying("it was made with another key");
    assert!(missing.met_by(&object), "{:#}", object.data);
    case.world.registry.sign(&image, &key).await.unwrap();
    let object = case.until_at(&catalog(&case.name), serving()).await;
    let words =
        format!("{} is signed by release, as rule \"ours\" of ContentPolicy {:?} requires", image.digest, case.name);
    assert!(Expected::is_true("Verified", "SignatureVerified").saying(&words).met_by(&object), "{:#}", object.data);
    let off = json!({"spec": {"availabilityMode": "Unavailable"}});
    case.merge_into(&catalog(&case.name), &off).await;
    let object = case.until_at(&catalog(&case.name), Expected::is_false("Serving", "UserSpecifiedUnavailable")).await;
    assert!(verbs::condition(&object, "Verified").is_none(), "nothing is there: {:#}", object.data);
}

/// The manager asks for a policy where it is told to, by a flag of its own, and needs nothing but the policy.
#[tokio::test]
async fn a_catalog_that_no_policy_covers_is_refused_where_one_is_asked_for_and_keys_are_not_read_from_secrets() {
    let world = World::with(&["--require=content-policy"]).await;
    let case = Case::within(&world, "closed").await;
    let (reference, _) = case.push_catalog("v1", documents(&case.name)).await;
    let repository = reference.rsplit_once(':').unwrap().0.to_owned();
    case.create_catalog(&case.name, &json!({"ref": reference}), &json!({})).await;
    let uncovered = format!("no rule of a ContentPolicy accepts {repository}");
    case.until_at(&catalog(&case.name), retrying(&uncovered)).await;

    let policy = |rule: serde_json::Value| {
        json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "ContentPolicy", "metadata": {"name": case.name},
               "spec": {"rules": [rule]}})
    };
    let key = json!({"secretRef": {"name": "keys", "key": "cosign.pub"}});
    let signer = json!({"name": "release", "publicKey": key});
    let rule = json!({"name": "ours", "scopes": [repository], "action": "Require", "signers": [signer]});
    verbs::apply(&case.client, &policy(rule)).await.unwrap();
    let unread = retrying("the key of release cannot be used: rukpak-platform reads no Secrets");
    case.until_at(&catalog(&case.name), unread).await;

    let accept = json!({"name": "open", "scopes": [repository], "action": "Accept"});
    verbs::apply(&case.client, &policy(accept)).await.unwrap();
    let object = case.until_at(&catalog(&case.name), serving()).await;
    let accepted = verbs::condition(&object, "Verified").unwrap();
    assert_eq!((&accepted["status"], &accepted["reason"]), (&json!("Unknown"), &json!("NotRequired")));
    assert!(accepted["message"].as_str().unwrap().starts_with("Rule \"open\" of ContentPolicy"), "{accepted}");
    let log = world.manager.log();
    let said = |text: &str| log.lines().filter(|line| line.contains(text) && line.contains(&repository)).count();
    assert_eq!(said("image of a catalog is let in"), 1, "{log}");
    // Once for each reason, however often it was tried.
    assert_eq!(said("image of a catalog is refused"), 2, "{log}");
}

#[tokio::test]
async fn a_catalog_is_pulled_with_the_login_that_its_annotation_names() {
    let world = World::new().await;
    let private = Registry::start(RegistryOptions::private("alice", "hush")).await.expect("the registry starts");
    let authorities = format!("{}{}", world.registry.ca_pem(), private.ca_pem());
    std::fs::write(ca_file(&world.plane), authorities).expect("the CA file");
    world.manager.restart().await.expect("it starts again");
    world.manager.wait_ready().await.expect("it is ready");

    let case = Case::within(&world, "login").await;
    let (documents, _) = case.chain(&["1.0.0"]).await;
    let image = CatalogImage::of(documents).expect("an image");
    let pushed = image.push(&private, &format!("catalogs/{}", case.name), "v1").await.expect("it takes it");
    case.create_catalog(&case.name, &json!({"ref": pushed.reference}), &json!({})).await;
    case.until_at(&catalog(&case.name), retrying("source catalog content: ")).await;

    let login = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": case.name, "namespace": SYSTEM_NAMESPACE},
        "stringData": {".dockerconfigjson": private.pull_secret_json("alice", "hush")}});
    case.create(&login).await;
    let named = |name: &str| json!({"metadata": {"annotations": {"core.rukpak.io/pull-secret": name}}});
    case.merge_into(&catalog(&case.name), &named("absent")).await;
    case.until_at(&catalog(&case.name), retrying("get secret rukpak-system/absent")).await;
    case.merge_into(&catalog(&case.name), &named(&case.name)).await;
    case.until_at(&catalog(&case.name), serving()).await;
}
