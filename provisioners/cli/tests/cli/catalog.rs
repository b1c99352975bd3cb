//! `rukpakctl catalog` over folders and files. The fixture `pumps` is the one of the documentation.

mod hostile;

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
PACKAGE   VERSION   CHANNEL     DEFAULT CHANNEL   HEAD    BUNDLES   DEPRECATED
pump      2.0.0     candidate   stable            1.2.0   5         -
valve     3.1.0     stable      stable            3.1.0   1         package
";
    assert_answer(&catalog("list", &["pumps"]), 0, table, &["pumps: 2 packages\n"]);
    let wanted = json!({"packages": [
        {"name": "pump", "bundle": "pump.v2.0.0", "version": "2.0.0", "channel": "candidate", "defaultChannel": "stable",
         "head": "pump.v1.2.0", "headVersion": "1.2.0", "channels": 2, "bundles": 5},
        {"name": "valve", "bundle": "valve.v3.1.0", "version": "3.1.0", "channel": "stable", "defaultChannel": "stable",
         "head": "valve.v3.1.0", "headVersion": "3.1.0", "channels": 1, "bundles": 1,
         "deprecation": "Use faucet.", "deprecations": ["package \"valve\" is deprecated: Use faucet."]},
    ]});
    assert_eq!(catalog("list", &["pumps", "--output=json"]).json(), wanted);
}

/// A package with three bundles, the second of which is the head of the default channel; all kinds of deprecation.
fn deprecated() -> Folder {
    let bundle = |version: &str| {
        json!({"schema": "olm.bundle", "package": "p", "name": format!("p.v{version}"), "image": "quay.example.com/p:v1",
               "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": version}}]})
    };
    let deprecated =
        |schema: &str, name: &str| json!({"reference": {"schema": schema, "name": name}, "message": "old"});
    let documents = [
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "a"}),
        json!({"schema": "olm.channel", "package": "p", "name": "a", "entries": [
            {"name": "p.v9.0.0"}, {"name": "p.v10.0.0-rc.1", "replaces": "p.v9.0.0"}]}),
        json!({"schema": "olm.channel", "package": "p", "name": "b", "entries": [
            {"name": "p.v9.0.0"}, {"name": "p.v10.0.0", "replaces": "p.v9.0.0"}]}),
        bundle("9.0.0"),
        bundle("10.0.0-rc.1"),
        bundle("10.0.0"),
        json!({"schema": "olm.deprecations", "package": "p", "entries": [
            deprecated("olm.channel", "b"), deprecated("olm.bundle", "p.v9.0.0")]}),
    ];
    let documents: Vec<String> = documents.iter().map(Value::to_string).collect();
    Folder::of(&[("catalog.json", &documents.join("\n"))])
}

#[test]
fn what_is_deprecated_is_marked_where_it_counts() {
    let folder = deprecated();
    let path = folder.join("");
    let packages = "\
PACKAGE   VERSION   CHANNEL   DEFAULT CHANNEL   HEAD          BUNDLES   DEPRECATED
p         10.0.0    b         a                 10.0.0-rc.1   3         channel
";
    assert_answer(&run(["catalog", "list", &path]), 0, packages, &[]);
    let bundles = "\
CHANNEL   BUNDLE           VERSION       NOTES   DEPRECATED
a         p.v9.0.0         9.0.0         -       bundle
a         p.v10.0.0-rc.1   10.0.0-rc.1   head    -
b         p.v9.0.0         9.0.0         -       channel, bundle
b         p.v10.0.0        10.0.0        head    channel
";
    assert_answer(&run(["catalog", "list", &path, "p"]), 0, bundles, &[]);
    let json = run(["catalog", "list", &path, "p", "-ojson"]).json();
    assert_eq!((&json["channels"][0].get("deprecation"), &json["channels"][1]["deprecation"]), (&None, &json!("old")));
    assert_eq!(json["channels"][0]["bundles"][0]["deprecation"], "old");
}

/// The property of the column: it is what `show` chooses, which is what the manager does.
#[test]
fn the_version_of_a_package_is_the_one_that_would_be_installed() {
    let folder = deprecated();
    for (place, package) in [(fixture("pumps"), "pump"), (fixture("pumps"), "valve"), (folder.path().into(), "p")] {
        let found = read::catalog(&place, &Limits::default()).unwrap();
        let place = place.to_str().unwrap();
        let all = run(["catalog", "list", place, "-ojson"]).json();
        let line = all["packages"].as_array().unwrap().iter().find(|line| line["name"] == package).unwrap();
        let choice = choose(&found.packages[package], &Request::default()).unwrap();
        let shown = run(["catalog", "show", place, package, "-ojson"]).json();
        for key in ["bundle", "version", "channel"] {
            assert_eq!(line[key], shown[key], "{package}: {key}");
        }
        assert_eq!(line["bundle"], choice.bundle.name.as_str());
    }
}

#[test]
fn bundles_are_listed_by_channel_and_version() {
    let table = "\
CHANNEL     BUNDLE        VERSION   NOTES     DEPRECATED
candidate   pump.v1.2.0   1.2.0     -         -
candidate   pump.v2.0.0   2.0.0     head      -
stable      pump.v1.0.0   1.0.0     -         bundle
stable      pump.v1.1.0   1.1.0     -         -
stable      pump.v1.1.1   1.1.1     skipped   -
stable      pump.v1.2.0   1.2.0     head      -
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
fn a_broken_graph_is_warned_of_in_the_words_of_opm() {
    let answer = catalog("list", &["broken", "pump"]);
    let table = "\
CHANNEL   BUNDLE        VERSION   NOTES                DEPRECATED
stable    pump.v1.0.0   v1        -                    -
stable    pump.v1.1.0   -         not in the catalog   -
";
    assert_answer(&answer, 0, table, &["is no version"]);
    let packages = catalog("list", &["broken"]);
    assert!(
        packages.out.contains("pump      v1        stable    stable            -      1         -"),
        "{}",
        packages.out
    );
    let faults = [
        "invalid package \"pump\": invalid channel \"stable\": multiple channel heads found in graph: pump.v1.0.0, pump.v1.1.0",
        "no olm.bundle blobs found in package \"pump\" for olm.channel entries [pump.v1.1.0]",
    ];
    for verb in ["list", "show"] {
        let answer = catalog(verb, &["broken", "pump"]);
        for fault in faults {
            assert!(answer.err.contains(&format!("warning: {fault}\n")), "{verb}: {fault}: {}", answer.err);
        }
    }
    // What would be chosen is told all the same, and is a yes.
    assert_eq!(catalog("show", &["broken", "pump"]).code, 0);
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
architectures: amd64, arm64
systems:       linux
features:      disconnected
upgrades:      stable (default): pump.v1.0.0 -> pump.v1.1.0 -> pump.v1.2.0
";
    let shown = catalog("show", &["pumps", "pump", "--channel=stable", "--from=pump.v1.0.0"]);
    assert_eq!(shown.out, facts);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""));
    let facts = catalog("show", &["pumps", "pump", "--channel=stable", "-ojson"]).json()["facts"].clone();
    let told = json!({"architectures": facts["architectures"], "operatingSystems": facts["operatingSystems"],
        "features": facts["features"]});
    let known =
        json!({"architectures": ["amd64", "arm64"], "operatingSystems": ["linux"], "features": ["disconnected"]});
    assert_eq!(told, known);
    let deprecated = catalog("show", &["pumps", "pump", "1.0.0"]);
    let line = "deprecated:    bundle \"pump.v1.0.0\" is deprecated: It leaks. Use 1.1.0 or newer.";
    assert!(deprecated.lines().contains(&line), "{}", deprecated.out);
    let package = catalog("show", &["pumps", "valve"]);
    assert!(package.out.contains("package \"valve\" is deprecated: Use faucet."), "{}", package.out);
    assert!(package.out.contains("install modes: the catalog does not say"), "{}", package.out);
}

#[test]
fn the_newest_openshift_that_a_bundle_is_for_is_shown() {
    let documents = [
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "a"}),
        json!({"schema": "olm.channel", "package": "p", "name": "a", "entries": [{"name": "p.v1.0.0"}]}),
        json!({"schema": "olm.bundle", "package": "p", "name": "p.v1.0.0", "image": "quay.example.com/p:v1", "properties": [
            {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
            {"type": "olm.maxOpenShiftVersion", "value": "4.18"}]}),
    ];
    let documents: Vec<String> = documents.iter().map(Value::to_string).collect();
    let folder = Folder::of(&[("catalog.json", &documents.join("\n"))]);
    let shown = run(["catalog", "show", &folder.join(""), "p"]);
    assert!(shown.lines().contains(&"needs:         OpenShift 4.18 or older"), "{}", shown.out);
}

#[test]
fn what_the_manager_refuses_is_shown_and_is_a_no() {
    let answer = catalog("show", &["pumps", "pump"]);
    assert_eq!((answer.code, answer.err.as_str()), (1, ""));
    assert!(answer.out.contains("why:           the highest version of 5 bundles\n"), "{}", answer.out);
    let refusal = "bundle \"pump.v2.0.0\" has a dependency declared via property \"olm.package.required\" which is currently not supported: valve >=3.0.0;";
    assert!(answer.out.contains(&format!("installable:   no: {refusal}")), "{}", answer.out);
    let dependency =
        "dependencies:  valve.v3.1.0 (package valve, channel stable): required by pump.v2.0.0 (with package: valve";
    assert!(answer.out.contains(dependency), "{}", answer.out);
    let from = catalog("show", &["pumps", "pump", "1.2.0", "--from", "pump.v1.2.0", "--channel", "candidate"]);
    let none = "upgrades:      candidate: none from pump.v1.2.0\n";
    assert!(from.out.contains(none), "2.0.0 is not in the range: {}", from.out);
    let from = catalog("show", &["pumps", "pump", "--from", "pump.v1.0.0", "--channel", "candidate", "-ojson"]).json();
    assert_eq!(from["upgrades"]["channels"].as_array().unwrap().len(), 1, "the one that was asked for: {from}");
    let steps = &from["upgrades"]["channels"][0]["steps"];
    assert_eq!(steps[0], json!({"bundle": "pump.v1.2.0", "version": "1.2.0"}), "by skipRange");
    assert!(steps[1]["refusal"].as_str().unwrap().starts_with(refusal), "{from}");
    assert_eq!((&from["installable"], steps.as_array().unwrap().len()), (&json!(false), 2));
    let ignored =
        catalog("show", &["pumps", "pump", "--from=pump.v1.2.0", "--channel=candidate", "--ignore-dependencies"]);
    assert_eq!(ignored.code, 0, "{}", ignored.out);
    assert!(ignored.out.contains("upgrades:      candidate: pump.v1.2.0 -> pump.v2.0.0\n"), "{}", ignored.out);
}

/// The lines of `upgrades`, without the long reason of a refusal.
fn upgrades(answer: &Answer) -> Vec<String> {
    let lines = answer.lines().into_iter().skip_while(|line| !line.starts_with("upgrades:"));
    let line = |line: &str| {
        line.trim_start_matches("upgrades:").trim().split(": bundle ").next().expect("a beginning").to_owned()
    };
    lines.map(line).collect()
}

#[test]
fn upgrades_are_told_channel_by_channel() {
    let show = |arguments: &[&str]| catalog("show", &[&["pumps", "pump"], arguments].concat());
    let from = show(&["--from=pump.v1.2.0"]);
    let wanted = ["stable (default): none from pump.v1.2.0", "candidate: it stops at pump.v1.2.0, before pump.v2.0.0"];
    assert_eq!(upgrades(&from), wanted, "the one that is followed comes first");
    assert_eq!(from.err, "");
    assert_eq!(upgrades(&show(&["--from=1.2.0"])), wanted, "by its version");
    let json = show(&["--from=1.0.0", "-ojson"]).json();
    let upgrades_of = &json["upgrades"];
    assert_eq!((&upgrades_of["from"], &upgrades_of["fromVersion"]), (&json!("pump.v1.0.0"), &json!("1.0.0")));
    let ways: Vec<_> = upgrades_of["channels"].as_array().unwrap().iter().collect();
    let of = |way: &Value| (way["channel"].clone(), way["followed"].clone(), way["steps"].as_array().unwrap().len());
    assert_eq!(of(ways[0]), (json!("stable"), json!(true), 2));
    assert_eq!(of(ways[1]), (json!("candidate"), json!(false), 2), "by skipRange");
    assert_eq!(ways.len(), 2);
    // Each way is the one that is followed with that channel.
    for way in ways {
        let channel = format!("--channel={}", way["channel"].as_str().unwrap());
        let alone = show(&["--from=1.0.0", "-ojson", &channel]).json();
        assert_eq!(alone["upgrades"]["channels"][0]["steps"], way["steps"], "{channel}");
    }
    // 2.0.0 is in one channel, which is not the default one: that is the one it was installed from.
    assert_eq!(upgrades(&show(&["--from=2.0.0"])), ["candidate: none from pump.v2.0.0"]);
    // The version is gone; the default channel is followed, and another one would lead on.
    let gone = show(&["--from=1.0.5", "--ignore-dependencies"]);
    let wanted = ["stable (default): none from 1.0.5", "candidate: 1.0.5 -> pump.v1.2.0 -> pump.v2.0.0"];
    assert_eq!(upgrades(&gone), wanted);
    assert!(gone.err.contains("note: the catalog has no bundle of version 1.0.5"), "{}", gone.err);
}

#[test]
fn a_version_of_several_bundles_does_not_say_what_is_installed() {
    let bundle = |name: &str| {
        json!({"schema": "olm.bundle", "package": "p", "name": name, "image": "quay.example.com/p:v1",
               "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}}]})
    };
    let folder = Folder::of(&[("catalog.json", &format!("{}{}", bundle("p.one"), bundle("p.two")))]);
    let answer = run(["catalog", "show", &folder.join(""), "p", "--from=1.0.0"]);
    assert_answer(&answer, 1, "", &["several bundles of package \"p\" have this version", "p.one, p.two"]);
    let answer = run(["catalog", "show", &folder.join(""), "p", "--from=p.one"]);
    assert!(upgrades(&answer)[0].starts_with("none from p.one: no channel holds it"), "{answer:?}");
}

#[test]
fn a_bundle_that_is_gone_is_upgraded_by_its_version() {
    let arguments = ["pumps", "pump", "--channel=candidate", "--version=<2.0.0", "--from=pump.v1.0.5"];
    let unknown = catalog("show", &arguments);
    assert!(
        unknown.err.contains("--from-version") && unknown.out.contains("candidate: none from pump.v1.0.5"),
        "{unknown:?}"
    );
    let known = catalog("show", &[&arguments[..], &["--from-version=1.0.5"]].concat());
    assert_eq!((known.code, known.err.as_str()), (0, ""), "{known:?}");
    assert!(known.out.contains("upgrades:      candidate: pump.v1.0.5 -> pump.v1.2.0\n"), "{}", known.out);
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
    for verb in ["list", "show"] {
        let answer = catalog(verb, &["pumps", "faucet"]);
        assert_answer(&answer, 1, "", &["olm.bundles from the faucet package: the catalog has pump, valve"]);
    }
    let answer = catalog("show", &["pumps", "pump", "blue"]);
    assert_answer(&answer, 1, "", &["package \"pump\" has no bundle \"blue\", and it is no version"]);
    let json = catalog("show", &["pumps", "pump", "9.9.9", "-ojson"]);
    assert_eq!((json.code, &json.json()["installable"]), (1, &Value::from(false)));
}

#[test]
fn a_file_is_a_catalog_too_and_what_exists_wins() {
    let whole = fixture("pumps/pump.yaml");
    let answer = run(["catalog", "list", whole.to_str().unwrap()]);
    assert_eq!((answer.code, answer.lines().len()), (0, 2), "{answer:?}");
    let folder = Folder::of(&[("image:a/b:v1/catalog.yaml", "schema: olm.package\nname: here\n")]);
    let output = command(["catalog", "list", "image:a/b:v1"]).current_dir(folder.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("here"), "{output:?}");
    let dir = run(["catalog", "list", &format!("dir:{}", fixture("pumps").display())]);
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
    let https = run(["catalog", "list", "https://127.0.0.1:1/catalogs/x"]);
    assert_answer(&https, 2, "", &["https://127.0.0.1:1/catalogs/x", "the catalog cannot be fetched"]);
    let bad = catalog("show", &["pumps", "pump", "--version=one"]);
    assert_answer(&bad, 2, "", &["is not a range of versions"]);
    let both = catalog("show", &["pumps", "pump", "1.0.0", "--version=1.0.0"]);
    assert_answer(&both, 2, "", &["cannot be used with"]);
    let ca = catalog("list", &["pumps", "--ca-file=/nonexistent"]);
    assert_answer(&ca, 2, "", &["read /nonexistent"]);
}
