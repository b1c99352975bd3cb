//! What a set asks of its objects, as checks of a BundleDeployment; and what that says of them, in upstream's words. Pure.

use std::collections::BTreeMap;

use kube::core::{Selector, SelectorExt as _};
use rukpak_crds::olm::cluster_object_set::{Assertion, AssertionType, EqualStatus, ProbeSelector, ProgressionProbe};
use rukpak_crds::{HealthCheck, HealthProbe, ObjectSelector};
use rukpak_plain::ObjectKey;
use rukpak_plan::retry::Class;
use serde_json::Value;

use super::{Fault, content};

/// So much can be asked of one object.
const ASSERTIONS: usize = 20;

/// The checks of a phase: of a BundleDeployment the first that names an object counts, so each object has one.
pub(super) fn checks(probes: &[ProgressionProbe], objects: &[Value]) -> Result<Vec<HealthCheck>, Fault> {
    let mut checks = Vec::new();
    for object in objects {
        let Some(key) = content::key(object) else { continue };
        let mut current = Vec::new();
        for probe in probes {
            if selects(&probe.selector, &key, object)? {
                current.extend(probe.assertions.iter().filter_map(asked));
            }
        }
        if current.len() > ASSERTIONS {
            return Err(Fault::blocked(format!("{key} is selected by more than {ASSERTIONS} assertions")));
        }
        if !current.is_empty() {
            let ObjectKey { group, kind, namespace, name } = key;
            let objects = ObjectSelector { group, kind, namespace, name: Some(name) };
            checks.push(HealthCheck { objects, current, failed: Vec::new() });
        }
    }
    Ok(checks)
}

fn selects(selector: &ProbeSelector, key: &ObjectKey, object: &Value) -> Result<bool, Fault> {
    if let Some(wanted) = &selector.group_kind {
        return Ok(wanted.group == key.group && wanted.kind == key.kind);
    }
    let Some(label) = selector.label.clone() else { return Ok(false) };
    let selector = Selector::try_from(label)
        .map_err(|error| Fault::retried(format!("revision validation error: {error}"), Class::Terminal))?;
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let labels: BTreeMap<String, String> =
        labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    Ok(selector.matches(&labels))
}

/// An assertion as a probe; `None` if it asserts nothing.
fn asked(assertion: &Assertion) -> Option<HealthProbe> {
    Some(match assertion.type_ {
        AssertionType::ConditionEqual => {
            let wanted = assertion.condition_equal.as_ref()?;
            let status = match wanted.status {
                EqualStatus::True => "True",
                EqualStatus::False => "False",
            };
            let (condition, values) = (Some(wanted.type_.clone()), vec![status.to_owned()]);
            HealthProbe { condition, values, ..HealthProbe::default() }
        }
        AssertionType::FieldsEqual => {
            let wanted = assertion.fields_equal.as_ref()?;
            let (field, other) = (Some(pointer(&wanted.field_a)), Some(pointer(&wanted.field_b)));
            HealthProbe { json_pointer: field, same_as: other, ..HealthProbe::default() }
        }
        AssertionType::FieldValue => {
            let wanted = assertion.field_value.as_ref()?;
            let (field, values) = (Some(pointer(&wanted.field_path)), vec![wanted.value.clone()]);
            HealthProbe { json_pointer: field, values, ..HealthProbe::default() }
        }
    })
}

/// A path as a JSON pointer. Fields of paths are letters and digits alone.
fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// What the BundleDeployment of a phase says of its objects, in upstream's words as far as upstream has some.
pub(super) fn told(message: &str, probes: &[ProgressionProbe]) -> String {
    let lines = message.lines().map(|line| line_told(line, probes).unwrap_or_else(|| line.to_owned()));
    lines.collect::<Vec<_>>().join("\n")
}

/// A [line](rukpak_plan::health::line) of that.
fn line_told(line: &str, probes: &[ProgressionProbe]) -> Option<String> {
    let (version, rest) = line.strip_prefix('(')?.split_once(", Kind=")?;
    let (kind, rest) = rest.split_once(")(")?;
    let (place, rest) = rest.split_once("): ")?;
    // The group of core kinds is empty.
    let version = version.strip_prefix('/').unwrap_or(version);
    let why = rest.strip_prefix("object ").and_then(|rest| rest.split_once(": ")).map_or(rest, |(_, why)| why);
    let assertions = || probes.iter().flat_map(|probe| &probe.assertions);
    let parts = why
        .split(", ")
        .map(|part| assertions().find_map(|assertion| unmet(part, assertion)).unwrap_or_else(|| part.to_owned()));
    let parts: Vec<String> = parts.collect();
    Some(format!("Object {kind}.{version} {place}: {}", parts.join(", ")))
}

/// What is said of an assertion that does not hold, if it is this one.
fn unmet(part: &str, assertion: &Assertion) -> Option<String> {
    let (path, wanted) = match (&assertion.field_value, &assertion.fields_equal) {
        (Some(field), _) => (&field.field_path, None),
        (None, Some(fields)) => (&fields.field_a, Some(&fields.field_b)),
        (None, None) => return None,
    };
    let found = part.strip_prefix(&format!("{} is ", pointer(path)))?;
    if found == "not there" {
        return Some(format!("missing key: \"{path}\""));
    }
    match wanted {
        None => {
            let value = &assertion.field_value.as_ref()?.value;
            Some(format!("value at key \"{path}\" != {value:?}; expected: {value:?} got: {found}"))
        }
        Some(other) => {
            let (ours, theirs) = found.split_once(&format!(": {} is ", pointer(other)))?;
            Some(format!("value at key \"{path}\" != value at key \"{other}\"; expected: {theirs} got: {ours}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn probes(all: &Value) -> Vec<ProgressionProbe> {
        serde_json::from_value(all.clone()).unwrap()
    }

    fn map(name: &str, label: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n", "labels": {"l": label}}})
    }

    fn field(path: &str, value: &str) -> Value {
        json!({"type": "FieldValue", "fieldValue": {"fieldPath": path, "value": value}})
    }

    #[test]
    fn each_object_has_all_that_is_asked_of_it() {
        let all = probes(&json!([
            {"selector": {"type": "GroupKind", "groupKind": {"group": "", "kind": "ConfigMap"}}, "assertions": [field("data.a", "x")]},
            {"selector": {"type": "Label", "label": {"matchLabels": {"l": "1"}}}, "assertions": [
                {"type": "FieldsEqual", "fieldsEqual": {"fieldA": "data.a", "fieldB": "data.b"}},
                {"type": "ConditionEqual", "conditionEqual": {"type": "Ready", "status": "False"}}]},
            {"selector": {"type": "GroupKind", "groupKind": {"group": "apps", "kind": "ConfigMap"}}, "assertions": [field("b", "x")]},
        ]));
        let checks = checks(&all, &[map("one", "1"), map("two", "2")]).unwrap();
        let expected = json!([
            {"kind": "ConfigMap", "namespace": "n", "name": "one", "current": [
                {"jsonPointer": "/data/a", "values": ["x"]},
                {"jsonPointer": "/data/a", "sameAs": "/data/b"},
                {"condition": "Ready", "values": ["False"]}]},
            {"kind": "ConfigMap", "namespace": "n", "name": "two", "current": [{"jsonPointer": "/data/a", "values": ["x"]}]},
        ]);
        assert_eq!(json!(checks), expected);
    }

    #[test]
    fn selectors_and_numbers_that_cannot_be_are_told() {
        let selector = json!({"type": "Label", "label": {"matchExpressions": [{"key": "l", "operator": "Like", "values": ["1"]}]}});
        let all = probes(&json!([{"selector": selector, "assertions": [field("data.a", "x")]}]));
        assert_eq!(checks(&all, &[map("one", "1")]).unwrap_err().retry, Some(Class::Terminal));
        let by_kind = json!({"type": "GroupKind", "groupKind": {"group": "", "kind": "ConfigMap"}});
        let many: Vec<Value> = (0..=ASSERTIONS).map(|number| field("data.a", &number.to_string())).collect();
        let all = probes(&json!([{"selector": by_kind, "assertions": many}]));
        assert_eq!(checks(&all, &[map("one", "1")]).unwrap_err().retry, None);
    }

    #[test]
    fn what_does_not_hold_is_told_in_upstreams_words() {
        let fields =
            json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": "status.ready", "fieldB": "spec.replicas"}});
        let selector = json!({"type": "GroupKind", "groupKind": {"group": "", "kind": "PersistentVolumeClaim"}});
        let all = probes(&json!([{"selector": selector, "assertions": [field("status.phase", "Bound"), fields]}]));
        for (line, expected) in [
            (
                "(/v1, Kind=PersistentVolumeClaim)(n/pvc): object InProgress: /status/phase is \"Pending\"",
                "Object PersistentVolumeClaim.v1 n/pvc: value at key \"status.phase\" != \"Bound\"; expected: \"Bound\" got: \"Pending\"",
            ),
            (
                "(apps/v1, Kind=Deployment)(n/d): object InProgress: /status/phase is not there, /status/ready is \"1\": /spec/replicas is \"2\"",
                "Object Deployment.apps/v1 n/d: missing key: \"status.phase\", value at key \"status.ready\" != value at key \
                 \"spec.replicas\"; expected: \"2\" got: \"1\"",
            ),
            ("(/v1, Kind=Pod)(n/p): Pod \"p\" not found", "Object Pod.v1 n/p: Pod \"p\" not found"),
            ("(/v1, Kind=Pod)(n/p): object Failed: no: luck", "Object Pod.v1 n/p: no: luck"),
            ("other words", "other words"),
        ] {
            assert_eq!(told(line, &all), expected);
            assert_eq!(told(&format!("{line}\n{line}"), &all), format!("{expected}\n{expected}"));
        }
    }

    /// The words of a line are made elsewhere.
    #[test]
    fn lines_are_those_of_the_engine() {
        use rukpak_plan::health::{Health, State, line};

        let all = probes(&json!([{"selector": {"type": "GroupKind", "groupKind": {"group": "", "kind": "ConfigMap"}},
                                  "assertions": [field("data.a", "x")]}]));
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "y"}});
        let check = checks(&all, std::slice::from_ref(&object)).unwrap().remove(0);
        let health = rukpak_plan::health::assess_by(&object, Some(&check), jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(health, Health::new(State::InProgress, "/data/a is \"y\""));
        let told = told(&line("", "v1", "ConfigMap", Some("n"), "m", &health), &all);
        assert_eq!(told, "Object ConfigMap.v1 n/m: value at key \"data.a\" != \"x\"; expected: \"x\" got: \"y\"");
    }
}
