use serde_json::{Value, json};

use super::*;
use crate::installed::Identity;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn subscription(status: Value) -> Subscription {
    let spec = json!({"name": "p", "source": "c", "sourceNamespace": "olm"});
    let metadata = json!({"name": "s", "namespace": "ns", "uid": "s-uid"});
    let mut object = json!({"metadata": metadata, "spec": spec});
    if !status.is_null() {
        object["status"] = status;
    }
    serde_json::from_value(object).unwrap()
}

fn deployment(approval: &str) -> BundleDeployment {
    let spec = json!({"provisionerClassName": "c", "approval": approval,
        "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}});
    serde_json::from_value(json!({"metadata": {"name": "p.ns", "uid": "u"}, "spec": spec})).unwrap()
}

fn seen(is_installed: bool, stage: Stage) -> Seen {
    let wanted = Identity { name: "p.v1".to_owned(), reference: "r".to_owned(), ..Identity::default() };
    Seen { active: is_installed.then(|| wanted.clone()), wanted, stage }
}

fn asking(digest: &str) -> Seen {
    seen(false, Stage::Asking { digest: digest.to_owned() })
}

fn plan(body: &Value, approved: bool) -> Arc<InstallPlan> {
    let mut body = body.clone();
    body["spec"]["approved"] = json!(approved);
    Arc::new(serde_json::from_value(body).unwrap())
}

fn made(deployment: &BundleDeployment, seen: &Seen, plans: &[Arc<InstallPlan>]) -> Option<Value> {
    needed(deployment, seen, &subscription(Value::Null), (plans, plans)).0
}

#[test]
fn a_question_is_asked_once_and_another_one_takes_its_place() {
    let manual = deployment("Always");
    let first = made(&manual, &asking("d1"), &[]).expect("it is asked");
    assert_eq!(first["spec"]["approved"], false);
    assert_eq!((&first["spec"]["approval"], &first["spec"]["generation"]), (&json!("Manual"), &json!(1)));
    assert_eq!(first["metadata"]["ownerReferences"][0]["uid"], "s-uid");
    let plans = [plan(&first, false)];
    assert_eq!(made(&manual, &asking("d1"), &plans), None);

    let (second, over) = needed(&manual, &asking("d2"), &subscription(Value::Null), (&plans, &plans));
    let second = second.expect("it is another question");
    assert_ne!(second["metadata"]["name"], first["metadata"]["name"]);
    assert_eq!(second["spec"]["generation"], 2);
    assert_eq!(over.len(), 1, "nobody answered the first");
    let answered = [plan(&first, true)];
    assert_eq!(needed(&manual, &asking("d2"), &subscription(Value::Null), (&answered, &answered)).1.len(), 0);
}

#[test]
fn nothing_is_approved_that_nobody_was_asked_about() {
    let manual = deployment("Always");
    for stage in [Stage::Applying(String::new()), Stage::Unpacking(String::new()), Stage::Held(String::new())] {
        assert_eq!(made(&manual, &seen(false, stage.clone()), &[]), None, "{stage:?}");
    }
}

#[test]
fn an_automatic_one_is_approved_and_made_even_if_nobody_saw_the_installation_go_on() {
    let automatic = deployment("Automatic");
    assert_eq!(made(&automatic, &seen(false, Stage::Unpacking(String::new())), &[]), None);
    let done = made(&automatic, &seen(true, Stage::Succeeded), &[]).expect("it is made");
    assert_eq!((&done["spec"]["approval"], &done["spec"]["approved"]), (&json!("Automatic"), &json!(true)));
    let known =
        json!({"currentCSV": "p.v1", "installPlanRef": {"name": "install-x"}, "lastUpdated": "2026-01-01T00:00:00Z"});
    let (again, _) = needed(&automatic, &seen(true, Stage::Succeeded), &subscription(known), (&[], &[]));
    assert_eq!(again, None, "somebody has deleted it");
}

#[test]
fn five_are_kept() {
    let automatic = deployment("Automatic");
    let body = made(&automatic, &seen(true, Stage::Succeeded), &[]).expect("it is made");
    let plans: Vec<Arc<InstallPlan>> = (1..=7)
        .map(|generation| {
            let mut body = body.clone();
            body["spec"]["generation"] = json!(generation);
            plan(&body, true)
        })
        .collect();
    let (_, over) = needed(&automatic, &seen(true, Stage::Succeeded), &subscription(Value::Null), (&plans, &plans));
    let over: Vec<_> = over.iter().map(|plan| plan.spec.generation).collect();
    assert_eq!(over, [Some(2), Some(1)]);
}

#[test]
fn its_status_follows_the_installation() {
    let body = made(&deployment("Always"), &asking("d1"), &[]).expect("it is asked");
    let subscription = subscription(Value::Null);
    let told = |plan: &InstallPlan, seen: &Seen| {
        let about = About {
            seen,
            failure: None,
            version: None,
            subscription: Some(&subscription),
            group: None,
            question: None,
        };
        status(plan, &about, NOW)
    };
    let (asked, approved) = (plan(&body, false), plan(&body, true));
    let waiting = told(&asked, &asking("d1"));
    assert_eq!((waiting.phase.as_str(), waiting.conditions.len()), ("RequiresApproval", 0));
    assert_eq!(waiting.plan[0].resource.kind, "ClusterServiceVersion");
    assert_eq!(told(&approved, &seen(false, Stage::Applying(String::new()))).phase, "Installing");
    let held = told(&approved, &seen(false, Stage::Held("no right".to_owned())));
    assert_eq!(
        (held.phase.as_str(), held.message.as_str()),
        ("Installing", "retrying execution due to error: no right")
    );
    let complete = told(&approved, &seen(true, Stage::Applied(String::new())));
    assert_eq!((complete.phase.as_str(), complete.conditions[0].status), ("Complete", ConditionStatus::True));
    let broken = Stage::Failed { reason: "InstallComponentFailed", message: "no".to_owned() };
    let failed = told(&approved, &seen(false, broken.clone()));
    assert_eq!((failed.phase.as_str(), failed.conditions[0].reason.as_str()), ("Failed", "InstallComponentFailed"));
    let mut done = (*approved).clone();
    done.status = Some(complete.clone());
    assert_eq!(told(&done, &seen(true, broken)), complete, "what is complete stays so");
}

/// The queue of Subscriptions may be ahead of that of BundleDeployments, as it is after a restart.
#[test]
fn one_whose_version_is_installed_is_complete_though_the_next_is_wanted() {
    let body = made(&deployment("Automatic"), &seen(true, Stage::Succeeded), &[]).expect("it is made");
    let subscription = subscription(Value::Null);
    let next = Identity { name: "p.v2".to_owned(), ..Identity::default() };
    let of = |active: Option<&str>| Seen {
        active: active.map(|name| Identity { name: name.to_owned(), ..Identity::default() }),
        wanted: next.clone(),
        stage: Stage::Applying(String::new()),
    };
    let told = |active: Option<&str>, before: Option<&str>| {
        let mut plan = (*plan(&body, true)).clone();
        plan.status = before.map(|phase| InstallPlanStatus { phase: phase.to_owned(), ..InstallPlanStatus::default() });
        let (seen, subscription) = (of(active), Some(&subscription));
        let about = About { seen: &seen, failure: None, version: None, subscription, group: None, question: None };
        status(&plan, &about, NOW)
    };
    for before in [None, Some(""), Some("Installing")] {
        let done = told(Some("p.v1"), before);
        assert_eq!((done.phase.as_str(), done.conditions[0].status), ("Complete", ConditionStatus::True), "{before:?}");
    }
    assert_eq!(told(Some("p.v0"), Some("Installing")).phase, "Installing", "it was overtaken");
    assert_eq!(told(Some("p.v1"), Some("Failed")).phase, "Failed", "it has one fate");
}
