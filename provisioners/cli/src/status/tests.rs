use serde_json::{Value, json};

use super::*;

fn operator(name: &str, version: Option<&str>, conditions: &[(&str, &str, &str, &str)]) -> PlatformOperator {
    let condition = |(type_, status, reason, message): &(&str, &str, &str, &str)| {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let mut status = json!({ "conditions": conditions });
    if let Some(version) = version {
        status["source"] = json!({"catalog": "c", "package": name, "bundle": "b", "version": version, "image": "i"});
    }
    serde_json::from_value(json!({
        "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "metadata": {"name": name},
        "spec": {"package": {"name": format!("{name}-package")}}, "status": status,
    }))
    .unwrap()
}

fn shown(operators: &[PlatformOperator]) -> String {
    let lines: Vec<Line<'_>> = operators.iter().map(line).collect();
    let mut out = Vec::new();
    text(&mut out, &lines, &Summary::of(operators).message).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_operator_has_a_line_and_all_have_a_sentence() {
    let good = [
        ("Installed", "True", "InstallSuccessful", "Successfully applied the pump BundleDeployment resource"),
        ("UpgradeAvailable", "True", "ManualPolicy", "Version 1.1.0 can replace version 1.0.0"),
        ("Deprecated", "True", "Deprecated", "it leaks:\nbuy another"),
    ];
    let bad = [("Installed", "False", "SourceFailed", "no such package"), ("Deprecated", "False", "x", "no")];
    let all = [operator("pump", Some("1.0.0"), &good), operator("valve", None, &bad), operator("young", None, &[])];
    let wanted = "\
NAME    PACKAGE         VERSION   INSTALLED   REASON              MESSAGE
pump    pump-package    1.0.0     True        InstallSuccessful   Successfully applied the pump BundleDeployment resource
valve   valve-package   -         False       SourceFailed        no such package
young   young-package   -         Unknown     InstallPending      -
pump: upgrade available: Version 1.1.0 can replace version 1.0.0
pump: deprecated: it leaks: buy another
2 of 3 platform operators are failing
";
    assert_eq!(shown(&all), wanted);
    let last = shown(&all[..1]);
    assert!(last.ends_with("\nAll platform operators are in a successful state\n"), "{last}");
    assert_eq!(shown(&[]), "No platform operators are present in the cluster\n");
}

#[test]
fn programs_get_what_people_get() {
    let all = [operator("pump", Some("1.0.0"), &[("Installed", "True", "InstallSuccessful", "m")])];
    let line = serde_json::to_value(line(&all[0])).unwrap();
    let wanted = json!({"name": "pump", "package": "pump-package", "version": "1.0.0", "installed": "True",
                        "reason": "InstallSuccessful", "message": "m"});
    assert_eq!(line, wanted);
}

#[test]
fn what_is_installed_and_not_in_order_is_told() {
    let text = "Successfully applied the pump BundleDeployment resource";
    let installed = ("Installed", "True", "InstallSuccessful", text);
    let all = [
        operator("calm", Some("1.0.0"), &[installed, ("Ready", "True", "Succeeded", text)]),
        operator(
            "edited",
            Some("1.0.0"),
            &[installed, ("Ready", "True", "Succeeded", "The BundleDeployment was edited")],
        ),
        operator(
            "slow",
            Some("1.0.0"),
            &[installed, ("Ready", "Unknown", "Progressing", "Waiting for it to be ready")],
        ),
        operator(
            "lost",
            Some("1.0.0"),
            &[installed, ("UpgradeAvailable", "Unknown", "NoSuchChannel", "there is no channel")],
        ),
    ];
    let shown = shown(&all);
    let notes: Vec<&str> = shown.lines().skip(5).collect();
    assert_eq!(
        notes,
        [
            "edited: ready: The BundleDeployment was edited",
            "slow: not ready: Waiting for it to be ready",
            "lost: upgrades unknown: there is no channel",
            "All platform operators are in a successful state",
        ]
    );
}
