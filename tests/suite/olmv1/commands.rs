//! `rukpakctl` about ClusterExtensions and ClusterCatalogs: over the real API server and the real catalog server.

use rukpak_tests::{Documents, tools};
use serde_json::{Value, json};

use super::case::{Case, catalog, retrying, serving};
use super::world::World;

/// What the program did.
#[derive(Debug)]
pub struct Did {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs `rukpakctl` with the administrator's kubeconfig.
pub async fn rukpakctl(world: &World, arguments: &[&str]) -> Did {
    let program = tools::workspace_binary("rukpakctl").expect("it is built");
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).env("KUBECONFIG", world.plane.kubeconfig_path());
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE"] {
        command.env_remove(proxy);
    }
    let output = command.output().await.expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Did { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

fn json(did: &Did) -> Value {
    serde_json::from_str(&did.out).unwrap_or_else(|error| panic!("{error}: {did:?}"))
}

/// The line of a list that is about `name`.
fn line<'a>(list: &'a Value, name: &str) -> &'a Value {
    let lines = list.as_array().expect("a list");
    lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("{name} is not in {list:#}"))
}

#[tokio::test]
async fn why_follows_the_resolution_through_ties_priorities_and_what_is_installed() {
    let case = Case::new("why").await;
    let why = async |form: &str| rukpakctl(case.world, &["extension", "why", &case.name, "-o", form]).await;
    let (documents, images) = case.chain(&["1.0.0", "1.1.0"]).await;
    let (reference, _) = case.push_catalog("v1", documents).await;
    let [first, second] = ["a", "b"].map(|suffix| format!("{}-{suffix}", case.name));
    for name in [&first, &second] {
        case.create_catalog(name, &json!({"ref": reference}), &json!({})).await;
        case.until_at(&catalog(name), serving()).await;
    }
    case.extend(json!({"version": "1.0.0"}), json!({})).await;
    let tie = case.until_at(&case.extension(), retrying("found bundles for package")).await;
    let did = why("json").await;
    assert_eq!((did.code, did.err.as_str()), (Some(1), ""), "{did:?}");
    let answer = json(&did);
    let told = rukpak_tests::verbs::condition(&tie, "Progressing").expect("it is there");
    assert_eq!(answer["message"], told["message"], "the words of the condition");
    let reasons: Vec<&str> =
        answer["bundles"].as_array().expect("a list").iter().filter_map(|one| one["reason"].as_str()).collect();
    let same = format!(
        "catalogs {first} and {second} have the same priority: give one of them another, or choose by spec.source.catalog.selector"
    );
    let range = "its version is not in the range that is asked for";
    assert_eq!(reasons, [range, &same, range, &same]);

    case.merge_into(&catalog(&second), &json!({"spec": {"priority": 5}})).await;
    case.until_version("1.0.0").await;
    case.ask(json!({"version": "1.x", "channels": ["beta"]})).await;
    case.until_at(&case.extension(), retrying("error upgrading from currently installed version \"1.0.0\"")).await;
    let answer = json(&why("json").await);
    assert_eq!(answer["installed"], json!(format!("{}.v1.0.0", case.name)));
    let channel = "it is in none of the channels that are asked for";
    assert!(answer["bundles"].as_array().expect("a list").iter().all(|one| one["reason"] == channel), "{answer:#}");
    case.ask(json!({"version": "1.x", "channels": null})).await;
    let did = why("yaml").await;
    assert_eq!(did.code, Some(0), "{did:?}");
    assert!(did.out.contains(&format!("chosen:\n  catalog: {second}\n  bundle: {}.v1.1.0\n", case.name)), "{did:?}");
    assert!(did.out.contains(&images[1]), "{did:?}");
    assert_eq!(why("name").await.out, format!("{}.v1.1.0\n", case.name));
}

#[tokio::test]
async fn why_says_which_catalogs_were_not_asked() {
    let case = Case::new("asked").await;
    case.install(&["1.0.0"], json!({})).await;
    let [other, off, sick] = ["other", "off", "sick"].map(|suffix| format!("{}-{suffix}", case.name));
    let nowhere = json!({"ref": "localhost:1/none:v1"});
    case.create_catalog(&off, &nowhere, &json!({"availabilityMode": "Unavailable"})).await;
    let (reference, _) = case.push_catalog("other", Documents::package("other", &[("1.0.0", "r.example/o:1")])).await;
    case.create_catalog(&other, &json!({"ref": reference}), &json!({})).await;
    case.until_at(&catalog(&other), serving()).await;
    let why = async || rukpakctl(case.world, &["extension", "why", &case.name, "-ojson"]).await;
    let answer = json(&why().await);
    let catalogs = &answer["catalogs"];
    assert_eq!(line(catalogs, &off)["message"], "its spec.availabilityMode is Unavailable");
    assert_eq!(line(catalogs, &other)["message"], "it has no such package");
    assert_eq!(line(catalogs, &case.name)["isAsked"], true);
    case.create_catalog(&sick, &nowhere, &json!({})).await;
    let did = why().await;
    let (code, answer) = (did.code, json(&did));
    let message = answer["message"].as_str().unwrap_or_default();
    assert_eq!(code, Some(1), "{did:?}");
    assert!(message.starts_with(&format!("clustercatalog {sick:?} is not served")), "{message}");
    assert_eq!(answer["bundles"][0]["isChosen"], false, "{answer:#}");
    let missing = rukpakctl(case.world, &["extension", "why", "none"]).await;
    let said = "error: clusterextensions.olm.operatorframework.io \"none\" not found\nhint: rukpakctl extension list\n";
    assert_eq!((missing.code, missing.out.as_str(), missing.err.as_str()), (Some(1), "", said));
}

#[tokio::test]
async fn extensions_and_catalogs_of_the_cluster_are_listed_and_shown() {
    let case = Case::new("shown").await;
    case.install(&["1.0.0"], json!({"version": "1.x"})).await;
    case.merge_into(&case.extension(), &json!({"metadata": {"labels": {"case": case.name}}})).await;
    let label = format!("case={}", case.name);
    let list = async |form: &str| rukpakctl(case.world, &["extension", "list", "-l", &label, "-o", form]).await;
    let (name, space) = (&case.name, case.space());
    let listed = json(&list("json").await);
    let expected = json!({"extensions": [{
        "name": name, "package": name, "version": "1.x", "upgradeConstraintPolicy": "CatalogProvided", "namespace": space,
        "installed": {"bundle": format!("{name}.v1.0.0"), "version": "1.0.0"},
        "reason": "Succeeded", "message": "Desired state reached", "isSettled": true,
    }]});
    assert_eq!(listed, expected);
    assert_eq!(list("name").await.out, format!("clusterextension.olm.operatorframework.io/{name}\n"));
    let wide = list("wide").await.out;
    assert!(wide.contains(&format!("   {space}   {name}.v1.0.0   Desired state reached\n")), "{wide}");
    let shown = rukpakctl(case.world, &["extension", "show", name, "-oname"]).await;
    let names = format!("clusterextension.olm.operatorframework.io/{name}\nbundledeployment.core.rukpak.io/{name}\n");
    assert_eq!((shown.code, shown.out), (Some(0), names));
    let shown = json(&rukpakctl(case.world, &["extension", "show", name, "-ojson"]).await);
    assert_eq!((&shown["name"], &shown["conditions"][0]["reason"]), (&json!(name), &json!("Succeeded")), "{shown:#}");

    let place = format!("cluster:{name}");
    let did = rukpakctl(case.world, &["catalog", "list", &place, name]).await;
    assert!(did.code == Some(0) && did.out.contains("1.0.0") && did.err.starts_with(&format!("{place}: ")), "{did:?}");
    let did = rukpakctl(case.world, &["catalog", "show", "cluster:none", name]).await;
    let said = "error: clustercatalogs.olm.operatorframework.io \"none\" not found\n";
    assert_eq!((did.code, did.err.as_str()), (Some(2), said));
}
