//! `rukpakctl validate`, and how both commands end: 1 is refused, 2 could not be found out.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Folder, Packed, archive, kite, pack, plain, run};
use serde_json::json;

const ANNOTATIONS: (&str, &str) =
    ("metadata/annotations.yaml", "annotations:\n  operators.operatorframework.io.bundle.package.v1: \"\"\n");

/// Breaks most rules at once.
const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: bad.v1}
spec:
  installModes:
  - {type: MultiNamespace, supported: true}
  apiservicedefinitions:
    owned: [{group: a.example.com, version: v1, kind: A, name: as}]
  customresourcedefinitions:
    owned: [{name: gone.example.com, version: v1, kind: Gone}]
  install:
    strategy: deployment
    spec:
      deployments:
      - &deployment
        name: not_a_name
        spec:
          selector: {matchLabels: {a: b}}
          template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
      - *deployment
  webhookdefinitions:
  - {type: ValidatingAdmissionWebhook, generateName: w.example.com, deploymentName: nobody, sideEffects: None, admissionReviewVersions: [v1],
     rules: [{apiGroups: ['*'], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  - {type: Sideways, generateName: x.example.com, deploymentName: not_a_name, sideEffects: None, admissionReviewVersions: [v1]}
";

fn bad() -> Folder {
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\n";
    Folder::of(&[ANNOTATIONS, ("manifests/bad.clusterserviceversion.yaml", CSV), ("manifests/job.yaml", job)])
}

#[test]
fn everything_wrong_is_told_at_once_with_file_and_field() {
    let folder = bad();
    let answer = run(["validate", &folder.join("")]);
    assert_eq!(answer.code, 1, "{answer:?}");
    let csv = "manifests/bad.clusterserviceversion.yaml, document 1 (line 1), ";
    for line in [
        format!(
            "{csv}spec.install.spec.deployments[1].name: cluster service version contains duplicate strategy deployment spec 'not_a_name'"
        ),
        format!(
            "{csv}spec.customresourcedefinitions.owned[0].name: cluster service definition references owned custom resource definition 'gone.example.com' not found in bundle"
        ),
        format!(
            "{csv}spec.apiservicedefinitions.owned[0].deploymentName: API service 'v1.a.example.com' references non-existent deployment ''"
        ),
        "manifests/job.yaml, document 1 (line 1), kind: unsupported resource \"once\" with kind \"Job\"".to_owned(),
    ] {
        assert!(answer.lines().contains(&line.as_str()), "{line}\n--- not in:\n{}", answer.out);
    }
    let json = run(["validate", &folder.join(""), "--output=json"]);
    assert_eq!(json.code, 1);
    let report = json.json();
    assert_eq!((&report["valid"], &report["format"]), (&json!(false), &json!("registry+v1")));
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), answer.lines().len(), "a line each");
    let mut rules: Vec<&str> = findings.iter().map(|finding| finding["rule"].as_str().unwrap()).collect();
    rules.dedup();
    let wanted = [
        "deployment-unique",
        "deployment-name",
        "crd-shipped",
        "package-name",
        "webhook-deployment",
        "webhook-rules",
        "kind",
        "webhook-type",
        "api-service-deployment",
        "install-modes",
    ];
    assert_eq!(rules, wanted, "{report:#}");
    for finding in findings.iter().filter(|finding| finding["rule"] != "package-name") {
        assert!(finding["file"].as_str().is_some_and(|file| file.starts_with("manifests/")), "{finding}");
        assert!(finding["field"].is_string() && finding["line"] == 1, "{finding}");
    }
    // The same is refused by render, which has nothing to print.
    let render = run(["render", &folder.join("")]);
    assert_eq!((render.code, render.out.as_str()), (1, ""));
    for line in answer.lines() {
        assert!(render.err.contains(line), "{line}\n{}", render.err);
    }
}

#[test]
fn each_file_that_cannot_be_read_is_told() {
    let files = [
        ("manifests/a.yaml", "a: [1"),
        ("manifests/b.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: b, labels: {c: 5}}\n"),
        ("manifests/c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fine}\n"),
        ("manifests/sub/d.yaml", ""),
    ];
    let folder = Folder::of(&files);
    let report = run(["validate", &folder.join(""), "-ojson"]).json();
    let places: Vec<_> =
        report["findings"].as_array().unwrap().iter().map(|finding| (&finding["file"], &finding["field"])).collect();
    let null = json!(null);
    assert_eq!(
        places,
        [
            (&json!("manifests/a.yaml"), &null),
            (&json!("manifests/b.yaml"), &json!("metadata.labels[\"c\"]")),
            (&json!("manifests/sub"), &null)
        ],
        "{report:#}"
    );
    // The same files as a registry+v1 bundle, with metadata that is no good either.
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: e}\nspec: {versions: [{served: maybe}]}\n";
    let folder = Folder::of(&[files[0], ("manifests/e.yaml", crd), ("metadata/annotations.yaml", "annotations: []")]);
    let report = run(["validate", &folder.join(""), "-ojson"]).json();
    let places: Vec<_> =
        report["findings"].as_array().unwrap().iter().map(|finding| (&finding["file"], &finding["field"])).collect();
    assert_eq!(
        places,
        [
            (&json!("metadata/annotations.yaml"), &json!("annotations")),
            (&json!("manifests/a.yaml"), &null),
            (&json!("manifests/e.yaml"), &json!("spec.versions[0].served")),
        ],
        "{report:#}"
    );
}

#[test]
fn a_valid_bundle_has_nothing_to_say() {
    let folder = plain();
    for (bundle, format) in [(kite(), "registry+v1"), (folder.path().to_owned(), "plain+v0")] {
        let answer = run(["validate".as_ref(), bundle.as_os_str()]);
        assert_eq!((answer.code, answer.out.as_str()), (0, ""), "{answer:?}");
        assert!(answer.err.contains(": valid, ") && answer.err.contains(format), "{}", answer.err);
    }
    let report = run(["validate", &folder.join(""), "-ojson"]).json();
    assert_eq!(report["valid"], true);
    assert_eq!((&report["findings"], &report["warnings"]), (&json!([]), &json!([])));
}

#[test]
fn warnings_are_no_findings() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {b: c, b: d}\n";
    let folder = Folder::of(&[("manifests/a.yaml", text)]);
    let answer = run(["validate", &folder.join("")]);
    assert_eq!((answer.code, answer.out.as_str()), (0, ""));
    assert!(answer.err.contains(": valid, 1 object\n"), "{}", answer.err);
    assert!(
        answer.err.contains("warning: manifests/a.yaml (line 4): data.b is set twice: the last value counts"),
        "{}",
        answer.err
    );
    let report = run(["validate", &folder.join(""), "-ojson"]);
    assert_eq!(report.json()["warnings"][0], "manifests/a.yaml (line 4): data.b is set twice: the last value counts");
    assert!(!report.err.contains("warning"), "{}", report.err);
}

#[test]
fn what_no_cluster_takes_of_a_plain_bundle_is_warned_of() {
    let text = "apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {port: 80}\n";
    let folder = Folder::of(&[("manifests/a.yaml", text)]);
    let answer = run(["validate", &folder.join(""), "-ojson"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let kind =
        "manifests/a.yaml, document 1 (line 1): Kubernetes has no kind Deploymnt in apps/v1: is Deployment meant?";
    let port = "manifests/a.yaml, document 2 (line 5), data[\"port\"] is a number, not a string: quote the value";
    assert_eq!(answer.json()["warnings"], json!([kind, port]));
    let render = run(["render", &folder.join("")]);
    assert!(render.err.contains(kind) && render.err.contains(port), "{}", render.err);
}

#[test]
fn what_cannot_be_found_out_is_2() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = format!("127.0.0.1:{port}/nobody/here:v1");
    let folder = Folder::of(&[("not-an-archive", &"hush ".repeat(600)), ("empty.tgz", "")]);
    let packed = pack("hush ".repeat(600).as_bytes(), Packed::Gzip);
    fs::write(folder.path().join("text.tgz"), packed).unwrap();
    let cut = pack(&archive(&kite(), Packed::Not), Packed::Gzip);
    fs::write(folder.path().join("cut.tgz"), &cut[..cut.len() / 2]).unwrap();
    for (bundle, text) in [
        ("./missing", "./missing: no such file or folder; it was not taken for an image: it is written like a path"),
        ("missing.tar.gz", "missing.tar.gz: no such file or folder"),
        ("Not An Image", "there is no file or folder of this name, so it was taken for an image: "),
        (nobody.as_str(), "there is no file or folder of this name, so it was taken for an image: "),
        (&folder.join("not-an-archive"), "not-an-archive: neither gzip, Zstandard nor tar\n"),
        (&folder.join("text.tgz"), "text.tgz: cannot read the tar archive: not a tar archive\n"),
        (&folder.join("empty.tgz"), "empty.tgz: empty file\n"),
        ("/dev/null", "/dev/null: empty file\n"),
        (&folder.join("cut.tgz"), "cannot read"),
    ] {
        for command in ["render", "validate"] {
            let answer = run([command, bundle]);
            assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{command} {bundle}: {answer:?}");
            assert!(
                answer.err.starts_with("error: ") && answer.err.contains(text),
                "{command} {bundle}: {}",
                answer.err
            );
            assert!(!answer.err.contains("hush"), "{command} {bundle}: {}", answer.err);
        }
    }
    for wrong in [
        vec!["render"],
        vec!["render", "x", "--output=xml"],
        vec!["render", "x", "--install-namespace=Bad_NS"],
        vec!["render", "x", "--target-namespaces=a,Bad_NS"],
        vec!["dance"],
        vec![],
    ] {
        let answer = run(&wrong);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{wrong:?}: {answer:?}");
    }
}

#[test]
fn links_are_judged_as_in_a_cluster() {
    let folder = plain();
    symlink("a.yaml", folder.path().join("manifests/c.yaml")).unwrap();
    let answer = run(["render", &folder.join("")]);
    assert_eq!((answer.code, answer.yaml().len()), (0, 2), "{answer:?}");
    assert!(answer.err.contains("warning: manifests/c.yaml: a symbolic link: left out"), "{}", answer.err);
    symlink("../../outside.yaml", folder.path().join("manifests/d.yaml")).unwrap();
    let answer = run(["validate", &folder.join("")]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.out.contains("leaves the bundle"), "{}", answer.out);
    let packed = {
        let mut builder = tar::Builder::new(Vec::new());
        builder.follow_symlinks(false);
        builder.append_dir_all(".", folder.path()).unwrap();
        builder.into_inner().unwrap()
    };
    let target = Folder::of(&[]);
    fs::write(target.path().join("a.tar"), packed).unwrap();
    for command in ["render", "validate"] {
        assert_eq!(run([command, &target.join("a.tar")]).code, 1);
    }
}

#[test]
fn a_bundle_one_folder_down_is_pointed_at() {
    let folder = Folder::of(&[("pump/manifests/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")]);
    let target = Folder::of(&[]);
    fs::write(target.path().join("a.tar.gz"), archive(folder.path(), Packed::Gzip)).unwrap();
    for bundle in [folder.join(""), target.join("a.tar.gz")] {
        let answer = run(["validate", &bundle]);
        assert_eq!(answer.code, 1);
        assert!(answer.err.contains("warning: pump/manifests is there: the bundle is pump"), "{}", answer.err);
        assert!(answer.out.contains("readdir manifests: file does not exist"), "{}", answer.out);
    }
}

#[test]
fn a_refusal_names_the_limit_by_the_flag_of_the_controller() {
    let one = |number: u32| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a{number}}}\n");
    let all: Vec<String> = (0..=20_000).map(one).collect();
    let folder = Folder::of(&[("manifests/a.yaml", &all.join("---\n"))]);
    let answer = run(["validate", &folder.join("")]);
    assert_eq!(answer.code, 1, "{}", answer.err);
    let text = "more than the limit of 20000 objects in a bundle (--limit=objects)";
    assert!(answer.out.contains(text), "{}", answer.out);
}
