//! `rukpakctl catalog validate`.

use serde_json::json;

use super::{assert_answer, catalog};
use crate::support::{Folder, run};

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
fn documents_of_one_name_and_templates_are_found() {
    let package = "schema: olm.package\nname: a\n";
    let folder = Folder::of(&[
        ("twice/a.yaml", &format!("{package}---\nschema: olm.semver\n")),
        ("twice/b/c.yaml", package),
        ("template/semver.yaml", "schema: olm.semver\n"),
        ("template/x/basic.yaml", "---\nschema: olm.template.basic\n"),
    ]);
    let twice = run(["catalog", "validate", &folder.join("twice")]);
    let line = "duplicate package \"a\": a.yaml, document 1 (line 1); b/c.yaml, document 1 (line 1)";
    assert!(twice.code == 1 && twice.lines().contains(&line), "{twice:?}");
    let template = run(["catalog", "validate", &folder.join("template")]);
    let lines = [
        "olm.semver is a template and no catalog: render it first: semver.yaml, document 1 (line 1)",
        "olm.template.basic is a template and no catalog: render it first: x/basic.yaml, document 1 (line 2)",
    ];
    assert_eq!((template.code, template.lines()), (1, lines.to_vec()), "{template:?}");
    let json = run(["catalog", "validate", &folder.join("template"), "-ojson"]).json();
    assert_eq!(json["findings"][1]["places"], json!([{"file": "x/basic.yaml", "document": 1, "line": 2}]));
    assert_eq!(json["findings"][1]["message"], "olm.template.basic is a template and no catalog: render it first");
}

#[test]
fn what_holds_no_package_is_not_valid() {
    let folder = Folder::of(&[
        ("empty/sub/.indexignore", ""),
        ("ignored/.indexignore", "*"),
        ("ignored/a.yaml", "schema: olm.package\nname: a\n"),
        ("ignored/b/c.yaml", ""),
        ("other/a.yaml", "schema: custom\n"),
        ("other/b.yaml", ""),
    ]);
    let looked = "Looked for documents of the schemas olm.package, olm.channel and olm.bundle";
    for (name, why) in [
        ("empty", "there is no file in it"),
        ("ignored", ".indexignore leaves out everything that is in it"),
        ("other", "no package is in its 2 files with 1 document"),
        ("other/b.yaml", "no package is in its 1 file with 0 documents"),
    ] {
        let place = folder.join(name);
        for more in [&[][..], &["-ojson"]] {
            let answer = run([&["catalog", "validate", &place], more].concat());
            assert_answer(&answer, 2, "", &[&format!("error: {place}: {why}: nothing was validated. {looked}")]);
        }
    }
    let ignored = run(["catalog", "validate", &folder.join("ignored")]);
    assert!(
        ignored.err.starts_with("note: .indexignore leaves out 2 files and folders: a.yaml; b/\n"),
        "{}",
        ignored.err
    );
}

#[test]
fn what_is_left_out_is_said() {
    let mut files = vec![("a.yaml".to_owned(), "schema: olm.package\nname: a\ndefaultChannel: c\n".to_owned())];
    files.push((".indexignore".to_owned(), "*.md\n".to_owned()));
    files.extend((0..22).map(|number| (format!("{number:02}.md"), String::new())));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let folder = Folder::of(&files);
    let answer = run(["catalog", "validate", &folder.join("")]);
    let (first, last) = ("note: .indexignore leaves out 22 files and folders: 00.md; 01.md", "19.md and 2 more\n");
    assert!(answer.code == 1 && answer.err.contains(first) && answer.err.contains(last), "{answer:?}");
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
