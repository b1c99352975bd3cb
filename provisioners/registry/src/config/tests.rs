use serde_json::json;

use super::*;
use crate::csv::InstallMode;

type Answer = Result<Option<Vec<String>>, String>;

fn csv(modes: &[&str]) -> Csv {
    let mut csv = Csv::default();
    csv.spec.install_modes =
        modes.iter().map(|kind| InstallMode { kind: (*kind).to_owned(), supported: true }).collect();
    csv
}

fn read(modes: &[&str], value: &Value) -> Answer {
    Config::read(&csv(modes), "me", value).map(|config| config.target_namespaces).map_err(|error| error.to_string())
}

#[test]
fn the_namespace_to_watch_follows_from_the_install_modes() {
    let of = |name: &str| Ok(Some(vec![name.to_owned()]));
    let watch = |name: &str| json!({"watchNamespace": name});
    let err = |text: &str| Err(format!("invalid configuration: {text}"));
    let missing = "required field \"watchNamespace\" is missing";
    let own = "invalid format for field \"watchNamespace\": invalid value \"a\": must be \"me\" (the namespace where the \
        operator is installed) because this operator only supports OwnNamespace install mode";
    let single = "invalid format for field \"watchNamespace\": invalid value \"me\": must be different from \"me\" (the \
        install namespace) because this operator uses SingleNamespace install mode to watch a different namespace";
    let cases: [(&[&str], Value, Answer); 13] = [
        (&[ALL], Value::Null, Ok(None)),
        (&[ALL], watch("a"), err("unknown field \"watchNamespace\" for a bundle with install modes [AllNamespaces]")),
        (
            &[MULTI],
            watch("a"),
            err("unknown field \"watchNamespace\" for a bundle with install modes [MultiNamespace]"),
        ),
        (&[OWN], json!({}), err(missing)),
        (&[OWN], json!({"watchNamespace": null}), err(missing)),
        (&[OWN], watch("me"), of("me")),
        (&[OWN], watch("a"), err(own)),
        (&[SINGLE], watch("me"), err(single)),
        (&[SINGLE], watch("a"), of("a")),
        (&[OWN, SINGLE], watch("me"), of("me")),
        (&[OWN, SINGLE], Value::Null, err(missing)),
        (&[ALL, OWN], json!({"watchNamespace": null}), Ok(None)),
        (&[ALL, OWN], watch("a"), err(own)),
    ];
    for (modes, value, expected) in cases {
        assert_eq!(read(modes, &value), expected, "{modes:?} {value}");
    }
}

#[test]
fn where_the_objects_go_and_what_they_are_labelled_with() {
    let config = json!({"installNamespace": "ns", "objectLabels": {"a": "b"}});
    assert_eq!(install_namespace(&config), Ok(Some("ns".to_owned())));
    assert_eq!(install_namespace(&Value::Null), Ok(None));
    let error = install_namespace(&json!({"installNamespace": "N"})).unwrap_err();
    assert!(error.to_string().contains("field \"installNamespace\" must match pattern"), "{error}");
    let read = Config::read(&csv(&[ALL]), "ns", &config).unwrap();
    assert_eq!(read.object_labels, BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    assert!(Config::read(&csv(&[ALL]), "ns", &json!({"objectLabels": {"a": 1}})).is_err());
}

#[test]
fn the_namespace_is_made_on_request_where_none_is_named() {
    for (config, expected) in [
        (Value::Null, Ok(false)),
        (json!({"createNamespace": null}), Ok(false)),
        (json!({"createNamespace": true}), Ok(true)),
        (json!({"createNamespace": false, "installNamespace": "ns"}), Ok(false)),
        (
            json!({"createNamespace": true, "installNamespace": "ns"}),
            Err("fields \"installNamespace\" and \"createNamespace\" exclude each other"),
        ),
        (
            json!({"createNamespace": "yes"}),
            Err("invalid type for field \"createNamespace\": got string, want boolean"),
        ),
    ] {
        let expected = expected.map_err(|problem| Error(vec![problem.to_owned()]));
        assert_eq!(creates_namespace(&config), expected, "{config}");
    }
    assert!(Config::read(&csv(&[ALL]), "ns", &json!({"createNamespace": true})).is_ok());
}

#[test]
fn roles_for_the_apis_are_asked_for_by_a_boolean() {
    let read = |value: Value| Config::read(&csv(&[ALL]), "ns", &json!({"apiRoles": value}));
    let asked = |value: Value| read(value).unwrap().api_roles;
    assert_eq!((asked(json!(true)), asked(json!(false)), asked(Value::Null)), (true, false, false));
    let error = read(json!("yes")).unwrap_err().to_string();
    assert_eq!(error, "invalid configuration: invalid type for field \"apiRoles\": got string, want boolean");
}

#[test]
fn an_operator_condition_is_asked_for_by_a_boolean() {
    let read = |value: Value| Config::read(&csv(&[ALL]), "ns", &json!({"operatorCondition": value}));
    let asked = |value: Value| read(value).unwrap().operator_condition;
    assert_eq!((asked(json!(true)), asked(json!(false)), asked(Value::Null)), (true, false, false));
    let error = read(json!(1)).unwrap_err().to_string();
    assert_eq!(error, "invalid configuration: invalid type for field \"operatorCondition\": got number, want boolean");
}

#[test]
fn several_places_are_asked_for_by_a_boolean() {
    let read = |value: Value| Config::read(&csv(&[ALL]), "ns", &json!({"severalNamespaces": value}));
    let asked = |value: Value| read(value).unwrap().places;
    assert_eq!([asked(json!(true)), asked(json!(false))], [Places::Several, Places::One]);
    let error = read(json!([])).unwrap_err().to_string();
    assert_eq!(error, "invalid configuration: invalid type for field \"severalNamespaces\": got array, want boolean");
}

#[test]
fn several_namespaces_need_multi_namespace() {
    let several = json!({"watchNamespaces": ["a", "b"]});
    assert_eq!(read(&[MULTI], &several), Ok(Some(vec!["a".into(), "b".into()])));
    assert_eq!(read(&[MULTI, OWN], &several), Ok(Some(vec!["a".into(), "b".into()])));
    let words =
        "invalid configuration: unknown field \"watchNamespaces\" for a bundle with install modes [AllNamespaces]";
    assert_eq!(read(&[ALL], &several), Err(words.to_owned()));
    assert!(read(&[MULTI], &json!({"watchNamespaces": []})).is_err());
    assert!(read(&[MULTI, SINGLE], &json!({"watchNamespaces": ["a"], "watchNamespace": "b"})).is_err());
}

#[test]
fn names_are_checked_and_all_problems_told() {
    let text = |value: Value| read(&[SINGLE], &value).unwrap_err();
    assert!(text(json!({"watchNamespace": "A_"})).ends_with("must match pattern \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\""));
    assert!(text(json!({"watchNamespace": "a".repeat(64)})).ends_with("must have maximum length of 63 (len=64)"));
    assert!(
        text(json!({"watchNamespace": 5}))
            .ends_with("invalid type for field \"watchNamespace\": got number, want string")
    );
    assert_eq!(text(json!([])), "invalid configuration: input is not a valid JSON object");
    let several = text(json!({"other": 1, "deploymentConfig": {"selector": {}}}));
    assert!(
        several.starts_with("invalid configuration: multiple errors found:\n  - unknown field \"other\"\n  - required")
    );
    assert!(several.contains("unknown field `selector`"), "{several}");
}

#[test]
fn an_affinity_is_typed() {
    let value = json!({"deploymentConfig": {"affinity": {"nodeAffinity": {}}, "nodeSelector": null}});
    let config = Config::read(&csv(&[ALL]), "me", &value).unwrap().deployment.unwrap();
    assert!(config.affinity.unwrap().node_affinity.is_some() && config.node_selector.is_none());
    let wrong = json!({"deploymentConfig": {"tolerations": {}}});
    let text = Config::read(&csv(&[ALL]), "me", &wrong).unwrap_err().to_string();
    assert!(text.contains("invalid value for field \"deploymentConfig.tolerations\""), "{text}");
}
