//! `rukpakctl run`, as RukPak's clients know it, and what is added.

use std::time::{Duration, SystemTime};

use rukpak_tests::fixtures;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, deployment, image, until, until_bundle};
use serde_json::json;

use crate::cli::hands::{Hands, folder, installed, manifest, text, write};

#[tokio::test]
async fn a_folder_is_installed() {
    let hands = Hands::admin().await;
    let name = unique_name("k1");
    let folder = folder(&fixtures::renamed("plain/valid", &name).unwrap());
    let did = hands.run(&["run", &name, text(folder.path())]).await;
    let (bundle, is_new) = installed(&name, &did);
    assert!(is_new, "{did:?}");
    assert!(did.err.starts_with(&format!("uploading to bundle \"{bundle}\": ")), "one plain line: {}", did.err);
    assert_eq!(did.err.lines().count(), 1, "{}", did.err);
    assert!(!did.err.contains(['\r', '\u{1b}']), "nothing for a terminal: {:?}", did.err);

    let unpacked = until_bundle(&hands.client, &bundle, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    let source = json!({"type": "upload", "upload": {}});
    assert_eq!(unpacked.data["spec"], json!({"provisionerClassName": "core-rukpak-io-plain", "source": source}));
    until(&hands.client, &name, Expected::is_true("HasValidBundle", "UnpackSuccessful")).await;
    let deployment = until(&hands.client, &name, Expected::is_true("Installed", "InstallationSucceeded")).await;
    assert_eq!(deployment.data["status"]["activeBundle"], bundle);

    let template = &deployment.data["spec"]["template"];
    let labels = template["metadata"]["labels"].as_object().unwrap();
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["app", "bundleDigest"]);
    assert_eq!(labels["app"], name);
    let digest = labels["bundleDigest"].as_str().unwrap();
    assert!(digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
    let on_bundle = unpacked.metadata.labels.unwrap();
    assert_eq!((on_bundle["app"].as_str(), on_bundle["bundleDigest"].as_str()), (name.as_str(), digest));
    let managers = deployment.metadata.managed_fields.unwrap();
    let ours = managers.iter().find(|entry| entry.manager.as_deref() == Some("rukpakctl")).unwrap();
    assert_eq!(ours.operation.as_deref(), Some("Apply"));
}

#[tokio::test]
async fn the_same_folder_is_up_to_date_and_another_replaces_it() {
    let hands = Hands::admin().await;
    let name = unique_name("again");
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    let (first, is_new) = hands.install(&name, folder.path()).await;
    assert!(is_new);
    until(&hands.client, &name, Expected::is_true("Installed", "InstallationSucceeded")).await;

    // Neither times nor what git keeps are content.
    let file = std::fs::File::options().write(true).open(folder.path().join("manifests/a.yaml")).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(1)).unwrap();
    write(folder.path(), &[(".git/index", "something")]);
    assert_eq!(hands.install(&name, folder.path()).await, (first.clone(), false));

    write(folder.path(), &[("manifests/a.yaml", manifest(&name, "two"))]);
    let (second, is_new) = hands.install(&name, folder.path()).await;
    assert!(is_new && second != first);
    verbs::await_deleted(&hands.client, &Target::bundle(&first), SOON).await.unwrap();
    let deployment = until(&hands.client, &name, Expected::is_true("Installed", "InstallationSucceeded")).await;
    assert_eq!(deployment.data["status"]["activeBundle"], second);
    let object = hands.get(&Target::namespaced("v1", "ConfigMap", "default", &name)).await.unwrap();
    assert_eq!(object.data["data"], json!({"value": "two"}));
}

#[tokio::test]
async fn a_folder_that_is_not_there() {
    let hands = Hands::admin().await;
    let name = unique_name("k2");
    let folder = folder(&[("file", "")]);
    for (path, words) in [("none", "none: no such file or directory"), ("file", "file: not a directory")] {
        let did = hands.run(&["run", &name, text(&folder.path().join(path))]).await;
        assert_eq!((did.code, did.out.as_str()), (Some(2), ""), "{did:?}");
        assert!(did.err.starts_with("error: ") && did.err.trim_end().ends_with(words), "{did:?}");
    }
    assert!(hands.get(&Target::bundle_deployment(&name)).await.is_none(), "nothing is applied");
}

#[tokio::test]
async fn a_namespace_without_rukpak_is_named_with_the_way_out() {
    let hands = Hands::admin().await;
    let name = unique_name("elsewhere");
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    let did = hands.run(&["run", &name, text(folder.path()), "--system-namespace=nowhere"]).await;
    assert_eq!((did.code, did.out.as_str()), (Some(1), ""), "{did:?}");
    assert!(
        did.err.starts_with("error: secrets \"rukpak-ca\" not found: is RukPak installed in namespace \"nowhere\"?"),
        "{did:?}"
    );
    assert!(did.err.contains("--system-namespace"), "{did:?}");
    assert!(hands.get(&Target::bundle_deployment(&name)).await.is_none(), "nothing is applied");
}

#[tokio::test]
async fn a_folder_that_is_no_bundle_fails_and_can_be_mended() {
    let hands = Hands::admin().await;
    let name = unique_name("k3");
    let folder = folder(&fixtures::renamed("plain/subdir", &name).unwrap());
    let arguments = ["run", &name, text(folder.path())];
    let did = hands.run(&arguments).await;
    assert_eq!((did.code, did.out.as_str()), (Some(1), ""), "{did:?}");
    let words =
        format!("error: {}: refused as a plain+v0 bundle: 2 findings; nothing was applied\n", text(folder.path()));
    assert!(did.err.contains(&words), "{did:?}");
    assert!(hands.get(&Target::bundle_deployment(&name)).await.is_none(), "nothing is applied");

    let did = hands.run(&[&arguments[..], &["--validate=false"]].concat()).await;
    let (bundle, _) = installed(&name, &did);
    let failed = until_bundle(&hands.client, &bundle, Expected::is_false("Unpacked", "UnpackFailed")).await;
    assert_eq!(failed.data["status"]["phase"], "Failing");
    until(&hands.client, &name, Expected::is_false("HasValidBundle", "UnpackFailed")).await;

    // K7: nothing to show.
    let did = hands.run(&["content", &bundle]).await;
    assert_eq!((did.code, did.out.as_str()), (Some(1), ""), "{did:?}");
    assert_eq!(did.err, "content command failed: error: url is not available\n");

    std::fs::remove_dir_all(folder.path().join("manifests")).unwrap();
    write(folder.path(), &[("manifests/a.yaml", manifest(&name, "good"))]);
    let (mended, is_new) = hands.install(&name, folder.path()).await;
    assert!(is_new && mended != bundle);
    until(&hands.client, &name, Expected::is_true("Installed", "InstallationSucceeded")).await;
}

#[tokio::test]
async fn a_token_with_the_documented_rights_is_enough() {
    let name = unique_name("token");
    let rules = json!([
        {"apiGroups": ["core.rukpak.io"], "resources": ["bundledeployments"], "verbs": ["get", "create", "patch"]},
        {"apiGroups": ["core.rukpak.io"], "resources": ["bundles"], "verbs": ["list", "watch"]},
    ]);
    let hands = Hands::account(&name, &rules).await;
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    let arguments = ["run", &name, text(folder.path())];
    let refused = hands.run(&arguments).await;
    assert_eq!(refused.code, Some(2), "who asks may not, so nothing is known: {refused:?}");
    assert_eq!(refused.out, format!("bundledeployment.core.rukpak.io \"{name}\" applied\n"));
    let words = "error: Forbidden: user \"system:serviceaccount:rukpak-system:";
    assert!(refused.err.lines().any(|line| line.starts_with(words)), "the body is the error: {refused:?}");
    Hands::admin().await.bind(&name, "bundle-uploader").await;
    let did = hands.run(&arguments).await;
    assert!(installed(&name, &did).1, "{did:?}");
    until(&hands.client, &name, Expected::is_true("Installed", "InstallationSucceeded")).await;
}

#[tokio::test]
async fn a_deployment_that_is_not_for_uploads_is_left_alone() {
    let hands = Hands::admin().await;
    let name = unique_name("taken");
    hands.create(&deployment(&name, image("localhost/nobody:v1"))).await;
    let before = hands.get(&Target::bundle_deployment(&name)).await.unwrap();
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    let arguments = ["run", &name, text(folder.path())];
    let did = hands.run(&arguments).await;
    assert_eq!((did.code, did.out.as_str()), (Some(1), ""), "{did:?}");
    let words = format!("error: bundledeployment \"{name}\" already exists with source image, not upload: nothing was");
    assert!(did.err.starts_with(&words), "{did:?}");
    let after = hands.get(&Target::bundle_deployment(&name)).await.unwrap();
    assert_eq!((after.metadata.generation, &after.data["spec"]), (before.metadata.generation, &before.data["spec"]));

    // The way out that it tells.
    let patch =
        did.err.split(" -p '").nth(1).and_then(|rest| rest.split('\'').next()).unwrap_or_else(|| panic!("{did:?}"));
    let patch = serde_json::from_str(patch).unwrap();
    verbs::merge(&hands.client, &Target::bundle_deployment(&name), &patch).await.unwrap();
    let class = ["--bundle-deployment-provisioner-class", "somebody-else"];
    let did = hands.run(&[&arguments[..], &class].concat()).await;
    assert_eq!((did.code, did.out.as_str()), (Some(1), ""), "{did:?}");
    let words = "with provisioner class \"core-rukpak-io-plain\", not \"somebody-else\": nothing was changed";
    assert!(did.err.contains(words), "{did:?}");
    assert!(installed(&name, &hands.run(&arguments).await).1);
    until(&hands.client, &name, Expected::is_true("Installed", "InstallationSucceeded")).await;
}

#[tokio::test]
async fn a_deployment_that_stalls_is_not_waited_for() {
    let hands = Hands::admin().await;
    let name = unique_name("stall");
    let mut stalled = deployment(&name, json!({"type": "upload", "upload": {}}));
    // No Bundle can have it.
    stalled["spec"]["template"]["metadata"] = json!({"labels": {"no label!": "x"}});
    hands.create(&stalled).await;
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    let did = hands.run(&["run", &name, text(folder.path()), "--timeout", "600"]).await;
    assert_eq!(did.code, Some(1), "{did:?}");
    assert!(did.err.starts_with(&format!("error: bundledeployment \"{name}\" makes no Bundle: ")), "{did:?}");
    assert!(did.err.contains("no label!"), "{did:?}");
}

#[tokio::test]
async fn the_class_is_that_of_the_format_unless_a_flag_says_otherwise() {
    let hands = Hands::admin().await;
    let name = unique_name("format");
    let folder = folder(&fixtures::read("registry/pump").unwrap());
    let plain = ["--bundle-provisioner-class", "core-rukpak-io-plain"];
    let arguments = ["run", &name, text(folder.path())];
    let (bundle, words) =
        (installed(&name, &hands.run(&[&arguments[..], &plain].concat()).await).0, "a registry+v1 bundle");
    let class = async |bundle: &str| {
        hands.get(&Target::bundle(bundle)).await.unwrap().data["spec"]["provisionerClassName"].clone()
    };
    assert_eq!(class(&bundle).await, "core-rukpak-io-plain");
    let did = hands.run(&arguments).await;
    assert!(did.err.starts_with(words) && did.err.contains(": class core-rukpak-io-registry\n"), "{did:?}");
    assert_eq!(class(&installed(&name, &did).0).await, "core-rukpak-io-registry");
    let did = hands.run(&[&arguments[..], &plain].concat()).await;
    let warning = "which is for class core-rukpak-io-registry: class core-rukpak-io-plain reads it otherwise\n";
    assert!(did.err.starts_with("warning: ") && did.err.contains(warning), "{did:?}");
    verbs::delete(&hands.client, &Target::bundle_deployment(&name)).await.unwrap();
    verbs::await_deleted(&hands.client, &Target::bundle_deployment(&name), SOON).await.unwrap();
}

#[tokio::test]
async fn what_the_api_server_refuses_is_refused() {
    let hands = Hands::admin().await;
    let folder = folder(&[("manifests/a.yaml", manifest("a", "one"))]);
    let long = unique_name(&"x".repeat(60));
    let did = hands.run(&["run", &long, text(folder.path())]).await;
    assert_eq!((did.code, did.out.as_str()), (Some(1), ""), "{did:?}");
    // What follows differs between versions of Kubernetes.
    let words = format!("error: BundleDeployment.core.rukpak.io \"{long}\" is invalid: metadata.name: ");
    assert!(did.err.starts_with(&words), "{did:?}");
}

#[tokio::test]
async fn a_bundle_that_does_not_come_is_not_waited_for_for_ever() {
    let hands = Hands::admin().await;
    let name = unique_name("nobody");
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    let class = ["--bundle-deployment-provisioner-class", "somebody-else", "--timeout", "1"];
    let did = hands.run(&[&["run", &name, text(folder.path())][..], &class].concat()).await;
    assert_eq!(did.code, Some(2), "{did:?}");
    let words = format!(
        "error: no Bundle came for bundledeployment \"{name}\" within 1 s: its status says nothing; is there a provisioner \
         of its class?\n"
    );
    assert_eq!(did.err, words);
}

#[tokio::test]
async fn without_a_way_to_the_service_nothing_is_applied() {
    let hands = Hands::admin().await;
    let name = unique_name("way");
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    let arguments = ["run", &name, text(folder.path())];
    // Without a kubelet no Pod is ready.
    let did = hands.run_alone(&arguments).await;
    assert_eq!((did.code, did.out.as_str()), (Some(2), ""), "{did:?}");
    let words =
        "error: service rukpak-system/core leads to no ready Pod with a port https; is the controller running?\n";
    assert_eq!(did.err, words);
    let other = hands.run(&[&arguments[..], &["--ca-secret-name", "none"]].concat()).await;
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.err.starts_with("error: secrets \"none\" not found: "), "{other:?}");
    let clear = hands.run_alone(&[&arguments[..], &["--endpoint", "http://localhost:1"]].concat()).await;
    assert_eq!(clear.code, Some(2), "{clear:?}");
    assert!(hands.get(&Target::bundle_deployment(&name)).await.is_none(), "nothing is applied");

    let lost = Hands { kubeconfig: folder.path().join("none"), ..hands };
    let did = lost.run(&arguments).await;
    assert_eq!((did.code, did.out.as_str()), (Some(2), ""), "{did:?}");
    assert!(did.err.starts_with("error: no cluster to ask: there is no kubeconfig ("), "{did:?}");
}
