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
use crate::health::Health;
use crate::memory::Differences;
use crate::observed::Dependencies;
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
    Observed {
        deployment: Arc::new(deployment),
        status: BundleDeploymentStatus {
            last_handled_reconcile_at: answered.map(str::to_owned),
            ..BundleDeploymentStatus::default()
        },
        desired: Desired::Ready { bundle, hash, pin: Pin::default(), release: release() },
        dependencies: Dependencies::Ready,
        dependants: Vec::new(),
        foreign_bundles: Vec::new(),
        drifted: BTreeSet::new(),
        is_touched: false,
        is_unblocked: false,
        unwatched: Vec::new(),
        health_gate: false,
        proxy: None,
    }
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

/// Reason and message of `Ready`.
fn ready(observed: &Observed, objects: &Objects) -> (String, String) {
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
    memory.learn_applied(applied, Pruning::Done, Differences::default(), Timestamp::UNIX_EPOCH);
    let report = status(observed, &observed.status, &memory, objects, Timestamp::UNIX_EPOCH);
    let ready = report.status.conditions.find(READY).expect("it is told");
    (ready.reason.clone(), ready.message.clone())
}

#[test]
fn a_definition_in_common_stays_deleted_until_a_reconcile_is_asked_for() {
    let common = json!({"severalNamespaces": true});
    assert!(observed(&common, None, None).leaves_deleted(&definition()));
    assert!(!observed(&common, None, None).leaves_deleted(&key("", "ConfigMap")), "it has no instances");
    assert!(!observed(&common, Some("now"), None).leaves_deleted(&definition()), "it is asked for");
    assert!(observed(&common, Some("now"), Some("now")).leaves_deleted(&definition()), "that was answered");
    assert!(!observed(&json!({"severalNamespaces": false}), None, None).leaves_deleted(&definition()));
    assert!(!observed(&Value::Null, None, None).leaves_deleted(&definition()));
}

#[test]
fn a_definition_that_was_deleted_is_named_with_what_brings_it_back_whatever_the_gate_says() {
    let (common, gone) = (observed(&json!({"severalNamespaces": true}), None, None), objects(State::NotFound));
    let (word, message) = ready(&common, &gone);
    assert_eq!(word, reason::DEFINITION_DELETED);
    assert!(message.contains(NAME) && message.contains(names::RECONCILE_REQUESTED_AT), "{message}");
    assert_eq!(ready(&common, &objects(State::Current)).0, reason::SUCCEEDED);
    assert_eq!(ready(&observed(&Value::Null, None, None), &gone).0, reason::SUCCEEDED, "it is made again");
}
