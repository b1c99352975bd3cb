//! What RukPak v0.16 left besides objects: the releases of its Helm client.

use kube::ResourceExt;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::{deployment, image};
use serde_json::{Value, json};

use crate::engine::adoption::helm_installed;
use crate::engine::case::Case;

/// The Secret in which Helm keeps a release of RukPak v0.16.
fn release_secret(case: &Case<'_>, objects: &[Value]) -> Value {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use std::io::Write as _;
    let manifest = objects.iter().map(|object| format!("---\n{object}\n")).collect::<Vec<_>>().concat();
    let release = json!({"name": case.name, "version": 1, "namespace": "rukpak-system", "manifest": manifest,
        "info": {"status": "deployed"}, "chart": {"metadata": {"name": case.name, "version": "0.0.0"}}});
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    zipped.write_all(release.to_string().as_bytes()).expect("memory is enough");
    let encoded = BASE64_STANDARD.encode(zipped.finish().expect("memory is enough"));
    json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": format!("sh.helm.release.v1.{}.v1", case.name), "namespace": "rukpak-system",
            "labels": {"owner": "helm", "name": case.name, "status": "deployed", "version": "1"}},
        "stringData": {"release": encoded}})
}

/// RukPak v0.16 was replaced by us, and the template changed at the same time.
#[tokio::test]
async fn what_only_the_release_of_upstream_had_is_pruned_at_the_first_installation() {
    let case = Case::new("helm-prune").await;
    let of_both = case.config_map("both", json!({"x": "1"}));
    let of_a_kind_of_both = case.config_map("old", json!({"x": "1"}));
    let of_a_kind_of_its_own =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "old", "namespace": case.namespace}});
    let old = [of_both.clone(), of_a_kind_of_both.clone(), of_a_kind_of_its_own.clone()];
    // The bundle is not pushed yet, so that nothing is installed before the objects of the release are there.
    let reference = format!("{}/bundles/{}:v1", case.world.registry.host(), case.name);
    verbs::create(&case.client, &deployment(&case.name, image(&reference))).await.unwrap();
    let uid = case.uid().await;
    // What RukPak has installed has a status.
    case.until(&case.target(), "a status", |object| object.is_some_and(|object| object.data["status"].is_object()))
        .await;
    for object in &old {
        helm_installed(&case, "core", object, &case.name, Some(&uid)).await;
    }
    let secret = release_secret(&case, &old);
    case.foreign(&secret).await;
    assert_eq!(case.push("v1", &[of_both]).await, reference);
    // Wakes it: a missing image is looked for again after a while only.
    case.edit("user", &case.target(), json!({"spec": {"template": {"metadata": {"labels": {"pushed": "yes"}}}}})).await;
    case.ready().await;
    for object in [of_a_kind_of_both, of_a_kind_of_its_own] {
        case.until_gone(&Target::of(&object).unwrap()).await;
    }
    case.until_owned(&case.config_map_target("both")).await;
    // Nobody asked for it.
    assert!(case.get(&Target::of(&secret).unwrap()).await.is_some());
    case.delete(&Target::of(&secret).unwrap()).await;
}

#[tokio::test]
async fn releases_of_upstream_are_deleted_on_request_once_everything_is_taken_over() {
    let case = Case::new("helm-delete").await;
    let foreign = case.config_map("foreign", json!({"x": "1"}));
    let (helms, target) = (case.config_map("a", json!({"x": "1"})), Target::of(&foreign).unwrap());
    helm_installed(&case, "core", &helms, &case.name, None).await;
    case.foreign(&foreign).await;
    let [first, second, copy] = [".v1", ".v12", "-copy"].map(|end| {
        let mut secret = release_secret(&case, std::slice::from_ref(&helms));
        secret["metadata"]["name"] = json!(match end {
            "-copy" => format!("{}-copy", case.name),
            version => format!("sh.helm.release.v1.{}{version}", case.name),
        });
        secret
    });
    for secret in [&first, &second, &copy] {
        case.foreign(secret).await;
    }
    case.create(&[helms, foreign]).await;
    let request = json!({"metadata": {"annotations": {"core.rukpak.io/delete-helm-releases": "true"}}});
    case.edit("user", &case.target(), request).await;
    case.refused("InstallFailed", "already exists").await;
    for secret in [&first, &second] {
        let found = case.get(&Target::of(secret).unwrap()).await;
        assert!(found.is_some_and(|found| found.metadata.deletion_timestamp.is_none()), "not everything is taken over");
    }

    case.edit("user", &target, json!({"metadata": {"annotations": {"core.rukpak.io/adopt-by": case.name}}})).await;
    case.ready().await;
    for secret in [&first, &second] {
        case.until_gone(&Target::of(secret).unwrap()).await;
    }
    let told = case.told("HelmReleasesDeleted").await;
    let name = &case.name;
    let names = format!("Helm's releases sh.helm.release.v1.{name}.v1, sh.helm.release.v1.{name}.v12");
    assert!(told.tone == "Normal" && told.count == 1 && told.message.ends_with(&names), "{told:?}");
    let copy = Target::of(&copy).unwrap();
    assert_eq!(case.get(&copy).await.expect("it has another name").labels()["owner"], "helm");
    case.delete(&copy).await;
}
