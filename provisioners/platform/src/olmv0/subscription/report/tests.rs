use rukpak_catalog::Package;
use serde_json::{Value, json};

use super::super::choose::Offer;
use super::super::deprecations::advice;
use super::*;
use crate::installed::Identity;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn subscription(status: Value) -> Subscription {
    let spec = json!({"name": "p", "source": "c", "sourceNamespace": "olm"});
    let mut object = json!({"metadata": {"name": "s", "namespace": "ns", "uid": "u"}, "spec": spec});
    if !status.is_null() {
        object["status"] = status;
    }
    serde_json::from_value(object).unwrap()
}

fn identity(version: &str) -> Identity {
    Identity { package: "p".to_owned(), name: format!("p.v{version}"), ..Identity::default() }
}

fn plan(name: &str, version: &str, phase: &str) -> Arc<InstallPlan> {
    let spec =
        json!({"clusterServiceVersionNames": [format!("p.v{version}")], "approval": "Manual", "approved": false});
    let plan =
        json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec, "status": {"phase": phase}});
    Arc::new(serde_json::from_value(plan).unwrap())
}

fn source(health: Health) -> (Arc<CatalogSource>, Health) {
    let source = json!({"metadata": {"name": "c", "namespace": "olm"}, "spec": {"sourceType": "grpc"}});
    (Arc::new(serde_json::from_value(source).unwrap()), health)
}

fn ready() -> Health {
    Health::Ready { since: None, trouble: None }
}

fn view<'a>(subscription: &'a Subscription, sources: &'a [(Arc<CatalogSource>, Health)]) -> View<'a> {
    View {
        subscription,
        sources,
        failure: None,
        advice: None,
        seen: None,
        plan: None,
        has_referenced: false,
        is_left: false,
        versions: Vec::new(),
    }
}

fn said(status: &SubscriptionStatus) -> Vec<(&str, &str)> {
    status.conditions.iter().map(|condition| (condition.type_.as_str(), condition.reason.as_str())).collect()
}

const HEALTHY: (&str, &str) = ("CatalogSourcesUnhealthy", "AllCatalogSourcesHealthy");

#[test]
fn a_manual_upgrade_shows_its_plan_and_what_is_still_installed() {
    let (subscription, sources) = (subscription(Value::Null), [source(ready())]);
    let asking = Seen {
        wanted: identity("2.0.0"),
        active: Some(identity("1.0.0")),
        stage: Stage::Asking { digest: "d".to_owned() },
    };
    let view = View {
        seen: Some(&asking),
        plan: Some(plan("install-b", "2.0.0", "RequiresApproval")),
        versions: vec!["p.v1.0.0".to_owned()],
        ..view(&subscription, &sources)
    };
    let status = status(&view, NOW);
    let names = (status.current_csv.as_str(), status.installed_csv.as_str(), status.state.as_str());
    assert_eq!(names, ("p.v2.0.0", "p.v1.0.0", "UpgradePending"));
    assert_eq!(status.install_plan_ref.as_ref().map(|reference| reference.name.as_str()), Some("install-b"));
    assert_eq!(said(&status), [HEALTHY, ("InstallPlanPending", "RequiresApproval")]);
}

#[test]
fn it_is_at_the_latest_known_as_soon_as_its_version_is_there() {
    let (subscription, sources) = (subscription(Value::Null), [source(ready())]);
    let seen = Seen { wanted: identity("1.0.0"), active: None, stage: Stage::Applying(String::new()) };
    let view = View {
        seen: Some(&seen),
        plan: Some(plan("install-a", "1.0.0", "Complete")),
        versions: vec!["p.v1.0.0".to_owned()],
        ..view(&subscription, &sources)
    };
    let status = status(&view, NOW);
    let names = (status.current_csv.as_str(), status.installed_csv.as_str(), status.state.as_str());
    assert_eq!(names, ("p.v1.0.0", "p.v1.0.0", "AtLatestKnown"));
    assert_eq!(said(&status), [HEALTHY]);
}

#[test]
fn an_upgrade_that_nobody_saw_is_told_only_with_its_own_plan() {
    let (subscription, sources) = (subscription(Value::Null), [source(ready())]);
    let seen =
        Seen { wanted: identity("2.0.0"), active: Some(identity("2.0.0")), stage: Stage::Applied(String::new()) };
    let current = |version: &str, versions: &[&str]| {
        let plan = Some(plan("install", version, "Complete"));
        let versions = versions.iter().map(|version| format!("p.v{version}")).collect();
        status(&View { seen: Some(&seen), plan, versions, ..view(&subscription, &sources) }, NOW).current_csv
    };
    assert_eq!(current("1.0.0", &["1.0.0"]), "p.v1.0.0", "it would pass for one whose InstallPlan was deleted");
    assert_eq!(current("2.0.0", &["1.0.0"]), "p.v2.0.0");
    assert_eq!(current("1.0.0", &["1.0.0", "2.0.0"]), "p.v2.0.0", "the InstallPlan was deleted");
}

#[test]
fn what_was_deleted_stays_pending_with_its_plan() {
    let status_before = json!({"currentCSV": "p.v1.0.0", "installedCSV": "p.v1.0.0", "lastUpdated": "2026-01-01T00:00:00Z",
        "installPlanRef": {"name": "install-a", "uid": "install-a"}});
    let (subscription, sources) = (subscription(status_before), [source(ready())]);
    let view = View { plan: Some(plan("install-a", "1.0.0", "Complete")), ..view(&subscription, &sources) };
    let status = status(&view, NOW);
    assert_eq!((status.current_csv.as_str(), status.state.as_str()), ("p.v1.0.0", "UpgradePending"));
}

#[test]
fn only_the_source_that_is_named_makes_it_unhealthy() {
    let subscription = subscription(Value::Null);
    let message = |sources: &[_]| status(&view(&subscription, sources), NOW).conditions[0].message.clone();
    assert_eq!(message(&[]), "targeted catalogsource olm/c missing");
    assert_eq!(message(&[source(Health::Failed("no".to_owned()))]), "targeted catalogsource olm/c unhealthy");
    assert_eq!(message(&[source(Health::Unlooked)]), "all available catalogsources are healthy");
}

#[test]
fn whoever_begins_to_look_says_of_a_source_what_was_said_before() {
    for health in [ready(), Health::Failed("no".to_owned())] {
        let mut subscription = subscription(Value::Null);
        let told = status(&view(&subscription, &[source(health)]), NOW);
        subscription.status = Some(told.clone());
        let begun = status(&view(&subscription, &[source(Health::Unlooked)]), Timestamp::from_second(60).unwrap());
        assert!(is_same(&told, &begun), "{begun:?}");
    }
}

#[test]
fn a_failure_is_told_and_times_move_only_with_what_is_said() {
    let (mut subscription, sources) = (subscription(Value::Null), [source(ready())]);
    let failure = || Some(Failure::unsatisfiable("constraints not satisfiable: x".to_owned()));
    let first = status(&View { failure: failure(), ..view(&subscription, &sources) }, NOW);
    assert_eq!(said(&first), [HEALTHY, ("ResolutionFailed", "ConstraintsNotSatisfiable")]);
    subscription.status = Some(first.clone());
    let later = Timestamp::from_second(60).unwrap();
    let second = status(&View { failure: failure(), ..view(&subscription, &sources) }, later);
    assert!(is_same(&first, &second), "{second:?}");
    assert!(!is_same(&first, &status(&view(&subscription, &sources), later)));
}

#[test]
fn what_fails_before_somebody_is_asked_is_told_without_an_install_plan() {
    let (subscription, sources) = (subscription(Value::Null), [source(ready())]);
    let said_of = |stage: Stage, plan: Option<Arc<InstallPlan>>| {
        let seen = Seen { wanted: identity("2.0.0"), active: Some(identity("1.0.0")), stage };
        let status = status(&View { seen: Some(&seen), plan, ..view(&subscription, &sources) }, NOW);
        let last = status.conditions.last().expect("conditions").clone();
        (last.type_, last.reason, last.message)
    };
    let told = |type_: &str, reason: &str| (type_.to_owned(), reason.to_owned(), "no account".to_owned());
    let held = || Stage::Held("no account".to_owned());
    let failed = Stage::Failed { reason: "InstallComponentFailed", message: "no account".to_owned() };
    assert_eq!(said_of(held(), None), told("InstallPlanPending", "Planning"));
    assert_eq!(said_of(failed, None), told("InstallPlanFailed", "InstallComponentFailed"));
    assert_eq!(said_of(held(), Some(plan("old", "1.0.0", "Complete"))), told("InstallPlanPending", "Planning"));
    let own = said_of(held(), Some(plan("new", "2.0.0", "Installing")));
    assert_eq!((own.0.as_str(), own.1.as_str()), ("InstallPlanPending", "Installing"));
}

#[test]
fn all_that_is_wrong_is_told_at_a_time_and_advice_stays_until_the_catalog_is_asked_again() {
    let (mut subscription, sources) = (subscription(Value::Null), [source(Health::Failed("no".to_owned()))]);
    let stage = Stage::Failed { reason: "InstallComponentFailed", message: "broken".to_owned() };
    let seen = Seen { wanted: identity("2.0.0"), active: Some(identity("1.0.0")), stage };
    let advice = Some(vec![("BundleDeprecated", "is old".to_owned()), ("Deprecated", "is old".to_owned())]);
    let failure = Some(Failure::prevented("error using catalogsource olm/c: no".to_owned()));
    let first = status(&View { failure, advice, seen: Some(&seen), ..view(&subscription, &sources) }, NOW);
    let expected = [
        ("CatalogSourcesUnhealthy", "UnhealthyCatalogSourceFound"),
        ("ResolutionFailed", "ErrorPreventedResolution"),
        ("InstallPlanFailed", "InstallComponentFailed"),
        ("BundleDeprecated", ""),
        ("Deprecated", ""),
    ];
    assert_eq!(said(&first), expected);
    assert!(first.conditions.iter().all(|condition| condition.status == ConditionStatus::True));

    subscription.status = Some(first);
    let unasked = status(&view(&subscription, &sources), NOW);
    assert_eq!(said(&unasked), [expected[0], expected[3], expected[4]]);
    let well = status(&View { advice: Some(Vec::new()), ..view(&subscription, &[source(ready())]) }, NOW);
    assert_eq!(said(&well), [HEALTHY]);
}

#[test]
fn drops_deprecation_conditions_when_the_catalog_has_lost_the_package() {
    let (mut subscription, sources) = (subscription(Value::Null), [source(ready())]);
    let of = |subscription: &Subscription, offer: Offer<'_>| {
        status(&View { advice: advice(offer, "", None), ..view(subscription, &sources) }, NOW)
    };
    let package = Package { name: "p".to_owned(), deprecation: Some("is old".to_owned()), ..Package::default() };
    let deprecated = of(&subscription, Offer::Package(&package));
    let expected = [HEALTHY, ("PackageDeprecated", ""), ("Deprecated", "")];
    assert_eq!(said(&deprecated), expected);

    subscription.status = Some(deprecated);
    assert_eq!(said(&of(&subscription, Offer::NoCatalog)), expected, "nobody was asked");
    assert_eq!(said(&of(&subscription, Offer::NoPackage)), [HEALTHY]);
}

#[test]
fn a_plan_that_is_there_is_not_missed_whosever_it_is() {
    let status_before = json!({"currentCSV": "p.v1.0.0", "installedCSV": "p.v1.0.0", "lastUpdated": "2026-01-01T00:00:00Z",
        "installPlanRef": {"name": "install-a", "uid": "install-a"}});
    let (subscription, sources) = (subscription(status_before), [source(ready())]);
    let seen = Seen { wanted: identity("1.0.0"), active: Some(identity("1.0.0")), stage: Stage::Succeeded };
    let is_missed = |has_referenced: bool| {
        let versions = vec!["p.v1.0.0".to_owned()];
        let view = View { seen: Some(&seen), has_referenced, versions, ..view(&subscription, &sources) };
        let status = status(&view, NOW);
        assert_eq!(status.install_plan_ref.as_ref().map(|plan| plan.name.as_str()), Some("install-a"));
        said(&status).contains(&("InstallPlanMissing", "ReferencedInstallPlanNotFound"))
    };
    assert!(is_missed(false) && !is_missed(true));
}

#[test]
fn what_olm_has_left_goes_on_saying_what_it_said_whatever_its_plan_is_of() {
    let status_before = json!({"currentCSV": "p.v2.0.0", "installedCSV": "p.v1.0.0", "state": "UpgradePending",
        "installPlanRef": {"name": "install-b", "uid": "install-b"}, "lastUpdated": "2026-01-01T00:00:00Z"});
    let (subscription, sources) = (subscription(status_before), [source(ready())]);
    let mut common = (*plan("install-c", "1.0.0", "Complete")).clone();
    common.spec.cluster_service_version_names = vec!["q.v1.0.0".to_owned(), "p.v1.0.0".to_owned()];
    let versions = vec!["p.v1.0.0".to_owned(), "q.v1.0.0".to_owned()];
    let failure = Some(Failure::prevented("it is OLM's".to_owned()));
    let view = View { plan: Some(Arc::new(common)), is_left: true, versions, failure, ..view(&subscription, &sources) };
    let status = status(&view, NOW);
    let names = (status.current_csv.as_str(), status.installed_csv.as_str(), status.state.as_str());
    assert_eq!(names, ("p.v2.0.0", "p.v1.0.0", "UpgradePending"));
    assert_eq!(status.install_plan_ref.as_ref().map(|plan| plan.name.as_str()), Some("install-b"));
    assert_eq!(said(&status), [HEALTHY, ("ResolutionFailed", "ErrorPreventedResolution")]);
}
