use rukpak_crds::{BundleDeployment, BundleDeploymentSpec, BundleDeploymentStatus};

use super::*;
use crate::applied::Objects;
use crate::kind::MissingKind;
use crate::missing::Need;
use crate::observed::Desired;

fn observed(proxy: Option<Digest>) -> Observed {
    let deployment = BundleDeployment::new("pump", BundleDeploymentSpec::default());
    let desired = Desired::Waiting { bundle: "pump-1".into(), why: None, is_stalled: false };
    Observed { proxy, ..Observed::of(deployment, BundleDeploymentStatus::default(), desired) }
}

#[test]
fn another_proxy_is_not_applied_to_operators_and_is_nothing_to_others() {
    let digest = |text: &str| Digest::sha256(text.as_bytes());
    let applied = Differences { proxy: Some(digest("old")), ..Differences::default() };
    let unapplied = |format, proxy| applied.unapplied(&observed(proxy), &Release::new(digest("content"), format, None));
    assert!(unapplied(Format::Registry, Some(digest("old"))).is_empty());
    assert_eq!(unapplied(Format::Registry, Some(digest("new"))), ["proxy of the cluster"]);
    assert_eq!(unapplied(Format::Registry, None), ["proxy of the cluster"]);
    assert!(unapplied(Format::Plain, Some(digest("new"))).is_empty());
}

#[test]
fn nothing_waits_for_a_day_because_the_clock_was_put_back_by_one() {
    let release = Release::new(Digest::sha256(b"content"), Format::Plain, None);
    let (mut observed, now) = (observed(None), Timestamp::from_second(1_000_000).unwrap());
    let (yesterday, wait) = (now.checked_sub(Duration::from_hours(24)).unwrap(), Duration::from_mins(10));
    let mut memory = Memory::default();
    memory.refresh(&observed, now);
    let pruning = Pruning::Awaiting { until: later(now, wait) };
    memory.learn_applied(nothing(&release, Vec::new()), pruning, Differences::default(), now);
    memory.refresh(&observed, yesterday);
    let Installation::Applied { pruning, .. } = &memory.installation else { panic!("it is applied") };
    assert_eq!(pruning.due(), Some(later(yesterday, wait)));

    // A failure that a status of tomorrow tells of.
    let record = release.record();
    let revision = serde_json::json!({"revision": 1, "result": "Failed", "time": now.to_string(),
        "contentDigest": record.content_digest, "format": record.format});
    observed.status = serde_json::from_value(serde_json::json!({"history": [revision]})).unwrap();
    let (bundle, hash) = ("pump-1".to_owned(), "1".to_owned());
    observed.desired = Desired::Ready { bundle, hash, pin: rukpak_crds::Pin::default(), release };
    let mut restarted = Memory::default();
    restarted.refresh(&observed, yesterday);
    let failure = restarted.failed_upgrade.expect("the status says so");
    assert!(failure.until.is_some_and(|until| until <= later(yesterday, wait)), "{:?}", failure.until);
}

/// A release without objects, applied, but for what is missing.
fn nothing(release: &Release, missing: Vec<Missing>) -> Applied {
    let plan = Plan {
        release: release.clone(),
        certificates_due: None,
        authorities: None,
        properties: Vec::new(),
        namespace: None,
        steps: BTreeMap::new(),
        missing,
        hooks: Vec::new(),
    };
    Applied::by(&plan, "", &Objects::new(), |_| false).expect("nothing is missing")
}

#[test]
fn after_a_restart_operators_have_the_proxy_that_the_status_says() {
    let digest = |text: &str| Digest::sha256(text.as_bytes());
    let release = Release::new(digest("content"), Format::Registry, None);
    for (recorded, is_applied) in [(Some("now"), true), (Some("before"), false), (None, false)] {
        let mut observed = observed(Some(digest("now")));
        let inventory = observed.status.inventory.get_or_insert_default();
        inventory.proxy = recorded.map(|text| digest(text).to_string());
        let mut memory = Memory::default();
        memory.learn_resumed(&observed, nothing(&release, Vec::new()), Timestamp::UNIX_EPOCH);
        let Installation::Applied { differences, .. } = &memory.installation else { panic!("it was applied") };
        assert_eq!(!differences.has_other_proxy(&observed, &release), is_applied, "{recorded:?}");
    }
}

#[test]
fn a_hook_that_is_over_is_looked_at_at_once_and_run_ever_more_rarely_where_it_fails() {
    let (release, now) = (Release::new(Digest::sha256(b"content"), Format::Helm, None), Timestamp::UNIX_EPOCH);
    let (observed, mut memory, mut waits) = (observed(None), Memory::default(), Vec::new());
    for _ in 0..3 {
        for stage in [Stage::Running(later(now, FORWARD_FOR)), Stage::Apply] {
            let is_definite = stage == Stage::Apply;
            let problem = Problem { stage, message: String::new(), class: Class::Terminal, can_go_back: false };
            memory.learn_failed(&observed, (release.clone(), Why::First), problem, now);
            assert!(memory.failure.as_ref().unwrap().is_held(now), "{stage:?}");
            if is_definite {
                waits.push(memory.failure.as_ref().unwrap().until);
            }
            memory.learn_hook_over(now);
            assert_eq!(memory.failure.as_ref().unwrap().is_held(now), is_definite);
        }
    }
    assert!(waits[0] < waits[1] && waits[1] < waits[2], "{waits:?}");
}

#[test]
fn tells_what_is_missing_again_once_the_upgrade_that_was_refused_is_taken_back() {
    let release = |text: &str| Release::new(Digest::sha256(text.as_bytes()), Format::Plain, None);
    let (observed, now) = (observed(None), Timestamp::UNIX_EPOCH);
    let key = ObjectKey { group: "example.com".into(), kind: "Db".into(), namespace: None, name: "db".into() };
    let kind = MissingKind { api_version: "example.com/v1".into(), kind: "Db".into() };
    let missing = vec![Missing { kind, need: Need::Object(key), served: None }];
    let mut memory = Memory::default();
    memory.learn_applied(nothing(&release("old"), missing), Pruning::Done, Differences::default(), now);
    let stage = |memory: &Memory| memory.failure.as_ref().map(|failure| failure.problem.stage);
    assert_eq!(stage(&memory), Some(Stage::Missing));

    let (message, class) = ("refused".to_owned(), Class::Terminal);
    let problem = Problem { stage: Stage::Check, message, class, can_go_back: true };
    memory.learn_failed(&observed, (release("new"), Why::Upgrade), problem, now);
    memory.refresh(&observed, now);
    assert_eq!(stage(&memory), None, "the upgrade is told of");
    memory.failed_upgrade = None;
    memory.refresh(&observed, now);
    assert_eq!(stage(&memory), Some(Stage::Missing));
}

#[test]
fn what_is_learned_of_an_installed_release_is_nothing_to_another_one() {
    let release = |text: &str| Release::new(Digest::sha256(text.as_bytes()), Format::Plain, None);
    let now = Timestamp::UNIX_EPOCH;
    let key = ObjectKey { group: String::new(), kind: "ConfigMap".into(), namespace: None, name: "a".into() };
    let mut memory = Memory::default();
    memory.learn_paused(&key, true);
    memory.learn_used(vec!["Namespace \"a\"".to_owned()]);
    memory.learn_pruned(&release("new"), Pruning::Done);
    assert!(matches!(memory.installation(), Installation::Unknown), "nothing is installed");

    let awaiting = || Pruning::Awaiting { until: now };
    memory.learn_applied(nothing(&release("new"), Vec::new()), awaiting(), Differences::default(), now);
    memory.learn_pruned(&release("old"), Pruning::Done);
    let Installation::Applied { pruning, differences, .. } = memory.installation() else { panic!("it is applied") };
    assert_eq!((pruning, &**differences), (&awaiting(), &Differences::default()));

    memory.learn_pruned(&release("new"), Pruning::Done);
    memory.learn_paused(&key, true);
    let Installation::Applied { pruning, differences, .. } = memory.installation() else { panic!("it is applied") };
    assert_eq!((pruning, &differences.paused), (&Pruning::Done, &BTreeSet::from([key])));
}

#[test]
fn waits_for_lists_or_for_content_and_for_neither_once_everything_is_applied() {
    let (release, now) = (Release::new(Digest::sha256(b"content"), Format::Plain, None), Timestamp::UNIX_EPOCH);
    let mut memory = Memory::default();
    assert!(memory.await_lists(now));
    assert!(memory.awaits_lists_until().is_some() && !memory.is_refetching());
    memory.learn_refetching();
    assert!(memory.awaits_lists_until().is_none() && memory.is_refetching());
    memory.learn_applied(nothing(&release, Vec::new()), Pruning::Done, Differences::default(), now);
    assert!(!memory.is_refetching());
}
