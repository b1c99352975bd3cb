//! `rukpakctl render`: the same objects from folder and archive, as YAML and as JSON.

use std::fs;

use crate::support::{Answer, Folder, Packed, archive, command, kite, plain, run};
use serde_json::{Value, json};

fn named<'a>(objects: &'a Value, kind: &str) -> Vec<&'a Value> {
    objects.as_array().expect("an array of objects").iter().filter(|object| object["kind"] == kind).collect()
}

#[test]
fn yaml_and_json_are_the_same_objects_and_talk_is_elsewhere() {
    let kite = kite();
    let (yaml, json) =
        (run(["render".as_ref(), kite.as_os_str()]), run(["render".as_ref(), kite.as_os_str(), "-ojson".as_ref()]));
    assert_eq!((yaml.code, json.code), (0, 0), "{yaml:?}");
    assert!(yaml.out.starts_with("---\n"), "{}", yaml.out);
    assert!(json.out.starts_with('[') && json.out.ends_with("]\n"), "{}", json.out);
    let objects = json.json();
    assert_eq!(Value::from(yaml.yaml()), objects);
    assert!(named(&objects, "Deployment").len() == 1 && objects.as_array().unwrap().len() > 8, "{objects:#}");
    assert_eq!(objects[0]["kind"], "Namespace");
    assert!(
        yaml.err.contains("objects of a registry+v1 bundle (metadata/annotations.yaml says media type registry+v1)"),
        "{}",
        yaml.err
    );
}

#[test]
fn archives_give_what_their_folder_gives() {
    let (kite, target) = (kite(), Folder::of(&[]));
    let wanted = run(["render".as_ref(), kite.as_os_str()]).out;
    // The bytes decide, not the name.
    for (name, packed) in [
        ("a.tar", Packed::Not),
        ("a.tar.gz", Packed::Gzip),
        ("a.tgz", Packed::Gzip),
        ("a.tar.zst", Packed::Zstd),
        ("odd name", Packed::Zstd),
    ] {
        fs::write(target.path().join(name), archive(&kite, packed)).unwrap();
        let answer = run(["render", &target.join(name)]);
        assert_eq!((answer.code, answer.out.as_str()), (0, wanted.as_str()), "{name}: {}", answer.err);
    }
}

#[test]
fn plain_bundles_are_told_from_registry_bundles() {
    let folder = plain();
    let answer = run(["render", &folder.join("")]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.err.contains("2 objects of a plain+v0 bundle (it has no folder metadata)"), "{}", answer.err);
    let objects = answer.yaml();
    assert_eq!(objects[0]["data"], json!({"answer": "yes", "mode": "0755"}));
    assert_eq!(objects[1]["metadata"]["name"], "b");
    // What is asked for wins over what is there.
    let answer = run(["render".as_ref(), kite().as_os_str(), "--format=plain+v0".as_ref()]);
    assert!(answer.out.contains("kind: ClusterServiceVersion"), "{answer:?}");
    assert!(answer.err.contains("warning: manifests/kite.clusterserviceversion.yaml"), "{}", answer.err);
    let answer = run(["render", &folder.join(""), "--cert-provider=self"]);
    assert_eq!((answer.code, answer.out.as_str()), (2, ""));
    assert!(answer.err.contains("--cert-provider is for registry+v1 bundles"), "{}", answer.err);
}

#[test]
fn the_namespace_and_the_watched_namespaces_are_those_of_the_flags() {
    let kite = kite();
    let kite = kite.to_str().unwrap();
    let answer = run(["render", kite, "-o", "json", "--install-namespace", "tower"]);
    let objects = answer.json();
    assert_eq!(objects[0]["metadata"]["name"], "tower");
    let deployment = named(&objects, "Deployment")[0];
    assert_eq!(deployment["metadata"]["namespace"], "tower");
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(
        (&annotations["olm.targetNamespaces"], &annotations["olm.operatorNamespace"]),
        (&json!(""), &json!("tower"))
    );
    // kite supports AllNamespaces alone.
    let answer = run(["render", kite, "--target-namespaces=a,b"]);
    assert_eq!((answer.code, answer.out.as_str()), (1, ""), "{answer:?}");
    let text = "invalid option(s): invalid target namespaces [a b]: supported install modes [AllNamespaces] do not support target namespaces [a b]";
    assert!(answer.err.contains(text), "{}", answer.err);
}

#[test]
fn certificates_come_from_whom_the_flag_names() {
    let kite = kite();
    let render =
        |provider: &str| run(["render", kite.to_str().unwrap(), "-ojson", &format!("--cert-provider={provider}")]);
    let own = render("self");
    assert_eq!(own.json(), run(["render", kite.to_str().unwrap(), "-ojson"]).json(), "the default");
    let secrets: Vec<_> = named(&own.json(), "Secret")
        .into_iter()
        .filter(|secret| secret["type"] == "kubernetes.io/tls")
        .cloned()
        .collect();
    assert_eq!(secrets.len(), 1, "{}", own.out);
    assert!(own.err.contains("note: certificates are placeholders"), "{}", own.err);
    let manager = render("cert-manager");
    assert_eq!((named(&manager.json(), "Certificate").len(), named(&manager.json(), "Issuer").len()), (1, 1));
    assert!(!manager.err.contains("note:"), "{}", manager.err);
    let service = render("service-ca");
    assert!(service.out.contains("service.beta.openshift.io/serving-cert-secret-name"), "{}", service.out);
    assert!(named(&service.json(), "Certificate").is_empty());
}

#[test]
fn what_servers_set_is_left_out() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a, uid: x, ownerReferences: []}\nstringData: {b: c}\nstatus: {}\n";
    let folder = Folder::of(&[("manifests/a.yaml", text)]);
    let answer = run(["render", &folder.join(""), "--output=json"]);
    assert_eq!(
        answer.json()[0],
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"b": "Yw=="}})
    );
    assert!(answer.err.contains("warning: ") && answer.err.contains("ownerReferences"), "{}", answer.err);
}

#[test]
fn a_refused_bundle_gives_no_objects() {
    let folder = Folder::of(&[("manifests/a.yaml", "kind: x"), ("manifests/b.yaml", "apiVersion: v1")]);
    let answer = run(["render", &folder.join("")]);
    assert_eq!((answer.code, answer.out.as_str()), (1, ""));
    assert!(answer.err.contains("manifests/a.yaml") && answer.err.contains("manifests/b.yaml"), "{}", answer.err);
}

#[test]
fn values_of_flags_need_helm() {
    let chart =
        Folder::of(&[("Chart.yaml", "{apiVersion: v2, name: a, version: 1.0.0}"), ("templates/a.yaml", "kind: A")]);
    for verb in ["render", "validate"] {
        let mut command = command([verb, &chart.join(""), "--set=size=5"]);
        command.env("PATH", "");
        let answer = Answer::of(command);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{answer:?}");
        assert!(answer.err.starts_with("error: render the chart: there is no program helm beside "), "{answer:?}");
    }
}

#[test]
fn a_reader_that_stops_is_no_failure() {
    let kite = kite();
    for arguments in [["render", kite.to_str().unwrap()], ["validate", kite.to_str().unwrap()]] {
        let mut command = command(arguments);
        command.arg("--output=json").stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{talk}");
        assert!(!talk.contains("panicked") && !talk.contains("error"), "{talk}");
    }
}

#[test]
fn the_version_is_told() {
    let answer = run(["version"]);
    assert_eq!((answer.code, answer.out.as_str()), (0, concat!("rukpakctl ", env!("CARGO_PKG_VERSION"), "\n")));
}
