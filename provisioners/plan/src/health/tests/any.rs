//! What holds for any JSON.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::State::{InProgress, NotFound};
use super::super::{Health, assess};
use super::now;

const KINDS: [&str; 14] = [
    "v1 Pod",
    "v1 Service",
    "v1 Secret",
    "v1 PersistentVolumeClaim",
    "apps/v1 Deployment",
    "apps/v1 ReplicaSet",
    "apps/v1 StatefulSet",
    "apps/v1 DaemonSet",
    "batch/v1 Job",
    "policy/v1 PodDisruptionBudget",
    "a/b/c Thing",
    "apiextensions.k8s.io/v1 CustomResourceDefinition",
    "apiregistration.k8s.io/v1 APIService",
    "/ /",
];

/// Names and values that the rules look for, so that random objects reach them.
const WORDS: [&str; 40] = [
    "metadata",
    "generation",
    "deletionTimestamp",
    "creationTimestamp",
    "spec",
    "replicas",
    "updateStrategy",
    "type",
    "rollingUpdate",
    "partition",
    "suspend",
    "clusterIP",
    "status",
    "observedGeneration",
    "conditions",
    "reason",
    "message",
    "phase",
    "containerStatuses",
    "state",
    "waiting",
    "name",
    "readyReplicas",
    "updatedReplicas",
    "desiredNumberScheduled",
    "startTime",
    "Running",
    "Pending",
    "PodScheduled",
    "False",
    "True",
    "Unschedulable",
    "CrashLoopBackOff",
    "Progressing",
    "Available",
    "Established",
    "LoadBalancer",
    "-9999-01-01T00:00:00Z",
    "9999-12-30T22:00:00Z",
    "currentReplicas",
];

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![4 => proptest::sample::select(&WORDS[..]).prop_map(str::to_owned), 1 => any::<String>()];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), 0..3_i64].prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_has_a_health(body in any_json()) {
        prop_assert_ne!(assess(&body, now()).state, NotFound);
    }

    #[test]
    fn any_body_of_a_known_kind_has_a_health(
        kind in proptest::sample::select(&KINDS[..]),
        metadata in any_json(),
        spec in any_json(),
        status in any_json(),
        seconds in Timestamp::MIN.as_second()..=Timestamp::MAX.as_second(),
    ) {
        let (api_version, kind) = kind.split_once(' ').unwrap();
        let body = json!({
            "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "status": status,
        });
        let health = assess(&body, Timestamp::from_second(seconds).unwrap());
        prop_assert_ne!(health.state, NotFound);
    }

    #[test]
    fn any_counters_have_a_health(
        kind in proptest::sample::select(&KINDS[..]),
        counters in prop::collection::vec(prop_oneof![Just(i64::MIN), Just(i64::MAX), -2..3_i64], 6),
    ) {
        let (api_version, kind) = kind.split_once(' ').unwrap();
        let [wanted, partition, replicas, ready, updated, current] = counters[..] else { unreachable!() };
        let body = json!({
            "apiVersion": api_version, "kind": kind,
            "spec": {"replicas": wanted, "updateStrategy": {"rollingUpdate": {"partition": partition}}},
            "status": {
                "replicas": replicas, "readyReplicas": ready, "updatedReplicas": updated, "currentReplicas": current,
            },
        });
        let health = assess(&body, now());
        if replicas < wanted && matches!(kind, "Deployment" | "StatefulSet") {
            prop_assert_eq!(health, Health::new(InProgress, format!("Replicas: {replicas}/{wanted}")));
        }
    }
}
