use std::collections::BTreeMap;

use rukpak_crds::ReleaseRecord;
use serde_json::json;

use super::*;

fn identity(version: &str) -> Identity {
    let (name, reference) = (format!("p.v{version}"), format!("r.example/p:{version}"));
    Identity { package: "p".to_owned(), name, version: version.to_owned(), reference, release: None }
}

fn extension(channels: &[&str], status: ClusterExtensionStatus) -> ClusterExtension {
    let mut extension: ClusterExtension = serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "e", "generation": 3},
        "spec": {"namespace": "ns",
                 "source": {"sourceType": "Catalog", "catalog": {"packageName": "p", "channels": channels}}},
    }))
    .unwrap();
    extension.status = Some(status);
    extension
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A report of an extension of which nothing else is known.
fn report(progress: Progress, installed: Option<Identity>) -> Report {
    Report { installed, ..Report::of(progress) }
}

fn said(report: &Report, channels: &[&str]) -> Vec<(String, ConditionStatus, String, String)> {
    let status = status(&extension(channels, ClusterExtensionStatus::default()), report, at(1));
    assert!(status.conditions.iter().all(|condition| condition.observed_generation == Some(3)));
    let installed = report.installed.as_ref();
    let bundle = status.install.map(|install| (install.bundle.name, install.bundle.version));
    assert_eq!(bundle, installed.map(|installed| (installed.name.clone(), installed.version.clone())));
    status.conditions.into_iter().map(|one| (one.type_, one.status, one.reason, one.message)).collect()
}

/// The rows of the table of outcomes: what `Progressing` and `Installed` say.
#[test]
fn what_is_said_of_each_situation() {
    use ConditionStatus::{False, True, Unknown};
    let message = || "m".to_owned();
    let one = Some(identity("1.0.0"));
    let no = (False, "Failed", "No bundle installed");
    let yes = (True, "Succeeded", "Installed bundle r.example/p:1.0.0 successfully");
    let table = [
        // Resolution fails; so do pulls, unsupported bundles, collisions and the API server.
        (Progress::Retrying(message()), None, (True, "Retrying", "m"), no),
        (Progress::Retrying(message()), one.clone(), (True, "Retrying", "m"), yes),
        (Progress::InvalidConfiguration(message()), None, (False, "InvalidConfiguration", "m"), no),
        (Progress::InvalidConfiguration(message()), one.clone(), (False, "InvalidConfiguration", "m"), yes),
        (Progress::Blocked(message()), None, (False, "Blocked", "m"), no),
        (Progress::RollingOut(message()), None, (True, "RollingOut", "m"), (False, "Absent", no.2)),
        (Progress::RollingOut(message()), one.clone(), (True, "RollingOut", "m"), yes),
        (
            Progress::DeadlineExceeded(message()),
            None,
            (False, "ProgressDeadlineExceeded", "m"),
            (False, "Absent", no.2),
        ),
        (Progress::DeadlineExceeded(message()), one.clone(), (False, "ProgressDeadlineExceeded", "m"), yes),
        (Progress::Succeeded, one, (True, "Succeeded", "Desired state reached"), yes),
        // What is installed cannot be read.
        (
            Progress::Unreadable(message()),
            None,
            (True, "Retrying", "retrying to get installed bundle"),
            (Unknown, "Failed", "m"),
        ),
    ];
    for (progress, installed, progressing, expected) in table {
        let report = report(progress, installed);
        let said = said(&report, &[]);
        let find = |type_: &str| {
            let found = said.iter().find(|condition| condition.0 == type_);
            found.map(|(_, status, reason, message)| (*status, reason.as_str(), message.as_str()))
        };
        assert_eq!(find("Progressing"), Some(progressing), "{report:?}");
        assert_eq!(find("Installed"), Some(expected), "{report:?}");
        let ready = if report.progress == Progress::Succeeded { True } else { False };
        assert_eq!(find("Ready"), Some((ready, progressing.1, progressing.2)), "{report:?}");
        let stalled = (progressing.0 == False).then_some((True, progressing.1, progressing.2));
        assert_eq!(find("Stalled"), stalled, "{report:?}");
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
    serde_json::from_value(json!({"type": type_, "status": status, "reason": reason, "message": message,
                                  "lastTransitionTime": "2026-01-01T00:00:00Z"}))
    .unwrap()
}

/// What a former owner has said nobody keeps true; `Available` is that of the BundleDeployment.
#[test]
fn conditions_of_a_former_owner_are_dropped() {
    use ConditionStatus::{False, True, Unknown};
    let stale = [
        condition("Available", "True", "ProbesSucceeded", "Objects are available and pass all probes."),
        condition("Succeeded", "True", "Succeeded", "Revision 1.0.0 has rolled out."),
    ];
    let old = ClusterExtensionStatus { conditions: stale.to_vec(), ..ClusterExtensionStatus::default() };
    let old = extension(&[], old);
    let said = |installed: Option<Identity>, health: Option<Condition>| {
        let report = Report { health, ..report(Progress::Succeeded, installed) };
        let status = status(&old, &report, at(1));
        assert!(status.conditions.find("Succeeded").is_none());
        let is_ill = report.health.as_ref().is_some_and(|health| health.status == False);
        assert_eq!(status.conditions.is("Ready", True), !is_ill);
        let found = status.conditions.find("Available");
        found.map(|found| (found.status, found.reason.clone(), found.message.clone()))
    };
    let expected = |status, reason: &str, message: &str| Some((status, reason.to_owned(), message.to_owned()));
    let one = || Some(identity("1.0.0"));
    let ill = condition("Healthy", "False", "Unhealthy", "0 of 1");
    assert_eq!(said(one(), None), None, "nobody has looked");
    assert_eq!(said(None, Some(ill.clone())), None, "nothing is installed");
    assert_eq!(said(one(), Some(ill)), expected(False, "ProbeFailure", "0 of 1"));
    assert_eq!(
        said(one(), Some(condition("Healthy", "True", "Healthy", "m"))),
        expected(True, "ProbesSucceeded", "Objects are available and pass all probes.")
    );
    let unread = condition("Healthy", "Unknown", "NotObserved", "m");
    assert_eq!(said(one(), Some(unread)), expected(Unknown, "Reconciling", "m"));
}

#[test]
fn deprecations_are_those_of_the_package_its_channels_and_what_is_installed() {
    use ConditionStatus::{False, True, Unknown};
    let of = |catalog: Option<Deprecations>, installed: Option<Identity>, channels: &[&str]| {
        let report = Report { catalog, ..report(Progress::Succeeded, installed) };
        let said = said(&report, channels);
        ["Deprecated", "PackageDeprecated", "ChannelDeprecated", "BundleDeprecated"].map(|type_| {
            let (_, status, reason, message) = said.iter().find(|condition| condition.0 == type_).unwrap();
            (*status, format!("{reason}: {message}"))
        })
    };
    let text = |(status, text): (ConditionStatus, &str)| (status, text.to_owned());
    let unknown = (Unknown, "DeprecationStatusUnknown: deprecation status unknown: catalog data unavailable");
    let absent = (Unknown, "Absent: no bundle installed yet");
    assert_eq!(of(None, None, &[]), [unknown, unknown, unknown, absent].map(text));
    assert_eq!(of(None, Some(identity("1.0.0")), &[]), [unknown; 4].map(text));
    let none = [
        (False, "NotDeprecated: not deprecated"),
        (False, "NotDeprecated: package not deprecated"),
        (False, "NotDeprecated: channel not deprecated"),
        (False, "NotDeprecated: bundle not deprecated"),
    ];
    assert_eq!(of(Some(Deprecations::default()), Some(identity("1.0.0")), &[]), none.map(text));
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let all = Deprecations {
        package: Some("P".to_owned()),
        channels: map(&[("alpha", "A"), ("beta", "B")]),
        bundles: map(&[("p.v1.0.0", "1"), ("p.v2.0.0", "2")]),
    };
    let every = [
        (True, "Deprecated: P\nA\nB\n1"),
        (True, "Deprecated: P"),
        (True, "Deprecated: A\nB"),
        (True, "Deprecated: 1"),
    ];
    assert_eq!(of(Some(all.clone()), Some(identity("1.0.0")), &[]), every.map(text));
    let beta = [(True, "Deprecated: P\nB"), (True, "Deprecated: P"), (True, "Deprecated: B"), none[3]];
    assert_eq!(of(Some(all.clone()), Some(identity("3.0.0")), &["beta"]), beta.map(text));
    assert_eq!(of(Some(all), None, &["stable"])[2..], [none[2], absent].map(text));
}

/// By upstream's names and in its words; what is not news keeps its time.
#[test]
fn revisions_say_how_their_rollout_goes() {
    use Stage::{Applied, Begun, Replaced, RolledOut};
    let revision = |number: i64, stage| ActiveRevision {
        number,
        version: format!("{number}.0.0"),
        stage,
        release: ReleaseRecord::default(),
        bundle: None,
    };
    let tell = |old: ClusterExtensionStatus, progress: Progress, revisions: &[ActiveRevision], second: i64| {
        let health = Some(condition("Healthy", "False", "Unhealthy", "0 of 1"));
        let report = Report { health, revisions: revisions.to_vec(), ..report(progress, Some(identity("2.0.0"))) };
        status(&extension(&[], old), &report, at(second))
    };
    let texts = |status: &ClusterExtensionStatus| -> Vec<(String, Vec<String>)> {
        let line = |one: &Condition| format!("{} {:?} {}: {}", one.type_, one.status, one.reason, one.message);
        let all = status.active_revisions.iter();
        all.map(|revision| (revision.name.clone(), revision.conditions.iter().map(line).collect())).collect()
    };
    let named = |name: &str, lines: &[&str]| (name.to_owned(), lines.iter().map(|line| (*line).to_owned()).collect());

    let under_way = Progress::RollingOut("Revision 2.0.0 is rolling out.".to_owned());
    let first = tell(ClusterExtensionStatus::default(), under_way, &[revision(1, Replaced), revision(2, Applied)], 1);
    let ill = "Available False ProbeFailure: 0 of 1";
    let rolling = "Progressing True RollingOut: Revision 2.0.0 is rolling out.";
    assert_eq!(texts(&first), [named("e-1", &[]), named("e-2", &[ill, rolling])]);
    let late = Progress::DeadlineExceeded("too late".to_owned());
    let second = tell(first, late, &[revision(2, Applied)], 2);
    let over = "Progressing False ProgressDeadlineExceeded: too late";
    assert_eq!(texts(&second), [named("e-2", &[ill, over])]);
    let times = second.active_revisions[0].conditions.iter().map(|one| one.last_transition_time);
    assert_eq!(times.collect::<Vec<_>>(), [at(1), at(2)]);
    let retried = Progress::Retrying("no".to_owned());
    let third = tell(second, retried, &[revision(2, RolledOut), revision(3, Begun)], 3);
    let begun = ["Available False RollingOut: Revision 3.0.0 is rolling out.", "Progressing True Retrying: no"];
    let done = "Progressing True Succeeded: Revision 2.0.0 has rolled out.";
    assert_eq!(texts(&third), [named("e-2", &[ill, done]), named("e-3", &begun)]);
    // What cannot be read stays as it was.
    let unread = Report::unreadable("no answer");
    assert_eq!(status(&extension(&[], third.clone()), &unread, at(4)).active_revisions, third.active_revisions);
}

#[test]
fn a_newer_version_is_told_until_somebody_has_looked_and_found_none() {
    let tell = |old: &ClusterExtensionStatus, installed: Option<Identity>, upgrade: Upgrade| {
        let report = Report { upgrade, ..report(Progress::Succeeded, installed) };
        status(&extension(&[], old.clone()), &report, at(1))
    };
    let told = |status: &ClusterExtensionStatus| {
        let found = status.conditions.find("UpgradeAvailable");
        found.map(|found| (found.status, format!("{}: {}", found.reason, found.message)))
    };
    let (one, new) = (|| Some(identity("1.0.0")), ClusterExtensionStatus::default());
    let available = Upgrade::Available { reason: "VersionConstraint", message: "2.0.0".to_owned() };
    let with = tell(&new, one(), available);
    assert_eq!(told(&with), Some((ConditionStatus::True, "VersionConstraint: 2.0.0".to_owned())));
    assert_eq!(told(&tell(&with, one(), Upgrade::Unlooked)), told(&with), "no catalog was asked");
    assert_eq!(told(&tell(&with, one(), Upgrade::Nothing)), None);
    assert_eq!(told(&tell(&with, None, Upgrade::Unlooked)), None, "nothing is installed any more");
}

#[test]
fn long_messages_end_as_upstreams_do() {
    let cut = truncated(&"ä".repeat(20_000));
    assert!(cut.len() <= MESSAGE_BYTES && cut.ends_with("... [message truncated]"));
}
