use serde_json::json;

use super::*;
use crate::fixtures::conditions as conditions_of;

fn identity(version: &str) -> Identity {
    let (name, reference) = (format!("p.v{version}"), format!("r.example/p:{version}"));
    Identity { package: "p".to_owned(), name, version: version.to_owned(), reference, release: None }
}

/// A BundleDeployment of generation 2 with these conditions, about that generation or the one before.
fn deployment(observed: i64, conditions: &[(&str, &str, &str, &str)]) -> BundleDeployment {
    let conditions = conditions_of(conditions);
    serde_json::from_value(json!({
        "metadata": {"name": "e", "generation": 2},
        "spec": {"provisionerClassName": "c", "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}},
        "status": {"observedGeneration": observed, "conditions": conditions},
    }))
    .unwrap()
}

#[test]
fn a_bundle_deployment_that_is_suspended_says_so() {
    let mut held = deployment(2, &[VALID, DONE, ("Ready", "False", "Suspended", "s")]);
    held.spec.suspend = true;
    let Progress::RollingOut(text) = progress(&held, &identity("2.0.0"), Some(&identity("1.0.0"))) else { panic!() };
    assert!(text.starts_with("BundleDeployment \"e\" is suspended: "), "{text}");
    assert_eq!(progress(&held, &identity("2.0.0"), Some(&identity("2.0.0"))), Progress::Succeeded);
}

#[test]
fn a_bundle_deployment_that_is_kept_at_a_revision_says_so() {
    let mut kept = deployment(2, &[VALID, DONE, READY_NOW]);
    kept.spec.rollback_to = Some(1);
    let found = progress(&kept, &identity("2.0.0"), Some(&identity("1.0.0")));
    let text = "BundleDeployment \"e\" stays at revision 1 as long as its spec.rollbackTo is set";
    assert_eq!(found, Progress::RollingOut(text.to_owned()));
    assert_eq!(progress(&kept, &identity("2.0.0"), Some(&identity("2.0.0"))), Progress::Succeeded);
}

type Said<'a> = (&'a str, &'a str, &'a str, &'a str);

const VALID: Said<'_> = ("HasValidBundle", "True", "UnpackSuccessful", "");
const PENDING: Said<'_> = ("HasValidBundle", "True", "UnpackPending", "w");
const DONE: Said<'_> = ("Installed", "True", "InstallationSucceeded", "");
const READY_NOW: Said<'_> = ("Ready", "True", "Succeeded", "");
const NOT_READY: Said<'_> = ("Ready", "False", "x", "");

/// What it is about, the generation that the conditions are of, the conditions, what is installed, and what comes of it.
type Case<'a> = (&'a str, i64, &'a [Said<'a>], Option<&'a Identity>, Progress);

fn assert_translated(table: &[Case<'_>]) {
    for (what, observed, conditions, installed, expected) in table {
        let found = progress(&deployment(*observed, conditions), &identity("2.0.0"), *installed);
        assert_eq!(found, *expected, "{what}");
    }
}

#[test]
fn a_bundle_deployment_on_its_way_is_rolling_out() {
    let (old, new) = (identity("1.0.0"), identity("2.0.0"));
    let waiting = || Progress::RollingOut("Waiting for the BundleDeployment e".to_owned());
    let working = |text: &str| Progress::RollingOut(text.to_owned());
    let failed = ("Installed", "False", "UpgradeFailed", "no");
    assert_translated(&[
        ("the old spec", 1, &[VALID, DONE, READY_NOW], Some(&new), waiting()),
        ("nothing yet", 2, &[], None, waiting()),
        ("the image is fetched", 2, &[PENDING, ("Ready", "Unknown", "UnpackPending", "w")], None, working("w")),
        (
            "another one is tried after a failure",
            2,
            &[VALID, failed, ("Ready", "Unknown", "Progressing", "p")],
            Some(&old),
            working("p"),
        ),
        ("the old one is there still", 2, &[VALID, DONE, READY_NOW], Some(&old), waiting()),
        ("it is installed", 2, &[VALID, DONE, READY_NOW], Some(&new), Progress::Succeeded),
    ]);
}

/// As upstream's revisions: a version is on its way until all of it was healthy once.
#[test]
fn a_version_that_was_never_healthy_is_rolling_out() {
    let new = identity("2.0.0");
    let found = |result: &str| {
        let ill = ("Healthy", "False", "Unhealthy", "u");
        let mut deployment = deployment(2, &[VALID, DONE, ill, ("Ready", "Unknown", "Unhealthy", "u")]);
        let status = deployment.status.as_mut().unwrap();
        status.active_bundle = Some("e-2".to_owned());
        let revision = json!({"revision": 2, "bundle": "e-2", "contentDigest": "sha256:0a", "result": result,
                              "time": "2026-01-01T00:00:00Z"});
        status.history = vec![serde_json::from_value(revision).unwrap()];
        progress(&deployment, &new, Some(&new))
    };
    assert_eq!(found("Installed"), Progress::RollingOut("Revision 2.0.0 is rolling out.".to_owned()));
    assert_eq!(found("Healthy"), Progress::Succeeded, "it fell ill later");
}

#[test]
fn a_bundle_deployment_that_failed_is_retried() {
    let old = identity("1.0.0");
    let wrapped = |text: &str| format!("error for resolved bundle \"p.v2.0.0\" with version \"2.0.0\": {text}");
    let retrying = |text: &str| Progress::Retrying(wrapped(text));
    let refused = "c: invalid BundleDeployment configuration (spec.config): invalid configuration: unknown field \"x\"";
    let config = wrapped("invalid ClusterExtension configuration: invalid configuration: unknown field \"x\"");
    let pulling = ("Ready", "Unknown", "UnpackPending", "w: Back-off pulling image \"i\": 404");
    assert_translated(&[
        (
            "the registry has no such image",
            2,
            &[PENDING, pulling],
            Some(&old),
            retrying("Back-off pulling image \"i\": 404"),
        ),
        ("no bundle", 2, &[("HasValidBundle", "False", "UnpackFailed", "no"), NOT_READY], None, retrying("no")),
        (
            "the configuration does not fit",
            2,
            &[("HasValidBundle", "False", "BundleLoadFailed", refused), NOT_READY],
            None,
            Progress::InvalidConfiguration(config),
        ),
        ("the first", 2, &[VALID, ("Installed", "False", "InstallFailed", "no"), NOT_READY], None, retrying("no")),
        (
            "an upgrade, and the old one runs",
            2,
            &[VALID, ("Installed", "False", "UpgradeFailed", "no"), NOT_READY],
            Some(&old),
            retrying("no"),
        ),
    ]);
}

#[test]
fn a_bundle_deployment_that_was_not_healthy_in_time_says_so_in_upstreams_words() {
    let (old, new) = (identity("1.0.0"), identity("2.0.0"));
    let late = ("Ready", "False", "ProgressDeadlineExceeded", "Deployment d: 0 of 1; e-1 is installed again");
    let found = |conditions: &[Said<'_>], limit: &str, installed: &Identity| {
        let mut deployment = deployment(2, conditions);
        deployment.spec.progress_deadline = Some(limit.to_owned());
        progress(&deployment, &new, Some(installed))
    };
    let exceeded = |text: &str| Progress::DeadlineExceeded(format!("Revision has not rolled out for {text}"));
    // There is nothing to go back to.
    let first = exceeded("10 minute(s). Last status: Revision 2.0.0 is rolling out.");
    assert_eq!(found(&[VALID, DONE, late], "10m", &new), first);
    // The version before is back.
    let failed = ("Installed", "False", "UpgradeFailed", "progress deadline exceeded");
    let back = "10 minute(s). Last status: Deployment d: 0 of 1; e-1 is installed again";
    assert_eq!(found(&[VALID, failed, late], "10m", &old), exceeded(back));
    let units = "1h30m. Last status: Revision 2.0.0 is rolling out.";
    assert_eq!(found(&[VALID, DONE, late], "1h30m", &new), exceeded(units));
}
