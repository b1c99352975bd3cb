use serde_json::json;

use super::*;

fn key(kind: &str, name: &str) -> ObjectKey {
    ObjectKey {
        group: String::new(),
        kind: kind.to_owned(),
        namespace: Some("pumps".to_owned()),
        name: name.to_owned(),
    }
}

fn field(path: &str, before: Option<Value>, after: Option<Value>) -> FieldChange {
    FieldChange { path: path.to_owned(), before, after }
}

fn report() -> Report {
    let mut report = Report::new("pump", "bundle", false);
    let fields = vec![
        field(".data.flow", Some(json!("1")), Some(json!("2"))),
        field(".data.script", Some(json!("a\nb\nc\n")), Some(json!("a\nx\nc\n"))),
        field(".data.size", None, Some(json!("x".repeat(200)))),
    ];
    let change =
        Change::of_key(&key("ConfigMap", "a"), Action::Change).declared("manifests/a.yaml, document 1 (line 1)");
    report.changes.push(Change { fields, ..change });
    report.changes.push(Change::of_key(&key("Secret", "b"), Action::Create));
    report.changes.push(Change::of_key(&key("Namespace", "c"), Action::Orphan).because("it is not empty".to_owned()));
    report.unchanged = 4;
    report
}

fn text(report: &Report, palette: Palette, is_wide: bool) -> String {
    let mut out = Vec::new();
    report.text(&mut out, palette, is_wide).unwrap();
    String::from_utf8(out).unwrap()
}

fn pipe() -> Palette {
    Palette::of(&tempfile::tempfile().unwrap())
}

#[test]
fn a_pipe_gets_a_line_an_object_and_a_line_a_field() {
    let long = format!("\"{}…", "x".repeat(119));
    let wanted = format!(
        "change    ConfigMap pumps/a
  - .data.flow: \"1\"
  + .data.flow: \"2\"
  ~ .data.script:
    - b
    + x
  + .data.size: {long}
create    Secret pumps/b
orphan    Namespace pumps/c: it is not empty
1 to create, 1 to change, 1 to orphan, 4 unchanged
"
    );
    assert_eq!(text(&report(), pipe(), false), wanted);
    let wide = text(&report(), pipe(), true);
    assert!(wide.starts_with("change    ConfigMap pumps/a   manifests/a.yaml, document 1 (line 1)\n"), "{wide}");
    assert!(wide.contains(&format!("\"{}\"\n", "x".repeat(200))), "{wide}");
}

#[test]
fn a_terminal_gets_colours() {
    let shown = text(&report(), Palette::on(), false);
    assert!(shown.contains("\u{1b}[31m-\u{1b}[0m .data.flow: \"1\"\n"), "{shown:?}");
    assert!(shown.contains("\u{1b}[32mcreate\u{1b}[0m    Secret pumps/b\n"), "{shown:?}");
}

#[test]
fn a_refusal_and_what_is_unknown_are_counted() {
    let mut report = Report::new("pump", "bundle", false);
    assert_eq!(report.summary(), "0 unchanged");
    report.changes.push(Change::of_key(&key("Secret", "b"), Action::Refuse).because("it exists".to_owned()));
    report.unknown.push("Secret \"c\": forbidden".to_owned());
    report.is_refused = true;
    let wanted = "refuse    Secret pumps/b: it exists\n?         Secret \"c\": forbidden\n\
                  1 to refuse, 1 unknown, 0 unchanged; the upgrade would fail and change nothing\n";
    assert_eq!(text(&report, pipe(), false), wanted);
    assert_eq!(report.print(OutputForm::Name), Exit::Unknown);
}

#[test]
fn programs_get_one_object() {
    let shown = serde_json::to_value(report()).unwrap();
    assert_eq!(shown["changes"][0]["action"], "change");
    assert_eq!(shown["changes"][0]["fields"][0], json!({"path": ".data.flow", "before": "1", "after": "2"}));
    assert_eq!((&shown["isDrift"], &shown["unchanged"]), (&json!(false), &json!(4)));
    assert!(shown.get("unknown").is_none(), "{shown:#}");
}
