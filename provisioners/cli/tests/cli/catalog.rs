//! `rukpakctl catalog` over folders and files. The fixture `pumps` is the one of the documentation.

use std::path::{Path, PathBuf};

use rukpak_catalog::choose::{Request, choose};
use rukpak_catalog::{Range, check, read};
use rukpak_content::Limits;
use serde_json::{Value, json};

use crate::support::{Answer, Folder, command, run};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/fixtures").join(name)
}

fn catalog(verb: &str, arguments: &[&str]) -> Answer {
    let (folder, rest) = arguments.split_first().expect("a catalog");
    let path = fixture(folder);
    run([&["catalog", verb, path.to_str().expect("UTF-8")], rest].concat())
}

#[track_caller]
fn assert_answer(answer: &Answer, code: i32, out: &str, err: &[&str]) {
    assert_eq!((answer.code, answer.out.as_str()), (code, out), "{}", answer.err);
    for text in err {
        assert!(answer.err.contains(text), "{text:?} is not in: {}", answer.err);
    }
}

#[test]
fn packages_are_listed_by_name() {
    let table = "\
PACKAGE   DEFAULT CHANNEL   VERSION   BUNDLES   DEPRECATED
pump      stable            1.2.0     5         -
valve     stable            3.1.0     1         yes
";
    assert_answer(&catalog("list", &["pumps"]), 0, table, &["pumps: 2 packages\n"]);
    let wanted = json!({"packages": [
        {"name": "pump", "defaultChannel": "stable", "head": "pump.v1.2.0", "version": "1.2.0", "channels": 2, "bundles": 5},
        {"name": "valve", "defaultChannel": "stable", "head": "valve.v3.1.0", "version": "3.1.0", "channels": 1, "bundles": 1,
         "deprecation": "Use faucet."},
    ]});
    assert_eq!(catalog("list", &["pumps", "--output=json"]).json(), wanted);
}

#[test]
fn bundles_are_listed_by_channel_and_version() {
    let table = "\
CHANNEL     BUNDLE        VERSION   NOTES
candidate   pump.v1.2.0   1.2.0     -
candidate   pump.v2.0.0   2.0.0     head
stable      pump.v1.0.0   1.0.0     deprecated
stable      pump.v1.1.0   1.1.0     -
stable      pump.v1.1.1   1.1.1     skipped
stable      pump.v1.2.0   1.2.0     head
";
    assert_answer(&catalog("list", &["pumps", "pump"]), 0, table, &["2 channels and 5 bundles of package \"pump\""]);
    let json = catalog("list", &["pumps", "pump", "-ojson"]).json();
    let stable = &json["channels"][1];
    assert_eq!((&stable["name"], &stable["head"]), (&json!("stable"), &json!("pump.v1.2.0")));
    let last = json!({"name": "pump.v1.2.0", "version": "1.2.0", "image": "registry.example.com/pump:v1.2.0",
                      "replaces": "pump.v1.1.0", "skips": ["pump.v1.1.1"]});
    assert_eq!(stable["bundles"][3], last);
    assert_eq!((&json["looseBundles"], &json["remarks"]), (&json!([]), &json!([])));
}

#[test]
fn a_broken_graph_is_listed_with_a_warning() {
    let answer = catalog("list", &["broken", "pump"]);
    let table = "\
CHANNEL   BUNDLE        VERSION   NOTES
stable    pump.v1.0.0   v1        -
stable    pump.v1.1.0   -         not in the catalog
";
    let heads = "warning: channel \"stable\": multiple channel heads found in graph: pump.v1.0.0, pump.v1.1.0\n";
    assert_answer(&answer, 0, table, &[heads, "is no version"]);
    let packages = catalog("list", &["broken"]);
    assert!(packages.out.contains("pump      stable            -         1         -"), "{}", packages.out);
}

#[test]
fn a_bundle_is_shown_with_everything_known() {
    let facts = "\
package:       pump
bundle:        pump.v1.2.0
version:       1.2.0
channel:       stable (default)
image:         registry.example.com/pump:v1.2.0
why:           the head of channel \"stable\"
installable:   yes
display name:  Pump
install modes: AllNamespaces, OwnNamespace
needs:         Kubernetes 1.20.0 or newer
provides:      pump.example.com/v1 Pump
upgrades:      pump.v1.0.0 -> pump.v1.1.0 -> pump.v1.2.0
";
    let shown = catalog("show", &["pumps", "pump", "--channel=stable", "--from=pump.v1.0.0"]);
    assert_eq!(shown.out, facts);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""));
    let deprecated = catalog("show", &["pumps", "pump", "1.0.0"]);
    let line = "deprecated:    bundle \"pump.v1.0.0\" is deprecated: It leaks. Use 1.1.0 or newer.";
    assert!(deprecated.lines().contains(&line), "{}", deprecated.out);
    let package = catalog("show", &["pumps", "valve"]);
    assert!(package.out.contains("package \"valve\" is deprecated: Use faucet."), "{}", package.out);
    assert!(package.out.contains("install modes: the catalog does not say"), "{}", package.out);
}

#[test]
fn what_the_manager_refuses_is_shown_and_is_a_no() {
    let answer = catalog("show", &["pumps", "pump", "--from", "pump.v1.2.0"]);
    assert_eq!((answer.code, answer.err.as_str()), (1, ""));
    assert!(answer.out.contains("why:           the highest version of 5 bundles\n"), "{}", answer.out);
    let refusal = "bundle \"pump.v2.0.0\" has a dependency declared via property \"olm.package.required\" which is currently not supported: valve >=3.0.0;";
    assert!(answer.out.contains(&format!("installable:   no: {refusal}")), "{}", answer.out);
    assert!(
        answer.out.contains("upgrades:      none from pump.v1.2.0\n"),
        "the default channel ends there: {}",
        answer.out
    );
    let from = catalog("show", &["pumps", "pump", "1.2.0", "--from", "pump.v1.2.0", "--channel", "candidate"]);
    assert!(from.out.contains("upgrades:      none from pump.v1.2.0\n"), "2.0.0 is not in the range: {}", from.out);
    let from = catalog("show", &["pumps", "pump", "--from", "pump.v1.0.0", "--channel", "candidate", "-ojson"]).json();
    let steps = &from["upgrades"]["steps"];
    assert_eq!(steps[0], json!({"bundle": "pump.v1.2.0", "version": "1.2.0"}), "by skipRange");
    assert!(steps[1]["refusal"].as_str().unwrap().starts_with(refusal), "{from}");
    assert_eq!((&from["installable"], steps.as_array().unwrap().len()), (&json!(false), 2));
    let ignored =
        catalog("show", &["pumps", "pump", "--from=pump.v1.2.0", "--channel=candidate", "--ignore-dependencies"]);
    assert_eq!(ignored.code, 0, "{}", ignored.out);
    assert!(ignored.out.contains("upgrades:      pump.v1.2.0 -> pump.v2.0.0\n"), "{}", ignored.out);
}

#[test]
fn a_bundle_that_is_gone_is_upgraded_by_its_version() {
    let arguments = ["pumps", "pump", "--channel=candidate", "--version=<2.0.0", "--from=pump.v1.0.5"];
    let unknown = catalog("show", &arguments);
    assert!(unknown.err.contains("--from-version") && unknown.out.contains("none from pump.v1.0.5"), "{unknown:?}");
    let known = catalog("show", &[&arguments[..], &["--from-version=1.0.5"]].concat());
    assert_eq!((known.code, known.err.as_str()), (0, ""), "{known:?}");
    assert!(known.out.contains("upgrades:      pump.v1.0.5 -> pump.v1.2.0\n"), "{}", known.out);
}

#[test]
fn a_named_bundle_is_shown_beside_what_would_be_chosen() {
    let answer = catalog("show", &["pumps", "pump", "pump.v1.1.0"]);
    let why = "why:           it was named; without that it is pump.v2.0.0, the highest version of 5 bundles";
    assert!(answer.lines().contains(&why), "{}", answer.out);
    let answer = catalog("show", &["pumps", "pump", "pump.v1.1.0", "--channel", "candidate"]);
    assert_answer(&answer, 1, "", &["bundle \"pump.v1.1.0\" is not in channel \"candidate\"; it is in stable"]);
}

/// The property of the command: it says what the manager does, for each request of a small world.
#[test]
fn show_says_what_the_crate_of_the_manager_chooses() {
    let package = &read::catalog(&fixture("pumps"), &Limits::default()).unwrap().packages["pump"];
    let channels = [None, Some("stable"), Some("candidate"), Some("none")];
    let ranges = [None, Some("1.0.0"), Some("<1.2.0"), Some(">=1.0.0"), Some(">3.0.0")];
    let (mut chosen, mut refused) = (0, 0);
    for (channel, range) in channels.iter().flat_map(|channel| ranges.iter().map(move |range| (*channel, *range))) {
        let flags = [channel.map(|name| format!("--channel={name}")), range.map(|range| format!("--version={range}"))];
        let flags: Vec<&str> = flags.iter().flatten().map(String::as_str).collect();
        let answer = catalog("show", &[&["pumps", "pump", "--output=json"], &flags[..]].concat());
        let request =
            Request { channel: channel.map(str::to_owned), range: range.map(|range| Range::parse(range).unwrap()) };
        let json = answer.json();
        match choose(package, &request) {
            Ok(choice) => {
                assert_eq!(json["bundle"], choice.bundle.name.as_str(), "{flags:?}");
                assert_eq!(json["channel"].as_str(), choice.channel, "{flags:?}");
                let refusal = check::check(choice.bundle).err().map(|refusal| refusal.to_string());
                assert_eq!(json["refusal"].as_str(), refusal.as_deref(), "{flags:?}");
                assert_eq!(answer.code, i32::from(refusal.is_some()), "{flags:?}");
                chosen += 1;
            }
            Err(error) => {
                assert_eq!(json["refusal"], error.to_string(), "{flags:?}");
                assert_eq!((answer.code, json.get("bundle")), (1, None), "{flags:?}");
                refused += 1;
            }
        }
    }
    assert!(chosen > 5 && refused > 5, "{chosen} chosen, {refused} refused");
}

#[test]
fn what_is_not_there_is_a_no() {
    for verb in ["list", "show", "graph"] {
        let answer = catalog(verb, &["pumps", "faucet"]);
        assert_answer(&answer, 1, "", &["failed to find candidate olm.bundles from the faucet package"]);
    }
    let answer = catalog("graph", &["pumps", "pump", "--channel=x"]);
    assert_answer(&answer, 1, "", &["has no channel \"x\"; there are candidate, stable"]);
    let answer = catalog("show", &["pumps", "pump", "blue"]);
    assert_answer(&answer, 1, "", &["package \"pump\" has no bundle \"blue\", and it is no version"]);
    let json = catalog("show", &["pumps", "pump", "9.9.9", "-ojson"]);
    assert_eq!((json.code, &json.json()["installable"]), (1, &Value::from(false)));
}

#[test]
fn findings_are_told_a_line_each() {
    assert_answer(&catalog("validate", &["pumps"]), 0, "", &["pumps: 13 documents: valid\n"]);
    let broken = catalog("validate", &["broken"]);
    assert_eq!(broken.code, 1);
    assert!(
        broken.err.contains(&format!("broken: 3 documents: {} findings\n", broken.lines().len())),
        "{}",
        broken.err
    );
    for text in [
        "no olm.bundle blobs found in package \"pump\" for olm.channel entries [pump.v1.1.0]",
        "invalid package \"pump\": invalid channel \"stable\": multiple channel heads found in graph: pump.v1.0.0, pump.v1.1.0",
    ] {
        assert!(broken.lines().contains(&text), "{text} is not in:\n{}", broken.out);
    }
    let json = catalog("validate", &["broken", "--output=json"]);
    let report = json.json();
    assert_eq!((json.code, &report["passed"]), (1, &json!(false)));
    let messages: Vec<&str> =
        report["findings"].as_array().unwrap().iter().map(|finding| finding["message"].as_str().unwrap()).collect();
    assert_eq!(messages, broken.lines());
    assert_eq!(report["findings"][0]["package"], "pump");
    assert_eq!(catalog("validate", &["pumps", "-ojson"]).json(), json!({"passed": true, "findings": []}));
}

#[test]
fn a_document_that_is_none_is_a_finding_with_its_place() {
    let folder = Folder::of(&[
        ("a/catalog.yaml", "schema: olm.package\nname: a\n---\nname: [\n"),
        ("b/README.md", "# b\n\nWhat is: in it\n"),
    ]);
    let answer = run(["catalog", "validate", &folder.join("a")]);
    assert_eq!((answer.code, answer.lines().len()), (1, 1), "{answer:?}");
    assert!(answer.out.contains("catalog.yaml"), "{}", answer.out);
    let stray = run(["catalog", "validate", &folder.join("b"), "-ojson"]).json();
    assert!(stray["findings"][0]["message"].as_str().unwrap().contains("list it in .indexignore"), "{stray}");
    let list = run(["catalog", "list", &folder.join("a")]);
    assert_eq!((list.code, list.out.as_str()), (2, ""), "{list:?}");
}

#[test]
fn graphs_are_those_of_the_catalog() {
    let package = &read::catalog(&fixture("pumps"), &Limits::default()).unwrap().packages["pump"];
    let all = catalog("graph", &["pumps", "pump"]);
    assert_answer(&all, 0, &rukpak_catalog::graph::mermaid(package), &["2 channels of package \"pump\""]);
    let one = catalog("graph", &["pumps", "pump", "--channel", "stable"]);
    assert!(one.out.starts_with("flowchart LR\n") && one.out.contains("stable (default)"), "{}", one.out);
    assert!(one.out.contains("-.->|skips|") && !one.out.contains("candidate"), "{}", one.out);
}

#[test]
fn a_file_is_a_catalog_too_and_what_exists_wins() {
    let whole = fixture("pumps/pump.yaml");
    let answer = run(["catalog", "list", whole.to_str().unwrap()]);
    assert_eq!((answer.code, answer.lines().len()), (0, 2), "{answer:?}");
    let folder = Folder::of(&[("image:a/b:v1/catalog.yaml", "schema: olm.package\nname: here\n")]);
    let output = command(["catalog", "list", "image:a/b:v1"]).current_dir(folder.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("here"), "{output:?}");
    let dir = run(["catalog", "validate", &format!("dir:{}", fixture("pumps").display())]);
    assert_eq!(dir.code, 0, "{dir:?}");
}

#[test]
fn what_cannot_be_found_out_is_said() {
    let nothing = "there is no file or folder of this name";
    let table = [
        ("quay.example.com/a/b:v1", nothing),
        ("./none", nothing),
        ("dir:/nonexistent/x", "cannot look at /nonexistent/x"),
        ("image:UPPER CASE", "write image:REGISTRY/NAME:TAG"),
        ("https://user:secret@localhost/x", "a login in the URL would be shown wherever the URL is"),
        ("http://registry.example.com/x", "without TLS"),
        ("grpc:", "write grpc:HOST:PORT"),
        ("grpc:localhost", "is not an address: write host:port"),
        ("grpc:127.0.0.1:1", "cannot connect to 127.0.0.1:1"),
    ];
    for (place, text) in table {
        let answer = run(["catalog", "list", place]);
        assert_answer(&answer, 2, "", &[text]);
        assert!(!answer.err.contains("secret"), "{}", answer.err);
    }
    for place in ["grpc:127.0.0.1:1", "https://127.0.0.1:1/catalogs/x"] {
        assert_answer(&run(["catalog", "validate", place]), 2, "", &["does not give its documents away"]);
    }
    let bad = catalog("show", &["pumps", "pump", "--version=one"]);
    assert_answer(&bad, 2, "", &["is not a range of versions"]);
    let both = catalog("show", &["pumps", "pump", "1.0.0", "--version=1.0.0"]);
    assert_answer(&both, 2, "", &["cannot be used with"]);
    let ca = catalog("list", &["pumps", "--ca-file=/nonexistent"]);
    assert_answer(&ca, 2, "", &["read /nonexistent"]);
}

#[test]
fn a_hostile_catalog_cannot_command_the_terminal() {
    let document = r#"{"schema":"olm.package","name":"a","defaultChannel":"\u001b[2J\nb"}"#;
    let deprecation = r#"{"schema":"olm.bundle","package":"a","name":"x\u001b]0;y\u0007","image":"i"}"#;
    let folder = Folder::of(&[("catalog.json", &format!("{document}{deprecation}"))]);
    for arguments in [&["list"][..], &["list", "a"], &["show", "a"], &["graph", "a"], &["validate"]] {
        let (verb, rest) = arguments.split_first().unwrap();
        let path = folder.join("");
        let answer = run([&["catalog", verb, &path], rest].concat());
        let all = format!("{}{}", answer.out, answer.err);
        assert!(!all.contains(['\u{1b}', '\u{7}']), "{arguments:?}: {all:?}");
    }
}
