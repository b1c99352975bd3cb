//! What holds for every bundle holds for charts: signatures, export to another registry, accounts, and migrations of stored objects.

use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::registry::Cosign;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, World, until};
use rukpak_tests::{ImageBuilder, tools};
use serde_json::{Value, json};

use super::case::{Chart, Charts as _, of_image, world};
use crate::cli::hands::{Did, Hands, text};
use crate::engine::case::{Case, definition, definition_target, gadget};
use crate::engine::served_versions::with_versions;

/// A Pod that runs an image of the values.
const POD: &str = r"
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-app
spec:
  containers: [{name: main, image: {{ .Values.image | quote }}}]
";

/// Helm, as a flag.
fn helm() -> String {
    format!("--helm={}", tools::helm().expect("Helm is built").display())
}

/// What the program printed as JSON, which must have succeeded.
fn json_of(did: &Did) -> Value {
    assert_eq!(did.code, Some(0), "{did:?}");
    serde_json::from_str(&did.out).expect("JSON")
}

/// In a world that asks for a policy: nothing is let in before the policy is known.
#[tokio::test]
async fn unpacks_chart_when_it_is_signed() {
    let world = World::start(vec![helm(), "--require=content-policy".to_owned()]).await.unwrap();
    let case = Case::in_world(&world, "chart-signed").await;
    let image = ImageBuilder::of_files(Chart::new().files(""));
    let pushed = world.registry.push(&format!("bundles/{}", case.name), "v1", &image).await.unwrap();
    let key = Cosign::new().unwrap();
    let signers = json!([{"name": "release", "publicKey": {"data": key.public_key()}}]);
    let rule = json!({"name": "ours", "scopes": [pushed.repository()], "action": "Require", "signers": signers});
    let policy = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "ContentPolicy",
        "metadata": {"name": case.name}, "spec": {"rules": [rule]}});
    case.foreign(&policy).await;
    case.foreign(&of_image(&case.name, &pushed.reference, &json!({}))).await;
    case.invalid("UnpackFailed", "and it is not signed").await;

    world.registry.sign(&pushed, &key).await.unwrap();
    case.until_size("1").await;
}

#[tokio::test]
async fn installs_chart_with_its_image_from_where_they_were_imported_to() {
    let case = Case::in_world(world().await, "chart-export").await;
    let registry = &case.world.registry;
    let app = ImageBuilder::of_files([("app", "pump")]);
    let app = registry.push(&format!("apps/{}", case.name), "v1", &app).await.unwrap().reference;
    let chart = Chart::new().with("values.yaml", &format!("size: 1\nimage: {app}")).with("templates/pod.yaml", POD);
    let reference = case.push_chart("v1", &chart, "").await;

    let here = tools::temp_folder("export").unwrap();
    let (ca, layout) = (here.path().join("ca.pem"), here.path().join("layout"));
    std::fs::write(&ca, registry.ca_pem()).unwrap();
    let (hands, ca) = (Hands::admin_of(case.world).await, format!("--ca-file={}", ca.display()));
    let exported = hands.run_alone(&["export", &reference, text(&layout), "-ojson", &ca, &helm()]).await;
    assert_eq!(json_of(&exported)["images"].as_array().map(Vec::len), Some(2), "{exported:?}");
    let mirror = format!("{}/mirror", registry.host());
    let imported = json_of(&hands.run_alone(&["import", text(&layout), &mirror, "-ojson", &ca]).await);
    let moved = |source: &str| {
        let mut images = imported["images"].as_array().into_iter().flatten();
        let image = images.find(|image| image["source"] == source).unwrap_or_else(|| panic!("{source}: {imported:#}"));
        image["target"].as_str().expect("it says where").to_owned()
    };

    let config = json!({"values": {"image": moved(&app)}});
    case.foreign(&of_image(&case.name, &moved(&reference), &config)).await;
    case.until_size("1").await;
    let pod = case.get(&case.system("Pod", "app")).await.expect("it is installed");
    assert_eq!(pod.data["spec"]["containers"][0]["image"], moved(&app));
}

#[tokio::test]
async fn names_rights_that_account_lacks_for_chart_and_installs_with_the_roles_that_are_printed() {
    let case = Case::in_world(world().await, "chart-account").await;
    let account = json!({"name": "installer", "namespace": case.namespace});
    case.foreign(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})).await;
    let reference = case.push_chart("v1", &Chart::new(), "").await;
    let mut deployment = of_image(&case.name, &reference, &json!({"values": {"size": 4}}));
    deployment["spec"]["serviceAccount"] = account;
    case.foreign(&deployment).await;
    let settings = case.system("ConfigMap", "settings");
    let lacks = format!("create, delete, patch configmaps {:?} in namespace {SYSTEM_NAMESPACE:?}", settings.name);
    until(&case.client, &case.name, Expected::is_false("Ready", "MissingRights").saying(&lacks)).await;
    assert!(case.get(&settings).await.is_none(), "nothing is written");

    let hands = Hands::admin_of(case.world).await;
    let deployment = format!("bundledeployment/{}", case.name);
    let printed = json_of(&hands.run(&["rights", &deployment, "-ojson", &helm()]).await);
    for object in printed.as_array().expect("a list") {
        verbs::apply(&case.client, object).await.unwrap();
    }
    case.until_size("4").await;
}

#[tokio::test]
async fn migrates_objects_stored_in_version_that_next_chart_drops() {
    let case = Case::in_world(world().await, "chart-migration").await;
    let (one, group) = definition("chart-stored");
    let old = with_versions(&one, &[("v1", true, true), ("v2", true, false)]);
    let new = with_versions(&one, &[("v2", true, true)]);
    let chart = |definition: &Value, values: &str| {
        Chart::new().with("values.yaml", values).with("crds/gadgets.yaml", &definition.to_string())
    };
    case.deploy_chart(&chart(&old, "size: 1"), json!({})).await;
    case.until_size("1").await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    case.foreign(&gadget(&group, &case.namespace, "kept", 3)).await;

    case.change_chart("v2", &chart(&new, "size: 2")).await;
    case.until_size("2").await;
    let live = case.get(&definition_target(&group)).await.expect("it is there");
    assert_eq!(live.data["status"]["storedVersions"], json!(["v2"]));
    let kept = Target::namespaced(&format!("{group}/v2"), "Gadget", &case.namespace, "kept");
    assert_eq!(case.get(&kept).await.expect("it is migrated").data["spec"]["size"], 3);
    case.delete(&case.target()).await;
}
