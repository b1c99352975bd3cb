//! Policies that warn: their CEL, evaluated without an API server. A real one judges them in the suite `admission::warning_policy`.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::build::{documents, folder};

/// The only rule of a policy that warns and refuses nothing, and its variables, in order.
fn rule(file: &str) -> (Value, Vec<(String, String)>) {
    let [policy, binding] = documents(&folder().join(file)).try_into().unwrap();
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    assert_eq!(binding["spec"]["validationActions"], json!(["Warn"]));
    let [rule] = policy["spec"]["validations"].as_array().unwrap().as_slice() else { panic!("one rule: {policy}") };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let variables = policy["spec"]["variables"].as_array().into_iter().flatten();
    (rule.clone(), variables.map(|variable| (text(&variable["name"]), text(&variable["expression"]))).collect())
}

/// Whether an object is warned of.
fn is_warned_of((rule, variables): &(Value, Vec<(String, String)>), object: &Value) -> bool {
    let mut context = cel::Context::default();
    context.add_variable("object", object).unwrap();
    let value = |expression: &String| cel::Program::compile(expression).unwrap().execute(&context).unwrap();
    let made: HashMap<String, cel::Value> =
        variables.iter().map(|(name, expression)| (name.clone(), value(expression))).collect();
    context.add_variable_from_value("variables", made);
    let program = cel::Program::compile(rule["expression"].as_str().unwrap()).unwrap();
    program.execute(&context).unwrap() == cel::Value::Bool(false)
}

#[test]
fn only_a_service_account_is_warned_of() {
    let rule = rule("olm-service-account-warning.yaml");
    for (spec, expected) in [
        (json!({}), false),
        (json!({"serviceAccount": {}}), false),
        (json!({"serviceAccount": {"name": ""}}), false),
        (json!({"serviceAccount": {"name": "installer"}}), true),
    ] {
        assert_eq!(is_warned_of(&rule, &json!({"spec": spec})), expected, "{spec}");
    }
    let text = rule.0["message"].as_str().unwrap();
    assert!(
        text.starts_with("spec.serviceAccount is deprecated, ignored, and will be removed in a future release. The ")
    );
}

#[test]
fn classes_that_nobody_serves_are_warned_of_and_those_of_others_are_not() {
    let rule = rule("class-warning.yaml");
    let bundle = |class: &str| json!({"spec": {"provisionerClassName": class}});
    for (class, expected) in [
        ("core-rukpak-io-plain", false),
        ("core-rukpak-io-registry", false),
        ("core-rukpak-io-helm", false),
        ("core-rukpak-io-cue", true),
        ("core-rukpak-io-plan", true),
        ("provisioner-example-com", false),
    ] {
        assert_eq!(is_warned_of(&rule, &bundle(class)), expected, "{class}");
        let deployment = json!({"spec": {"provisionerClassName": "core-rukpak-io-plain", "template": bundle(class)}});
        assert_eq!(is_warned_of(&rule, &deployment), expected, "a template of {class}");
    }
}
