//! ClusterObjectSets of users: phases, probes, Secrets, deadlines, the archive. The scenarios are those of operator-controller
//! (`revision.feature`).

use std::time::{Duration, Instant};

use kube::api::DynamicObject;
use rukpak_tests::installation::message;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::{Value, json};

use super::case::{Case, text};

const GROUP: &str = "olm.operatorframework.io/v1";

pub fn set(case: &Case<'_>) -> Target {
    Target::cluster(GROUP, "ClusterObjectSet", &case.name)
}

/// A set with these phases, and what else its spec says.
pub fn object(case: &Case<'_>, phases: Vec<(&str, Vec<Value>)>, spec: &Value) -> Value {
    let phases: Vec<Value> =
        phases.into_iter().map(|(name, objects)| json!({"name": name, "objects": objects})).collect();
    let mut set = json!({
        "apiVersion": GROUP, "kind": "ClusterObjectSet", "metadata": {"name": case.name},
        "spec": {"lifecycleState": "Active", "collisionProtection": "Prevent", "revision": 1, "phases": phases},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        set["spec"][key] = value.clone();
    }
    set
}

pub fn inline(object: &Value) -> Value {
    json!({"object": object})
}

pub fn config_map(case: &Case<'_>, name: &str, data: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": case.space(), "labels": {"of": name}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

pub fn map(case: &Case<'_>, name: &str) -> Target {
    Target::namespaced("v1", "ConfigMap", &case.space(), name)
}

fn by_kind(group: &str, kind: &str, assertion: &Value) -> Value {
    json!({"selector": {"type": "GroupKind", "groupKind": {"group": group, "kind": kind}}, "assertions": [assertion]})
}

fn field(path: &str, value: &str) -> Value {
    json!({"type": "FieldValue", "fieldValue": {"fieldPath": path, "value": value}})
}

fn succeeded() -> Expected<'static> {
    Expected::is_true("Progressing", "Succeeded").saying("has rolled out.")
}

fn available() -> Expected<'static> {
    Expected::is_true("Available", "ProbesSucceeded").saying("Objects are available and pass all probes.")
}

fn ill() -> Expected<'static> {
    Expected::is_false("Available", "ProbeFailure")
}

/// The scenarios have the reconcile of a set triggered by an annotation.
async fn trigger(case: &Case<'_>, value: &str) {
    case.merge_into(&set(case), &json!({"metadata": {"annotations": {"example.com/trigger": value}}})).await;
}

/// Waits until the set has succeeded, and is available.
pub async fn until_there(case: &Case<'_>) -> DynamicObject {
    case.until_object(&set(case), "a set that has succeeded", |set| succeeded().met_by(set) && available().met_by(set))
        .await
}

/// What the first phase lacks is told, and the next one is not begun.
async fn is_halted(case: &Case<'_>, words: &str, later: &Target) {
    let told = case.until_at(&set(case), ill()).await;
    assert_eq!(message(&told, "Available"), words);
    assert!(Expected::is_true("Progressing", "RollingOut").met_by(&told), "{:#}", told.data);
    case.holds_for(later, "the phase after", Duration::from_secs(3), |object| object.is_none()).await;
}

fn claim(case: &Case<'_>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim", "namespace": case.space()},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": format!("{}-volume", case.name),
                 "resources": {"requests": {"storage": "1Mi"}}},
    })
}

fn volume(case: &Case<'_>) -> Value {
    let node = json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["none"]});
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("{}-volume", case.name)},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Mi"}, "storageClassName": "", "volumeMode": "Filesystem",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "claim", "namespace": case.space()},
            "local": {"path": "/tmp/volume"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [node]}]}},
        },
    })
}

#[tokio::test]
async fn a_claim_that_is_not_bound_halts_the_phases() {
    let case = Case::new("claim").await;
    case.make_space().await;
    let probes = json!({"progressionProbes": [by_kind("", "PersistentVolumeClaim", &field("status.phase", "Bound"))]});
    let after = inline(&config_map(&case, "after", &json!({})));
    case.create(&object(&case, vec![("pvc", vec![inline(&claim(&case))]), ("configmap", vec![after])], &probes)).await;
    let words = format!(
        "Object PersistentVolumeClaim.v1 {}/claim: value at key \"status.phase\" != \"Bound\"; expected: \"Bound\" got: \"Pending\"",
        case.space()
    );
    is_halted(&case, &words, &map(&case, "after")).await;
}

#[tokio::test]
async fn a_claim_that_is_bound_lets_the_phases_go_on() {
    let case = Case::new("bound").await;
    case.make_space().await;
    let probes = json!({"progressionProbes": [by_kind("", "PersistentVolumeClaim", &field("status.phase", "Bound"))]});
    let first = vec![inline(&claim(&case)), inline(&volume(&case))];
    let after = inline(&config_map(&case, "after", &json!({})));
    case.create(&object(&case, vec![("pvc", first), ("configmap", vec![after])], &probes)).await;
    until_there(&case).await;
    case.get(&map(&case, "after")).await;
}

#[tokio::test]
async fn a_probe_that_does_not_pass_halts_the_phases() {
    let case = Case::new("probe").await;
    case.make_space().await;
    let probe = json!({"selector": {"type": "Label", "label": {"matchLabels": {"of": "one"}}}, "assertions": [field("data.foo", "bar")]});
    let [one, two] = ["one", "two"].map(|name| inline(&config_map(&case, name, &json!({"foo": "foo"}))));
    let phases = vec![("cm-1", vec![one]), ("cm-2", vec![two])];
    case.create(&object(&case, phases, &json!({"progressionProbes": [probe]}))).await;
    let words = format!(
        "Object ConfigMap.v1 {}/one: value at key \"data.foo\" != \"bar\"; expected: \"bar\" got: \"foo\"",
        case.space()
    );
    is_halted(&case, &words, &map(&case, "two")).await;
}

#[tokio::test]
async fn probes_that_pass_let_all_phases_go_on() {
    let case = Case::new("probes").await;
    case.make_space().await;
    let _kubelet = Kubelet::play(case.client.clone(), &case.space());
    let fields = json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": "metadata.labels.foo", "fieldB": "metadata.labels.bar"}});
    let expression = json!({"key": "exercise", "operator": "In", "values": ["expressions"]});
    let ready = json!({"type": "ConditionEqual", "conditionEqual": {"type": "Ready", "status": "True"}});
    let probes = json!({"progressionProbes": [
        by_kind("", "ConfigMap", &field("data.foo", "bar")),
        by_kind("", "ServiceAccount", &fields),
        {"selector": {"type": "Label", "label": {"matchExpressions": [expression]}}, "assertions": [ready]},
    ]});
    let metadata = |name: &str, labels: Value| json!({"name": name, "namespace": case.space(), "labels": labels});
    let account = metadata("account", json!({"foo": "same", "bar": "same"}));
    let container = json!({"name": "c", "image": "registry.example.com/none:v1"});
    let [first, last] = ["first", "last"].map(|name| inline(&config_map(&case, name, &json!({"foo": "bar"}))));
    let account = inline(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata("pod", json!({"exercise": "expressions"})),
        "spec": {"containers": [container]},
    });
    let pod = inline(&pod);
    let phases = vec![("p1", vec![first]), ("p2", vec![account]), ("p3", vec![pod]), ("p4", vec![last])];
    case.create(&object(&case, phases, &probes)).await;
    let told = until_there(&case).await;
    assert_eq!(message(&told, "Progressing"), "Revision 1 has rolled out.");
    case.get(&map(&case, "last")).await;

    // What falls ill later was rolled out all the same.
    case.merge_into(&map(&case, "first"), &json!({"data": {"foo": null}})).await;
    case.until_object(&map(&case, "first"), "what was changed, put right", |map| map.data["data"]["foo"] == "bar")
        .await;
    assert!(Expected::is_true("Succeeded", "Succeeded").met_by(&case.get(&set(&case)).await));
}

#[tokio::test]
async fn what_is_wrong_with_a_later_phase_is_told_before_the_first_is_applied() {
    let case = Case::new("too-many").await;
    case.make_space().await;
    let assertions: Vec<Value> = (0..7).map(|number| field(&format!("data.f{number}"), "x")).collect();
    let probe =
        json!({"selector": {"type": "Label", "label": {"matchLabels": {"of": "two"}}}, "assertions": assertions});
    let [one, two] = ["one", "two"].map(|name| inline(&config_map(&case, name, &json!({}))));
    let phases = vec![("first", vec![one]), ("second", vec![two])];
    case.create(&object(&case, phases, &json!({"progressionProbes": [probe, probe, probe]}))).await;
    let words = "is selected by more than 20 assertions";
    case.until_at(&set(&case), Expected::is_false("Progressing", "Blocked").saying(words)).await;
    assert!(case.find(&Target::bundle_deployment(&format!("{}.first", case.name))).await.is_none());
}

/// An immutable Secret with manifests, each in the key of its name.
pub fn secret(case: &Case<'_>, manifests: &[Value], immutable: bool) -> Value {
    let data = manifests.iter().map(|manifest| {
        let name = manifest["metadata"]["name"].as_str().expect("it has one");
        (name.to_owned(), json!(manifest.to_string()))
    });
    let data: serde_json::Map<String, Value> = data.collect();
    json!({"apiVersion": "v1", "kind": "Secret", "type": "olm.operatorframework.io/object-data", "immutable": immutable,
           "metadata": {"name": "objects", "namespace": case.space()}, "stringData": data})
}

/// A set of one phase with all that the Secret holds in these keys.
pub fn of_secret(case: &Case<'_>, keys: &[&str]) -> Value {
    let refs: Vec<Value> =
        keys.iter().map(|key| json!({"ref": {"name": "objects", "namespace": case.space(), "key": key}})).collect();
    object(case, vec![("resources", refs)], &json!({}))
}

fn stored(case: &Case<'_>) -> Target {
    Target::namespaced("v1", "Secret", &case.space(), "objects")
}

#[tokio::test]
async fn objects_come_from_secrets() {
    let case = Case::new("secrets").await;
    case.make_space().await;
    let _kubelet = Kubelet::play(case.client.clone(), &case.space());
    let labels = json!({"app": "web"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": case.space()},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "registry.example.com/none:v1"}]}}},
    });
    case.create(&secret(&case, &[config_map(&case, "settings", &json!({"key": "value"})), deployment], true)).await;
    case.create(&of_secret(&case, &["settings", "web"])).await;
    let told = until_there(&case).await;
    assert_eq!(case.get(&map(&case, "settings")).await.data["data"]["key"], "value");
    case.get(&Target::namespaced("apps/v1", "Deployment", &case.space(), "web")).await;
    let observed = &told.data["status"]["observedPhases"][0];
    assert_eq!(observed["name"], "resources");
    assert!(text(&told, "/status/observedPhases/0/digest").starts_with("sha256:"), "{observed}");
}

#[tokio::test]
async fn a_secret_that_can_change_blocks_a_set() {
    let case = Case::new("mutable").await;
    case.make_space().await;
    case.create(&secret(&case, &[config_map(&case, "settings", &json!({}))], false)).await;
    case.create(&of_secret(&case, &["settings"])).await;
    let blocked = Expected::is_false("Progressing", "Blocked");
    let told = case.until_at(&set(&case), blocked).await;
    let words = format!(
        "the following secrets are not immutable (referenced secrets must have immutable set to true): {}/objects",
        case.space()
    );
    assert_eq!(message(&told, "Progressing"), words);
    assert!(case.find(&map(&case, "settings")).await.is_none());
    case.merge_into(&stored(&case), &json!({"immutable": true})).await;
    trigger(&case, "1").await;
    until_there(&case).await;
}

#[tokio::test]
async fn other_content_of_a_secret_blocks_a_set_until_it_is_back() {
    let case = Case::new("tampered").await;
    case.make_space().await;
    let with = |value: &str| secret(&case, &[config_map(&case, "settings", &json!({"key": value}))], true);
    case.create(&with("original")).await;
    case.create(&of_secret(&case, &["settings"])).await;
    until_there(&case).await;

    case.delete(&stored(&case)).await;
    case.create(&with("tampered")).await;
    trigger(&case, "1").await;
    let words = "resolved content of 1 phase(s) has changed: phase \"resources\"";
    case.until_at(&set(&case), Expected::is_false("Progressing", "Blocked").saying(words)).await;
    assert_eq!(case.get(&map(&case, "settings")).await.data["data"]["key"], "original");

    case.delete(&stored(&case)).await;
    case.create(&with("original")).await;
    trigger(&case, "2").await;
    until_there(&case).await;
}

/// As the scenarios do it: the definition asks for ten minutes.
async fn create_with_a_minute(case: &Case<'_>, object: &Value) {
    let name = "clusterobjectsets.olm.operatorframework.io";
    let definition = Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", name);
    let mut versions = case.get(&definition).await.data["spec"]["versions"].clone();
    let field = "/0/schema/openAPIV3Schema/properties/spec/properties/progressDeadlineMinutes/minimum";
    *versions.pointer_mut(field).expect("it has a least value") = json!(1);
    case.merge_into(&definition, &json!({"spec": {"versions": versions}})).await;
    let end = Instant::now() + verbs::PATIENCE;
    // The API server takes a moment to go by it.
    while let Err(error) = verbs::create(&case.client, object).await {
        assert!(Instant::now() < end, "{error:#}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn late() -> Expected<'static> {
    Expected::is_false("Progressing", "ProgressDeadlineExceeded")
        .saying("Revision has not rolled out for 1 minute(s). Last status: ")
}

#[tokio::test]
async fn a_set_that_is_late_is_archived_with_all_its_objects_and_another_recovers() {
    let [archived, slow] = [Case::new("late").await, Case::new("slow").await];
    let of_first = |value: &str| {
        let selector = json!({"type": "Label", "label": {"matchLabels": {"of": "first"}}});
        json!([{"selector": selector, "assertions": [field("data.foo", value)]}])
    };
    for case in [&archived, &slow] {
        case.make_space().await;
        let [first, after] = ["first", "after"].map(|name| inline(&config_map(case, name, &json!({"foo": "foo"}))));
        let spec = json!({"progressDeadlineMinutes": 1, "progressionProbes": of_first("bar")});
        create_with_a_minute(case, &object(case, vec![("first", vec![first]), ("after", vec![after])], &spec)).await;
    }
    archived.until_at(&set(&archived), late()).await;
    archived.get(&map(&archived, "first")).await;
    archived.merge_into(&set(&archived), &json!({"spec": {"lifecycleState": "Archived"}})).await;
    let told = Expected::is_false("Progressing", "Archived").saying("revision is archived");
    archived.until_at(&set(&archived), told).await;
    archived.until_gone(&map(&archived, "first")).await;
    let back = json!({"spec": {"lifecycleState": "Active"}});
    let denial = verbs::merge_expecting_denial(&archived.client, &set(&archived), &back).await.expect("it is refused");
    assert!(denial.message.contains("cannot un-archive"), "{denial:?}");

    // Probes may change: that one passes now.
    slow.until_at(&set(&slow), late()).await;
    slow.merge_into(&set(&slow), &json!({"spec": {"progressionProbes": of_first("foo")}})).await;
    until_there(&slow).await;
    slow.get(&map(&slow, "after")).await;
}

#[tokio::test]
async fn an_object_of_somebody_else_is_not_taken_and_waited_for() {
    let case = Case::new("collision").await;
    case.make_space().await;
    case.create(&config_map(&case, "taken", &json!({"of": "somebody"}))).await;
    let taken = inline(&config_map(&case, "taken", &json!({"of": "the set"})));
    case.create(&object(&case, vec![("only", vec![taken])], &json!({}))).await;
    let words = Expected::is_true("Progressing", "Retrying").saying("revision object collisions in phase 0");
    case.until_at(&set(&case), words).await;
    assert_eq!(case.get(&map(&case, "taken")).await.data["data"]["of"], "somebody");
    case.delete(&map(&case, "taken")).await;
    until_there(&case).await;
    assert_eq!(case.get(&map(&case, "taken")).await.data["data"]["of"], "the set");
}

#[tokio::test]
async fn objects_that_exist_are_taken_over_as_far_as_a_set_says() {
    let case = Case::new("protection").await;
    case.make_space().await;
    let foreign = case.create(&config_map(&case, "owner", &json!({}))).await;
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": foreign.metadata.uid, "controller": true}]);
    case.create(&config_map(&case, "orphan", &json!({"of": "somebody"}))).await;
    for name in ["controlled", "forced"] {
        let mut controlled = config_map(&case, name, &json!({"of": "somebody"}));
        controlled["metadata"]["ownerReferences"] = reference.clone();
        case.create(&controlled).await;
    }
    let of_set = |name: &str, protection: &str| json!({"object": config_map(&case, name, &json!({"of": "the set"})), "collisionProtection": protection});
    let taken = vec![of_set("orphan", "IfNoController"), of_set("forced", "None")];
    let phases = vec![("taken", taken), ("refused", vec![of_set("controlled", "IfNoController")])];
    case.create(&object(&case, phases, &json!({}))).await;
    let words = Expected::is_true("Progressing", "Retrying").saying("revision object collisions in phase 1");
    case.until_at(&set(&case), words).await;
    for (name, of) in [("orphan", "the set"), ("forced", "the set"), ("controlled", "somebody")] {
        assert_eq!(case.get(&map(&case, name)).await.data["data"]["of"], of, "{name}");
    }
    let owners = case.get(&map(&case, "forced")).await.metadata.owner_references.unwrap_or_default();
    assert_eq!(owners.iter().map(|owner| owner.kind.as_str()).collect::<Vec<_>>(), ["BundleDeployment"]);
}

/// As a revision takes over from the one before.
#[tokio::test]
async fn the_archive_leaves_what_another_set_has_taken_over() {
    let case = Case::new("revisions").await;
    case.make_space().await;
    let objects = |names: &[&str], of: &str| {
        names.iter().map(|name| inline(&config_map(&case, name, &json!({"of": of})))).collect::<Vec<_>>()
    };
    case.create(&object(&case, vec![("only", objects(&["stays", "goes"], "one"))], &json!({}))).await;
    until_there(&case).await;
    let spec = json!({"revision": 2, "collisionProtection": "None"});
    let mut second = object(&case, vec![("only", objects(&["stays"], "two"))], &spec);
    let name = format!("{}-2", case.name);
    second["metadata"]["name"] = json!(name);
    case.create(&second).await;
    case.until_at(&Target::cluster(GROUP, "ClusterObjectSet", &name), succeeded()).await;
    let words = Expected::is_true("Progressing", "Retrying").saying("revision object collisions in phase 0");
    case.until_at(&set(&case), words).await;
    case.merge_into(&set(&case), &json!({"spec": {"lifecycleState": "Archived"}})).await;
    case.until_at(&set(&case), Expected::is_false("Progressing", "Archived")).await;
    case.until_gone(&map(&case, "goes")).await;
    let left = case.get(&map(&case, "stays")).await;
    assert_eq!(left.data["data"]["of"], "two");
    assert!(left.metadata.deletion_timestamp.is_none(), "{left:?}");
}

#[tokio::test]
async fn deletion_takes_the_phases_in_their_reverse_order() {
    let case = Case::new("reverse").await;
    case.make_space().await;
    let [one, two] = ["one", "two"].map(|name| inline(&config_map(&case, name, &json!({}))));
    let phases = vec![("first", vec![one]), ("second", vec![two])];
    case.create(&object(&case, phases, &json!({}))).await;
    until_there(&case).await;
    // Somebody holds the last object up: the first one stays.
    let hold = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    case.merge_into(&map(&case, "two"), &hold(json!(["example.com/hold"]))).await;
    case.delete(&set(&case)).await;
    case.until_object(&map(&case, "two"), "an object on its way out", |map| map.metadata.deletion_timestamp.is_some())
        .await;
    let stays = |map: Option<&DynamicObject>| map.is_some_and(|map| map.metadata.deletion_timestamp.is_none());
    case.holds_for(&map(&case, "one"), "the first phase", Duration::from_secs(3), stays).await;
    case.merge_into(&map(&case, "two"), &hold(Value::Null)).await;
    for name in ["two", "one"] {
        case.until_gone(&map(&case, name)).await;
    }
}

/// What a set of upstream's has installed, or a revision of an extension.
#[tokio::test]
async fn a_set_that_something_else_controls_is_left_alone_and_one_of_upstream_is_taken_over() {
    let case = Case::new("upstream").await;
    case.make_space().await;
    let owner = case.get(&Target::cluster("v1", "Namespace", &case.space())).await;
    let reference = |of: &DynamicObject, api_version: &str, kind: &str| json!([{"apiVersion": api_version, "kind": kind, "name": of.metadata.name, "uid": of.metadata.uid, "controller": true}]);
    let mine = inline(&config_map(&case, "mine", &json!({})));
    let mut controlled = object(&case, vec![("only", vec![mine])], &json!({}));
    controlled["metadata"]["name"] = json!(format!("{}-controlled", case.name));
    controlled["metadata"]["ownerReferences"] = reference(&owner, "v1", "Namespace");
    case.create(&controlled).await;
    case.holds_for(&map(&case, "mine"), "an object of another's set", Duration::from_secs(3), |map| map.is_none())
        .await;

    // Our programs find it as upstream's leave it.
    let mut left = object(&case, Vec::new(), &json!({}));
    left["metadata"]["finalizers"] = json!(["olm.operatorframework.io/teardown"]);
    let created = case.create(&left).await;
    let mut theirs = config_map(&case, "theirs", &json!({"of": "upstream"}));
    theirs["metadata"]["ownerReferences"] = reference(&created, GROUP, "ClusterObjectSet");
    let theirs = case.create(&theirs).await;
    let phases =
        json!([{"name": "only", "objects": [inline(&config_map(&case, "theirs", &json!({"of": "upstream"})))]}]);
    case.merge_into(&set(&case), &json!({"spec": {"phases": phases}})).await;
    let is_ours = |map: &DynamicObject| {
        let owners = map.metadata.owner_references.clone().unwrap_or_default();
        owners.len() == 1 && owners[0].kind == "BundleDeployment"
    };
    let taken = case.until_object(&map(&case, "theirs"), "an object that was taken over", is_ours).await;
    assert_eq!(taken.metadata.uid, theirs.metadata.uid);
    let is_free = |set: &DynamicObject| set.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
    case.until_object(&set(&case), "a set without upstream's finalizer", is_free).await;
}

/// Whoever may write Bundles is not to read Secrets by it.
#[tokio::test]
async fn a_bundle_reads_no_secret_that_is_meant_for_another() {
    let case = Case::new("foreign-secret").await;
    case.make_space().await;
    let only = inline(&config_map(&case, "only", &json!({})));
    case.create(&object(&case, vec![("only", vec![only])], &json!({}))).await;
    until_there(&case).await;
    let deployment = case.get(&Target::bundle_deployment(&format!("{}.only", case.name))).await;
    let source = &deployment.data["spec"]["template"]["spec"]["source"];
    assert_eq!(source["configMaps"][0]["kind"], "Secret");
    let bundle = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": case.name},
                        "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": source}});
    case.create(&bundle).await;
    let refused = Expected::is_false("Unpacked", "UnpackFailed").saying("holds no content of this Bundle");
    case.until_at(&Target::bundle(&case.name), refused).await;
}
