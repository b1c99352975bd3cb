//! CRDs that installations have in common and that somebody has deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_content::Digest;
use rukpak_crds::{BundleDeployment, BundleDeploymentSpec, Pin, names};
use rukpak_plain::ObjectKey;
use serde_json::{Value, json};

use super::*;
use crate::applied::{Applied, Tracked};
use crate::conflict::Repairs;
use crate::decide::{Decision, decide};
use crate::fields::Taken;
use crate::health::Health;
use crate::memory::{Differences, Problem, Stage};
use crate::record::Standing;
use crate::resolve::Why;
use crate::retry::Class;
use crate::{Fingerprint, Format, Identity, Kind, Owner, Plan};

const NAME: &str = "pumps.example.com";

fn release() -> Release {
    Release::new(Digest::sha256(b"content"), Format::Registry, None)
}

fn key(group: &str, kind: &str) -> ObjectKey {
    ObjectKey { group: group.to_owned(), kind: kind.to_owned(), namespace: None, name: NAME.to_owned() }
}

fn definition() -> ObjectKey {
    key("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// One with these settings, of which a reconcile was asked for and answered by these values.
fn observed(config: &Value, asked: Option<&str>, answered: Option<&str>) -> Observed {
    let spec = BundleDeploymentSpec { config: config.as_object().cloned(), ..BundleDeploymentSpec::default() };
    let mut deployment = BundleDeployment::new("pump", spec);
    let asked = asked.map(|value| (names::RECONCILE_REQUESTED_AT.to_owned(), value.to_owned()));
    deployment.metadata.annotations = Some(asked.into_iter().collect());
    let (bundle, hash) = ("pump-1".to_owned(), "1".to_owned());
    let status = BundleDeploymentStatus {
        last_handled_reconcile_at: answered.map(str::to_owned),
        ..BundleDeploymentStatus::default()
    };
    Observed::of(deployment, status, Desired::Ready { bundle, hash, pin: Pin::default(), release: release() })
}

/// The CRD, in this state.
fn objects(state: State) -> Objects {
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let kind = Kind { resource: Arc::new(ApiResource::from_gvk(&gvk)), namespaced: false };
    let owner = Owner { name: "pump".to_owned(), uid: "u".to_owned() };
    let tracked = Tracked {
        identity: Identity { kind, namespace: None, name: NAME.to_owned() },
        fingerprint: Fingerprint::of(&ObjectMeta::default(), &owner, ""),
        health: Health::new(state, ""),
        is_read: true,
        read_at: Timestamp::UNIX_EPOCH,
    };
    [(definition(), tracked)].into()
}

/// What is remembered where this release is installed.
fn installed(objects: &Objects) -> Memory {
    installed_but(objects, Differences::default())
}

fn installed_but(objects: &Objects, differences: Differences) -> Memory {
    let plan = Plan {
        release: release(),
        certificates_due: None,
        authorities: None,
        properties: Vec::new(),
        namespace: None,
        steps: BTreeMap::new(),
        missing: Vec::new(),
        hooks: Vec::new(),
    };
    let applied = Applied::by(&plan, "", objects, |_| false).expect("nothing is missing");
    let mut memory = Memory::default();
    memory.learn_applied(applied, Pruning::Done, differences, Timestamp::UNIX_EPOCH);
    memory
}

/// Reason and message of the condition of this type, if there is one.
fn told(type_: &str, observed: &Observed, memory: &Memory, objects: &Objects) -> Option<(String, String)> {
    let report = status(observed, &observed.status, memory, objects, Timestamp::UNIX_EPOCH);
    report.status.conditions.find(type_).map(|found| (found.reason.clone(), found.message.clone()))
}

/// Reason and message of `Ready`.
fn ready(observed: &Observed, objects: &Objects) -> (String, String) {
    told(READY, observed, &installed(objects), objects).expect("it is told")
}

#[test]
fn a_record_counts_an_object_once_as_current_paused_or_contested() {
    let objects = objects(State::Current);
    let counted = |memory: &Memory| {
        let standing = Standing::of(memory, &objects).expect("it is applied");
        (standing.current, standing.paused.len(), standing.contested.len())
    };
    assert_eq!(counted(&installed(&objects)), (1, 0, 0));
    let paused = Differences { paused: [definition()].into(), ..Differences::default() };
    assert_eq!(counted(&installed_but(&objects, paused)), (0, 1, 0));

    let mut contested = installed(&objects);
    let [manager, field] = ["kubectl-edit", "f:spec"].map(str::to_owned);
    let field = Taken { manager, subresource: String::new(), path: vec![field] };
    *contested.repairs_of(&definition()) = Repairs::relinquishing([field]);
    assert_eq!(counted(&contested), (0, 0, 1));
}

#[test]
fn a_definition_in_common_stays_deleted_until_a_reconcile_is_asked_for() {
    let common = json!({"severalNamespaces": true});
    let is_left = |observed: &Observed, key: &ObjectKey| {
        let mut memory = Memory::default();
        memory.refresh(observed, Timestamp::UNIX_EPOCH);
        memory.leaves_deleted(observed, key)
    };
    assert!(is_left(&observed(&common, None, None), &definition()));
    assert!(!is_left(&observed(&common, None, None), &key("", "ConfigMap")), "it has no instances");
    assert!(!is_left(&observed(&common, Some("now"), None), &definition()), "it is asked for");
    assert!(is_left(&observed(&common, Some("now"), Some("now")), &definition()), "that was answered");
    assert!(!is_left(&observed(&json!({"severalNamespaces": false}), None, None), &definition()));
    assert!(!is_left(&observed(&Value::Null, None, None), &definition()));

    let mut suspended = observed(&common, Some("now"), None);
    Arc::make_mut(&mut suspended.deployment).spec.suspend = true;
    assert!(is_left(&suspended, &definition()), "nothing is written");
}

#[test]
fn a_definition_that_was_asked_for_is_tried_until_it_is_there() {
    let common = json!({"severalNamespaces": true});
    let mut memory = Memory::default();
    memory.refresh(&observed(&common, Some("now"), None), Timestamp::UNIX_EPOCH);
    let answered = observed(&common, Some("now"), Some("now"));
    memory.refresh(&answered, Timestamp::UNIX_EPOCH);
    assert!(!memory.leaves_deleted(&answered, &definition()), "it could not be made the first time");
    memory.learn_repaired();
    assert!(memory.leaves_deleted(&answered, &definition()), "whoever deletes it after that wants it so");
}

#[test]
fn a_definition_that_was_deleted_is_told_and_made_again_before_an_upgrade_that_waits_for_its_approval() {
    let (mut common, gone) = (observed(&json!({"severalNamespaces": true}), None, None), objects(State::NotFound));
    let newer = Release::new(Digest::sha256(b"newer"), Format::Registry, None);
    let (bundle, hash) = ("pump-2".to_owned(), "2".to_owned());
    common.desired = Desired::Ready { bundle, hash, pin: Pin::default(), release: newer.clone() };
    let mut memory = installed(&gone);
    let (stage, message, class) = (Stage::Unapproved, "a Plan waits".to_owned(), Class::Blocked);
    let problem = Problem { stage, message, class, can_go_back: false };
    memory.learn_failed(&common, (newer, Why::Upgrade), problem, Timestamp::UNIX_EPOCH);
    let of = |type_| told(type_, &common, &memory, &gone).map(|(word, _)| word);
    assert_eq!(of(READY).as_deref(), Some(reason::WAITING_FOR_APPROVAL));
    assert_eq!(of(DEFINITION_DELETED).as_deref(), Some(reason::DEFINITION_DELETED));

    let mut asked = observed(&json!({"severalNamespaces": true}), Some("now"), None);
    (asked.desired, asked.drifted) = (common.desired, BTreeSet::from([definition()]));
    memory.refresh(&asked, Timestamp::UNIX_EPOCH);
    let repair = Decision::Repair { release: release(), objects: BTreeSet::from([definition()]) };
    assert_eq!(decide(&asked, &memory, Timestamp::UNIX_EPOCH), repair);
    memory.repairs_of(&definition()).failed(Class::Transient, Timestamp::UNIX_EPOCH);
    let decision = decide(&asked, &memory, Timestamp::UNIX_EPOCH);
    assert!(matches!(decision, Decision::Install { why: Why::Upgrade | Why::First, .. }), "{decision:?}");
}

#[test]
fn every_definition_that_was_deleted_is_named_where_ready_names_ten() {
    let common = observed(&json!({"severalNamespaces": true}), None, None);
    let one = objects(State::NotFound).remove(&definition()).expect("it is deleted");
    let names: Vec<String> = (10..22).map(|number| format!("pumps{number}.example.com")).collect();
    let key = |name: &String| ObjectKey { name: name.clone(), ..definition() };
    let gone: Objects = names.iter().map(|name| (key(name), one.clone())).collect();

    let (_, all) = told(DEFINITION_DELETED, &common, &installed(&gone), &gone).expect("it is told");
    let listed: Vec<&str> = all.split([' ', ',']).filter(|word| word.ends_with(".example.com")).collect();
    assert_eq!(listed, names, "a ClusterServiceVersion lists what this names");
    let (_, message) = ready(&common, &gone);
    assert!(message.contains(&names[9]) && !message.contains(&names[10]), "{message}");
    assert!(message.contains("and 2 more"), "{message}");
}

#[test]
fn a_definition_that_was_deleted_is_named_with_what_brings_it_back_whatever_the_gate_says() {
    let (common, gone) = (observed(&json!({"severalNamespaces": true}), None, None), objects(State::NotFound));
    let (word, message) = ready(&common, &gone);
    assert_eq!(word, reason::DEFINITION_DELETED);
    assert!(message.contains(NAME) && message.contains(names::RECONCILE_REQUESTED_AT), "{message}");
    assert_eq!(told(DEFINITION_DELETED, &common, &installed(&gone), &gone), Some((word, message)));
    let well = objects(State::Current);
    assert_eq!(ready(&common, &well).0, reason::SUCCEEDED);
    assert_eq!(told(DEFINITION_DELETED, &common, &installed(&well), &well), None);
    assert_eq!(ready(&observed(&Value::Null, None, None), &gone).0, reason::SUCCEEDED, "it is made again");
}
