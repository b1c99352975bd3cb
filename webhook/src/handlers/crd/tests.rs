use std::cell::Cell;

use rukpak_crd_upgrade::CheckReason;
use serde_json::value::to_raw_value;

use super::*;

fn check() -> ObjectCheck {
    ObjectCheck {
        crd: "as.example.com".to_owned(),
        group: "example.com".to_owned(),
        list_version: "v1".to_owned(),
        plural: "as".to_owned(),
        kind: "A".to_owned(),
        schema_version: "v1".to_owned(),
        reason: CheckReason::SchemaChanged,
    }
}

/// Two objects of which the second is not valid.
fn validated(stop: &dyn Fn() -> bool) -> Result<Option<Invalid>, Stopped> {
    let schema = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let new = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
    let objects = [json!({"metadata": {"name": "a"}, "size": 1}), json!({"metadata": {"name": "b"}, "size": "x"})];
    let (sender, pages) = mpsc::channel(1);
    let objects = objects.iter().map(|object| to_raw_value(object).unwrap()).collect();
    sender.try_send(Page { objects, next: None }).unwrap();
    drop(sender);
    validate(&check(), &new, pages, stop)
}

#[test]
fn an_invalid_object_is_found() {
    let found = validated(&|| false).unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.count, found.is_complete), ("b", 1, true));
}

/// Whatever was found by then, "no invalid object" would let the CRD in.
#[test]
fn a_check_that_was_stopped_has_no_result() {
    for questions in 0..2 {
        let left = Cell::new(questions);
        let stop = || left.replace(left.get() - 1) <= 0;
        assert_eq!(validated(&stop), Err(Stopped), "stopped after {questions} questions");
    }
}
