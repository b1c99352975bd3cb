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
    text(&mut out, Palette::of(&tempfile::tempfile().unwrap()), &lines, &Summary::of(operators).message).unwrap();
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

fn deployment(name: &str, suspend: bool, observed: i64, ready: &str) -> BundleDeployment {
    let condition = json!({"type": "Ready", "status": ready, "reason": "Unhealthy", "message": "Deployment\npump", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    serde_json::from_value(json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": name, "generation": 2},
        "spec": {"provisionerClassName": "p", "suspend": suspend, "template": {"spec": {"provisionerClassName": "p",
                 "source": {"type": "image", "image": {"ref": "a:v1"}}}}},
        "status": {"observedGeneration": observed, "activeBundle": format!("{name}-1"), "conditions": [condition]},
    }))
    .unwrap()
}

#[test]
fn deployments_and_operators_have_a_table_each() {
    let deployments = [deployment("pump", false, 2, "True"), deployment("valve", true, 1, "True")];
    let operators = [operator("pump", Some("1.0.0"), &[("Installed", "True", "InstallSuccessful", "m")])];
    let status = |operators| Status {
        bundle_deployments: deployments.iter().map(deployment_line).collect(),
        platform_operators: operators,
        successful: false,
        message: Some("m".to_owned()),
    };
    let shown = |status: &Status<'_>, is_wide| {
        let mut out = Vec::new();
        status.text(&mut out, Palette::of(&tempfile::tempfile().unwrap()), is_wide).unwrap();
        String::from_utf8(out).unwrap()
    };
    let wanted = "\
BUNDLEDEPLOYMENT   READY     SUSPENDED   REASON      MESSAGE
pump               True      no          Unhealthy   Deployment pump
valve              Unknown   yes         Unhealthy   Deployment pump

NAME   PACKAGE        VERSION   INSTALLED   REASON              MESSAGE
pump   pump-package   1.0.0     True        InstallSuccessful   m
m
";
    assert_eq!(shown(&status(operators.iter().map(line).collect()), false), wanted);
    let alone = Status { message: None, ..status(Vec::new()) };
    let wide = shown(&alone, true);
    assert!(
        wide.starts_with("BUNDLEDEPLOYMENT   READY     SUSPENDED   REASON      ACTIVE BUNDLE   SOURCE   MESSAGE\n"),
        "{wide}"
    );
    assert_eq!(wide.lines().count(), 3, "{wide}");
    let mut out = Vec::new();
    status(operators.iter().map(line).collect()).names(&mut out).unwrap();
    let names = "bundledeployment.core.rukpak.io/pump\nbundledeployment.core.rukpak.io/valve\nplatformoperator.platform.openshift.io/pump\n";
    assert_eq!(String::from_utf8(out).unwrap(), names);
    let json = serde_json::to_value(&alone).unwrap();
    let line = json!({"name": "pump", "activeBundle": "pump-1", "ready": "True", "reason": "Unhealthy", "message": "Deployment\npump",
                      "source": "a:v1", "isSuspended": false});
    assert_eq!((&json["bundleDeployments"][0], json.get("message")), (&line, None));
}
