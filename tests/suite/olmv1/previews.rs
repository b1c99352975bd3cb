//! `rukpakctl plan FILE`: what installing something would do, told before anything is created, and true afterwards.

use rukpak_tests::verbs::unique_name;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::case::Case;
use super::commands::{Did, rukpakctl};
use super::dependencies::{Offer, deployment, documents, extension, files, of_image};
use crate::platform::packages;

/// The answer of `rukpakctl plan` about these objects.
async fn planned(case: &Case<'_>, objects: &[&Value]) -> (Did, Value) {
    let file = written(&objects.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n---\n"));
    let did = plan(case, file.path().to_str().expect("it is UTF-8")).await;
    let answer = serde_json::from_str(&did.out).unwrap_or_else(|error| panic!("{error}: {did:?}"));
    (did, answer)
}

async fn plan(case: &Case<'_>, what: &str) -> Did {
    let authority = written(&case.world.registry.ca_pem());
    let authority = authority.path().to_str().expect("it is UTF-8").to_owned();
    rukpakctl(case.world, &["plan", what, "-ojson", "--ca-file", &authority]).await
}

fn written(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("there is room");
    std::fs::write(file.path(), text).expect("it can be written");
    file
}

/// The names of what a list of the answer has.
fn names<'a>(answer: &'a Value, list: &str) -> Vec<&'a str> {
    let items = answer[list]["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["name"].as_str()).collect()
}

#[tokio::test]
async fn a_set_is_shown_with_its_objects_and_rights_before_anything_is_created() {
    let case = Case::new("looked").await;
    let wells = unique_name("wells");
    let offers = |version: &'static [&'static str]| {
        [Offer::new(&case.name, version, &[(&wells, ">=1.0.0")]), Offer::new(&wells, &["1.2.0"], &[])]
    };
    case.serve(documents(&case, &offers(&["1.0.0"])).await).await;
    case.make_space().await;
    let mut object = case.object(&json!({"version": "1.0.0"}), &json!({}));

    // Refused, and what would help.
    let (did, answer) = planned(&case, &[&object]).await;
    assert_eq!(did.code, Some(1), "{did:?}");
    let told = answer["plans"][0]["obstacles"][0].as_str().unwrap_or_default();
    assert!(told.contains(&format!("what helps is to install {wells} 1.2.0")), "{told}");

    // Asked for: two answers, and a yes is needed.
    object["metadata"]["annotations"] = json!({"core.rukpak.io/dependencies": "Propose"});
    let (did, answer) = planned(&case, &[&object]).await;
    assert_eq!(did.code, Some(2), "{did:?}");
    let [member, own] = answer["plans"].as_array().map(Vec::as_slice).unwrap_or_default() else { panic!("{answer:#}") };
    assert_eq!(member["name"], json!(format!("clusterextension/{wells}")));
    assert!(names(member, "created").contains(&format!("{wells}-settings").as_str()), "{member:#}");
    assert_eq!((&own["dependencies"][0]["package"], &own["asks"]), (&json!(wells), &json!(true)));
    let granted = own["rights"]["items"][0]["holder"].as_str().unwrap_or_default();
    assert!(granted.contains(&format!("{}-manager", case.name)), "{own:#}");
    for name in [&case.name, &wells] {
        assert!(case.find(&extension(name)).await.is_none(), "{name} was created");
        assert!(case.find(&deployment(name)).await.is_none(), "{name} was created");
    }

    // What it told is what is installed; afterwards nothing is left to be done.
    object["metadata"]["annotations"] = json!({"core.rukpak.io/dependencies": "Install"});
    let (did, answer) = planned(&case, &[&object]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    let told = names(&answer["plans"][1], "created").len();
    case.create(&object).await;
    case.until_version("1.0.0").await;
    let installed = case.find(&deployment(&case.name)).await.expect("it is there");
    assert_eq!(installed.data["status"]["inventory"]["objects"], json!(told));

    // An upgrade changes what is there, and asks if the object says so.
    case.renew("v2", documents(&case, &offers(&["1.0.0", "1.1.0"])).await).await;
    object["spec"]["source"]["catalog"]["version"] = json!("1.1.0");
    object["metadata"]["annotations"] = json!({"core.rukpak.io/approval": "Upgrades"});
    let (_, answer) = planned(&case, &[&object]).await;
    let plan = &answer["plans"][0];
    assert!(names(plan, "changed").contains(&format!("{}-settings", case.name).as_str()), "{answer:#}");
    // The names of generated roles have the version.
    assert_eq!((&plan["asks"], &plan["created"]["count"]), (&json!(true), &plan["deleted"]["count"]), "{plan:#}");
}

#[tokio::test]
async fn kinds_that_the_same_file_brings_are_not_missing() {
    let case = Case::new("coming").await;
    let wells = unique_name("wells");
    let gvk = json!({"group": packages::group(&wells), "version": "v1", "kind": "Pump"});
    let needs = json!({"dependencies": [{"type": "olm.gvk", "value": gvk}]});
    let mut dependent = files(&case.name, "1.0.0");
    dependent.push(("metadata/dependencies.yaml".to_owned(), needs.to_string()));
    let dependent = packages::push(&case.world.registry, &case.name, "1.0.0", dependent).await;
    let provider = packages::push(&case.world.registry, &wells, "1.0.0", files(&wells, "1.0.0")).await;
    let (dependent, provider) = (of_image(&case.name, &dependent), of_image(&wells, &provider));

    let (did, answer) = planned(&case, &[&dependent]).await;
    let told = answer["plans"][0]["obstacles"][0].as_str().unwrap_or_default();
    let missing = format!("depends on an API that the cluster does not serve: Pump of {}/v1", packages::group(&wells));
    assert!(did.code == Some(1) && told.contains(&missing), "{did:?}");
    let (did, _) = planned(&case, &[&provider, &dependent]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    let mut suspended = provider.clone();
    suspended["spec"]["suspend"] = json!(true);
    let (did, answer) = planned(&case, &[&suspended]).await;
    let told = answer["plans"][0]["obstacles"][0].as_str().unwrap_or_default();
    assert!(did.code == Some(1) && told.contains("spec.suspend is true"), "{did:?}");
}

#[tokio::test]
async fn a_bundle_deployment_of_somebody_else_is_left_alone() {
    let case = Case::new("theirs").await;
    case.serve(documents(&case, &[Offer::new(&case.name, &["1.0.0"], &[])]).await).await;
    case.make_space().await;
    let image = packages::push(&case.world.registry, &unique_name("other"), "1.0.0", files("other", "1.0.0")).await;
    let mut theirs = of_image(&case.name, &image);
    theirs["spec"]["suspend"] = json!(true);
    case.create(&theirs).await;
    let (did, answer) = planned(&case, &[&case.object(&json!({}), &json!({}))]).await;
    let told = answer["plans"][0]["obstacles"][0].as_str().unwrap_or_default();
    assert!(did.code == Some(1) && told.contains("exists and was not made for ClusterExtension"), "{did:?}");
    case.delete(&deployment(&case.name)).await;
}

#[tokio::test]
async fn what_is_no_manifest_and_no_object_is_refused_with_the_way_out() {
    let case = Case::new("none").await;
    for (what, told) in [
        ("pump", "pump: no such file, and not KIND/NAME of an object in the cluster"),
        ("secret/pump", "\"secret\" is none of bundledeployment, platformoperator and clusterextension"),
        ("clusterextension/none", "not found"),
    ] {
        let did = plan(&case, what).await;
        assert_eq!(did.code, Some(1), "{did:?}");
        assert!(did.err.contains(told), "{did:?}");
    }
}
