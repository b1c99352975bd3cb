//! Tests of the decisions about approval, without a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_crds::plan::{GrownRight, Listing};
use rukpak_crds::{BundleDeployment, BundleDeploymentSpec, BundleDeploymentStatus, DeletionPolicy, names};
use rukpak_plain::{Object, ObjectKey, Origin};
use serde_json::{Value, json};

use super::*;
use crate::observed::Desired;
use crate::owner::{ForeignOwner, Ownership};
use crate::owner_metadata::OwnerMetadata;
use crate::plan::{Objects, Served};
use crate::{Format, Kind};

const UID: &str = "11111111-1111-1111-1111-111111111111";

fn owner() -> Owner {
    Owner { name: "pump".into(), uid: UID.into() }
}

fn release(content: &str) -> Release {
    Release::new(Digest::sha256(content.as_bytes()), Format::Plain, None)
}

fn observed(spec: Value, status: Value) -> Observed {
    let spec: BundleDeploymentSpec = serde_json::from_value(merged(spec)).unwrap();
    let mut deployment = BundleDeployment::new("pump", spec);
    deployment.metadata.uid = Some(UID.into());
    let status: BundleDeploymentStatus = serde_json::from_value(status).unwrap();
    Observed::of(deployment, status, Desired::Waiting { bundle: "pump-2".into(), why: None, is_stalled: false })
}

fn merged(mut spec: Value) -> Value {
    spec["provisionerClassName"] = json!(names::CLASS_PLAIN);
    spec["template"] =
        json!({"spec": {"provisionerClassName": names::CLASS_PLAIN, "source": {"type": "upload", "upload": {}}}});
    spec
}

fn installed(release: &Release, since: &str, result: &str) -> Value {
    let mut revision = serde_json::to_value(release.record()).unwrap();
    revision["revision"] = json!(1);
    revision["result"] = json!(result);
    revision["time"] = json!(since);
    json!({"inventory": {"contentDigest": release.content.to_string()}, "history": [revision]})
}

/// A plan of these objects.
fn plan(content: &str, objects: &[Value]) -> crate::Plan {
    let mut served = Served::new();
    let all: Vec<Object> = objects
        .iter()
        .map(|object| {
            let object = Object::new(object.clone(), Origin::made_from("a test")).unwrap();
            let (group, version) = (object.group().to_owned(), object.version().to_owned());
            let resource = Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk(&group, &version, object.kind())));
            let namespaced =
                !matches!(object.kind(), "ClusterRole" | "ClusterRoleBinding" | "CustomResourceDefinition");
            let kind = Kind { resource, namespaced };
            served.insert((object.api_version().to_owned(), object.kind().to_owned()), Some(kind));
            object
        })
        .collect();
    let (optional, required) = (BTreeSet::new(), BTreeSet::new());
    let stamp = OwnerMetadata { owner: owner(), default_namespace: "n".into(), policy: DeletionPolicy::Delete };
    Objects { all, optional: &optional, required: &required }.plan(release(content), &served, &stamp, false).unwrap()
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": {"x": value}})
}

fn key(kind: &str, name: &str) -> ObjectKey {
    let group = if kind == "CustomResourceDefinition" { "apiextensions.k8s.io" } else { "" };
    let namespace = (kind != "CustomResourceDefinition").then(|| "n".to_owned());
    ObjectKey { group: group.into(), kind: kind.into(), namespace, name: name.into() }
}

fn meta(uid: &str) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    serde_json::from_value(json!({"uid": uid})).unwrap()
}

fn changes(old: Option<&crate::Plan>, new: &crate::Plan, there: &[&str], leaving: &[(ObjectKey, &str)]) -> Changes {
    let mut changes = Changes::between(old, new, |key| there.contains(&key.name.as_str()));
    for (key, uid) in leaving {
        changes.note_leaving(&owner(), key.clone(), &meta(uid));
    }
    changes
}

fn question(observed: &Observed, content: &str, changes: Changes) -> Question {
    let objects = Digest::sha256(content.as_bytes());
    let binds = bind(observed, &release(content), &objects, &changes);
    Question::new(&owner(), binds, None, changes.status("installs pump-2"))
}

/// The Plan that the controller makes of a question, with an answer.
fn made(question: &Question, approval: Option<PlanApproval>, age: i64) -> Plan {
    let mut plan = Plan::new(&question.name, PlanSpec { approval, ..question.spec.clone() });
    plan.metadata.owner_references = Some(vec![owner().reference()]);
    plan.metadata.creation_timestamp =
        Some(serde_json::from_value(json!(Timestamp::from_second(1_000_000 - age).unwrap())).unwrap());
    plan.status = Some(question.status());
    plan
}

#[test]
fn asks_as_the_policy_says_and_never_about_what_was_installed_before() {
    use ApprovalPolicy::{Always, Automatic, Escalations, Upgrades};
    let (plain, growing) = (Changes::default(), Changes { rights: vec![GrownRight::default()], ..Changes::default() });
    for (policy, why, changes, asked) in [
        (Automatic, Why::Upgrade, &growing, false),
        (Upgrades, Why::First, &growing, false),
        (Upgrades, Why::Upgrade, &plain, true),
        (Escalations, Why::First, &growing, true),
        (Escalations, Why::Upgrade, &plain, false),
        (Escalations, Why::Upgrade, &growing, true),
        (Always, Why::First, &plain, true),
        (Always, Why::Upgrade, &plain, true),
    ] {
        assert_eq!(asks(policy, why, changes), asked, "{policy:?} {why:?}");
    }

    let always = observed(json!({"approval": "Always"}), json!({}));
    for why in [Why::WayBack, Why::Resync, Why::Renewal, Why::Repair] {
        assert!(!may_ask(&always, why, &release("v1")), "{why:?}");
    }
    assert!(may_ask(&always, Why::First, &release("v1")) && may_ask(&always, Why::Upgrade, &release("v1")));
    let absent = observed(json!({}), json!({}));
    assert!(!may_ask(&absent, Why::First, &release("v1")), "as before there was a policy");

    let at = "2026-01-01T00:00:00Z";
    for (result, asked) in [("Healthy", false), ("Installed", false), ("Failed", true)] {
        let history = observed(json!({"approval": "Always"}), installed(&release("v1"), at, result));
        assert_eq!(may_ask(&history, Why::Rollback, &release("v1")), asked, "{result}");
        assert!(may_ask(&history, Why::Rollback, &release("v0")), "of which the history does not tell");
    }
}

#[test]
fn tells_what_is_created_changed_orphaned_and_deleted() {
    let old = plan("v1", &[config_map("same", "1"), config_map("other", "1"), config_map("gone", "1")]);
    let new = plan(
        "v2",
        &[config_map("same", "1"), config_map("other", "2"), config_map("new", "1"), config_map("found", "1")],
    );
    let leaving = [
        (key("ConfigMap", "gone"), "u1"),
        (key("PersistentVolumeClaim", "data"), "u2"),
        (key("CustomResourceDefinition", "pumps.example.com"), "u3"),
    ];
    let changes = changes(Some(&old), &new, &["found"], &leaving);
    let orphan = Action::Orphan { uid: "u2".into() };
    assert_eq!(changes.actions[&key("PersistentVolumeClaim", "data")], orphan, "data is not deleted");
    let status = changes.status("replaces pump-1 with pump-2");
    let names = |list: &Listing<rukpak_crds::plan::PlannedObject>| -> Vec<String> {
        list.items.iter().map(|object| object.name.clone()).collect()
    };
    assert_eq!(names(&status.created), ["new"]);
    assert_eq!(names(&status.changed), ["found", "other"]);
    assert_eq!(names(&status.orphaned), ["data"]);
    assert_eq!(names(&status.deleted), ["gone", "pumps.example.com"]);
    assert_eq!(status.deleted.items[1].note, "unless it has instances: then it is orphaned");
    assert_eq!(
        status.summary,
        "replaces pump-1 with pump-2: creates 1 object, changes 2 objects, orphans 1 object, deletes 2 objects"
    );
}

#[test]
fn what_is_left_alone_is_no_change_and_what_may_be_made_anew_is_noted() {
    let annotated = |name: &str, value: &str, annotation: &str, text: &str| {
        let mut object = config_map(name, value);
        object["metadata"]["annotations"] = json!({annotation: text});
        object
    };
    let objects = |value: &str| {
        [
            annotated("paused", value, rukpak_crds::names::RECONCILE, rukpak_crds::names::DISABLED),
            annotated("forced", value, rukpak_crds::names::FORCE, rukpak_crds::names::ENABLED),
        ]
    };
    let changed = changes(Some(&plan("v1", &objects("1"))), &plan("v2", &objects("2")), &[], &[]);
    let changed = changed.status("replaces v1").changed.items;
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(changed[0].name, "forced");
    assert_eq!(changed[0].note, "deleted and made anew where a field cannot be changed");
}

/// A yes for a creation is none for what somebody else has made.
#[test]
fn tells_what_is_taken_over_shared_and_not_listed_and_binds_it() {
    let shown = |ownership: Option<Ownership>, uid: &str| {
        let new = plan("v2", &[config_map("a", "1")]);
        let mut changes = changes(None, &new, &[], &[]);
        if let Some(ownership) = ownership {
            let key = changes.created().next().expect("it is created").clone();
            changes.note_found(key, &ownership, &meta(uid));
        }
        let text = changes.text();
        (text, changes.status("installs v2"))
    };
    let (created, status) = shown(None, "");
    assert_eq!((status.created.count, status.changed.count), (1, 0));
    assert_eq!(shown(Some(Ownership::Terminating), "u").0, created, "it is created once that is gone");
    for ownership in [Ownership::AdoptionAllowed, Ownership::Foreign(ForeignOwner::Unknown)] {
        let (text, status) = shown(Some(ownership.clone()), "u");
        assert_eq!((status.created.count, status.changed.count), (0, 1), "{ownership:?}");
        assert!(!status.changed.items[0].note.is_empty() && text != created, "{ownership:?}");
        assert_ne!(shown(Some(ownership), "another").0, text, "it is for one object");
    }

    let mut changes = changes(None, &plan("v2", &[]), &[], &[]);
    changes.note_unlisted("g", "Gadget");
    let deleted = changes.status("installs v2").deleted.items;
    assert_eq!((deleted[0].kind.as_str(), deleted[0].name.as_str()), ("Gadget", "*"));
}

#[test]
fn tells_images_versions_and_rights() {
    let workload = |image: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
            "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}],
                "initContainers": [{"name": "init", "image": "i:1"}]}}}})
    };
    let crd = |versions: &[&str]| {
        let versions: Vec<Value> = versions.iter().map(|name| json!({"name": name, "served": true})).collect();
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "pumps.example.com"}, "spec": {"versions": versions}})
    };
    let role = |verb: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": [verb]}]})
    };
    let old = plan("v1", &[workload("a:1"), crd(&["v1", "v1alpha1"]), role("create")]);
    let new = plan("v2", &[workload("a:2"), crd(&["v1", "v2"]), role("list")]);
    let status = changes(Some(&old), &new, &[], &[]).status("x");
    assert_eq!((status.images.count, &*status.images.items[0].from, &*status.images.items[0].to), (1, "a:1", "a:2"));
    let version = &status.versions.items[0];
    assert_eq!((version.added.as_slice(), version.removed.as_slice()), (&["v2".into()][..], &["v1alpha1".into()][..]));
    assert!(status.rights.items[0].escalation, "secrets of all namespaces: {:?}", status.rights);
    assert!(
        status
            .summary
            .ends_with("grants 1 right more, with escalation, changes 1 image, adds or removes versions of 1 CRD")
    );
}

#[test]
fn a_right_that_gives_no_other_is_granted_without_escalation() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "n"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]});
    let status = changes(Some(&plan("v1", &[])), &plan("v2", &[role]), &[], &[]).status("x");
    assert!(status.summary.ends_with("grants 1 right more"), "{}", status.summary);
}

#[test]
fn binds_everything_that_decides() {
    let new = plan("v2", &[config_map("a", "1")]);
    let leave = |uid| [(key("ConfigMap", "gone"), uid)];
    let status = installed(&release("v1"), "2026-01-01T00:00:00Z", "Healthy");
    let base = observed(json!({}), status.clone());
    let first = question(&base, "v2", changes(None, &new, &[], &leave("u1")));
    let digest =
        |observed: &Observed, content: &str, changes: Changes| question(observed, content, changes).spec.digest;
    assert_eq!(digest(&base, "v2", changes(None, &new, &[], &leave("u1"))), first.spec.digest, "the same again");

    let other_account = observed(json!({"serviceAccount": {"name": "a", "namespace": "n"}}), status);
    let reinstalled = observed(json!({}), installed(&release("v1"), "2026-01-02T00:00:00Z", "Healthy"));
    let others = [
        ("content", digest(&base, "v3", changes(None, &new, &[], &leave("u1")))),
        ("account", digest(&other_account, "v2", changes(None, &new, &[], &leave("u1")))),
        ("UID of what is deleted", digest(&base, "v2", changes(None, &new, &[], &leave("u2")))),
        ("change instead of creation", digest(&base, "v2", changes(None, &new, &["a"], &leave("u1")))),
        (
            "a later installation of the release before",
            digest(&reinstalled, "v2", changes(None, &new, &[], &leave("u1"))),
        ),
    ];
    for (what, other) in others {
        assert_ne!(other, first.spec.digest, "{what}");
    }
    let other = Owner { uid: "22222222-2222-2222-2222-222222222222".into(), ..owner() };
    let theirs = Question::new(&other, first.spec.binds.clone(), None, first.status.clone());
    assert_ne!(theirs.spec.digest, first.spec.digest, "another deployment of the name");
}

#[test]
fn order_of_manifests_makes_no_other_digest_and_content_does() {
    let object = |value: Value| Object::new(value, Origin::made_from("a test")).unwrap();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let digest = |objects: [&Value; 2]| digest_objects(&objects.map(|value| object(value.clone())));
    assert_eq!(digest([&a, &b]), digest([&b, &a]));
    assert_ne!(digest([&a, &b]), digest([&config_map("a", "2"), &b]));
}

#[test]
fn only_the_controllers_plan_answers() {
    let base = observed(json!({"approval": "Always"}), json!({}));
    let asked = question(&base, "v1", Changes::default());
    let plan = made(&asked, Some(PlanApproval::Approved), 0);
    assert!(is_genuine(&plan, &owner()));
    assert_eq!(asked.answer(&base, &plan), Answer::Yes);
    assert_eq!(asked.answer(&base, &made(&asked, None, 0)), Answer::None);

    let named = observed(json!({"approval": "Always", "approvedPlan": asked.spec.digest}), json!({}));
    assert_eq!(asked.answer(&named, &made(&asked, None, 0)), Answer::Yes);
    assert_eq!(asked.answer(&named, &made(&asked, Some(PlanApproval::Rejected), 0)), Answer::No, "a no is louder");

    let mut of_bundle = plan.clone();
    of_bundle.metadata.labels = Some([(OWNER_KIND.to_owned(), "BundleDeployment".to_owned())].into());
    let mut unowned = plan.clone();
    unowned.metadata.owner_references = None;
    let mut mislabelled = plan;
    mislabelled.spec.binds.content = "sha256:other".into();
    for (what, plan) in [("of a bundle", of_bundle), ("unowned", unowned), ("of another digest", mislabelled)] {
        assert!(!is_genuine(&plan, &owner()), "{what}");
    }
}

#[test]
fn goes_on_with_what_was_begun_and_not_with_anything_else() {
    let pending = |content: &str| {
        let mut record = serde_json::to_value(release(content).record()).unwrap();
        record["since"] = json!("2026-01-01T00:00:00Z");
        json!({"inventory": {"pending": record}})
    };
    let (fresh, begun) = (observed(json!({}), json!({})), observed(json!({}), pending("v2")));
    let new = plan("v2", &[config_map("a", "1")]);
    let asked = question(&fresh, "v2", changes(None, &new, &[], &[]));
    let approved = made(&asked, Some(PlanApproval::Approved), 0);
    let again = question(&begun, "v2", changes(None, &new, &["a"], &[]));
    let is_continued = |observed: &Observed, question: &Question, plan: &Plan| {
        question.is_continued(&owner(), observed, &release("v2"), &[plan])
    };
    assert_ne!(again.spec.digest, asked.spec.digest, "an object is there by now");
    assert!(is_continued(&begun, &again, &approved));
    assert!(!is_continued(&fresh, &again, &approved), "it was not begun");
    assert!(!is_continued(&begun, &again, &made(&asked, None, 0)), "it was not approved");
    let account = observed(json!({"serviceAccount": {"name": "a", "namespace": "n"}}), pending("v2"));
    let other = question(&account, "v2", changes(None, &new, &["a"], &[]));
    assert!(!is_continued(&account, &other, &approved), "by another account");
}

fn phases(situation: Situation<'_>, plans: &[&Plan]) -> Vec<(String, Option<PlanPhase>)> {
    let told = verdicts(situation, plans).into_iter().map(|(plan, verdict)| {
        let phase = match verdict {
            Verdict::Say(status) => Some(status.phase),
            Verdict::Collect => None,
        };
        (plan.metadata.name.clone().unwrap(), phase)
    });
    told.collect()
}

#[test]
fn plans_end_as_applied_or_expired_and_their_status_is_mended() {
    let base = observed(json!({"approval": "Always"}), json!({}));
    let (one, two) = (question(&base, "v1", Changes::default()), question(&base, "v2", Changes::default()));
    let (v1, v2) = (release("v1"), release("v2"));
    let owner = owner();
    let situation =
        Situation { owner: &owner, observed: &base, question: Some(&one), applied: None, wanted: Some(&v1) };
    let mut forged = made(&one, None, 0);
    forged.status = Some(PlanStatus { phase: PlanPhase::Applied, summary: "harmless".into(), ..PlanStatus::default() });
    assert_eq!(phases(situation, &[&forged]), [(one.name.clone(), Some(PlanPhase::Waiting))]);
    assert!(phases(situation, &[&made(&one, None, 0)]).is_empty(), "nothing to say");

    let changed = Situation { question: Some(&two), wanted: Some(&v2), ..situation };
    assert_eq!(phases(changed, &[&made(&one, None, 0)]), [(one.name.clone(), Some(PlanPhase::Expired))]);
    let unasked = Situation { question: None, wanted: Some(&v2), ..situation };
    assert_eq!(phases(unasked, &[&made(&one, None, 0)]), [(one.name.clone(), Some(PlanPhase::Expired))]);
    let unknown = Situation { question: None, wanted: None, ..situation };
    assert!(phases(unknown, &[&made(&one, None, 0)]).is_empty(), "the Bundle may be the same again");

    let done = Situation { question: None, applied: Some(&v1), wanted: Some(&v1), ..situation };
    let approved = made(&one, Some(PlanApproval::Approved), 0);
    assert_eq!(phases(done, &[&approved]), [(one.name.clone(), Some(PlanPhase::Applied))]);
    assert_eq!(
        phases(done, &[&made(&one, None, 0)]),
        [(one.name.clone(), Some(PlanPhase::Expired))],
        "nobody was asked"
    );
    assert_eq!(phases(done, &[&made(&two, None, 0)]), [(two.name, Some(PlanPhase::Expired))], "it went back");
}

#[test]
fn five_plans_are_kept_and_the_oldest_go() {
    let base = observed(json!({"approval": "Always"}), json!({}));
    let owner = owner();
    let asked = question(&base, "v9", Changes::default());
    let mut plans: Vec<Plan> =
        (1..=7).map(|age| made(&question(&base, &format!("v{age}"), Changes::default()), None, age)).collect();
    for plan in &mut plans {
        plan.status = Some(PlanStatus { phase: PlanPhase::Expired, ..PlanStatus::default() });
    }
    let current = made(&asked, None, 0);
    let all: Vec<&Plan> = plans.iter().chain([&current]).collect();
    let wanted = release("v9");
    let situation =
        Situation { owner: &owner, observed: &base, question: Some(&asked), applied: None, wanted: Some(&wanted) };
    let collected: Vec<&str> =
        verdicts(situation, &all).iter().map(|(plan, _)| plan.metadata.name.as_deref().unwrap()).collect();
    let oldest: Vec<&str> = plans[4..].iter().map(|plan| plan.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(collected, oldest, "four that are over stay beside the one that is asked");
}
