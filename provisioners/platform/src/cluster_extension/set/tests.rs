use super::*;
use crate::fixtures::conditions as conditions_of;

fn identity(package: &str, version: &str) -> Identity {
    let (name, reference) = (format!("{package}.v{version}"), format!("r.example/{package}:{version}"));
    Identity { package: package.to_owned(), name, version: version.to_owned(), reference, release: None }
}

fn change(package: &str) -> Change {
    Change { from: identity(package, "1.0.0"), to: identity(package, "2.0.0") }
}

/// The upgrades of `p`, which leads, and `q`.
fn begun() -> Set {
    let members = ["p", "q"].map(|name| (name.to_owned(), change(name))).into();
    Set { leader: "p".to_owned(), members, ..Set::default() }
}

fn after(set: &Set, p: &Standing, q: &Standing) -> Set {
    set.next(|name, _| if name == "p" { p.clone() } else { q.clone() })
}

#[test]
fn a_set_is_over_when_all_are_there_and_not_before() {
    let set = begun();
    for half in [Standing::Before, Standing::Coming] {
        assert_eq!(after(&set, &Standing::There, &half), set, "{half:?}");
        assert_eq!(after(&set, &half, &Standing::There), set, "{half:?}");
    }
    let whole = after(&set, &Standing::There, &Standing::There);
    assert_eq!((whole.is_over, &whole.failure), (true, &None));
    assert_eq!(whole.wanted("q"), None, "nobody is held any more");
    assert_eq!(after(&whole, &Standing::Gone, &Standing::Failed("late".to_owned())), whole, "what is over stays so");
}

#[test]
fn all_go_back_when_one_fails_or_is_gone() {
    let set = begun();
    assert_eq!(set.wanted("p"), Some(&identity("p", "2.0.0")));
    for (q, why) in [
        (Standing::Failed("no".to_owned()), "ClusterExtension q (q.v2.0.0): no"),
        (Standing::Gone, "ClusterExtension q is gone"),
        (Standing::Elsewhere, "ClusterExtension q (q.v2.0.0): it asks for something else by now"),
    ] {
        for p in [Standing::Before, Standing::Coming, Standing::There] {
            let back = after(&set, &p, &q);
            assert_eq!((back.failure.as_deref(), back.is_over), (Some(why), false), "{p:?}");
            assert_eq!(back.wanted("p"), Some(&identity("p", "1.0.0")));
            assert_eq!(back.wanted("q"), Some(&identity("q", "1.0.0")));
        }
    }
}

#[test]
fn a_set_that_goes_back_is_over_when_all_are_back() {
    let back = after(&begun(), &Standing::There, &Standing::Failed("no".to_owned()));
    for p in [Standing::There, Standing::Coming, Standing::Failed("late".to_owned())] {
        assert_eq!(after(&back, &p, &Standing::Before), back, "{p:?}");
    }
    let left = after(&back, &Standing::Before, &Standing::Elsewhere);
    assert!(left.is_over, "what somebody asked for meanwhile is not waited for");
    let over = after(&back, &Standing::Before, &Standing::Gone);
    assert!(over.is_over && over.wanted("p").is_none());
    assert_eq!(over.failure, back.failure);
    let told = "p.v2.0.0 goes together with ClusterExtension q (q.v2.0.0) only, and all went back to what was installed before: \
                ClusterExtension q (q.v2.0.0): no";
    assert_eq!(over.told("p"), told);
}

#[test]
fn a_note_stands_as_long_as_what_came_of_it_is_installed() {
    let (old, new) = (identity("p", "1.0.0"), identity("p", "2.0.0"));
    let whole = after(&begun(), &Standing::There, &Standing::There);
    let back = after(&begun(), &Standing::There, &Standing::Gone);
    let over = after(&back, &Standing::Before, &Standing::Gone);
    let (begun, copied) = (begun(), identity("q", "2.0.0"));
    let table = [
        ("under way", &begun, "p", Some(&new), false),
        ("whole", &whole, "p", Some(&new), true),
        ("whole, and something else by now", &whole, "p", Some(&old), false),
        ("whole, and nothing by now", &whole, "p", None, false),
        ("back", &over, "p", Some(&old), true),
        ("back, and upgraded since", &over, "p", Some(&new), false),
        ("going back", &back, "p", Some(&old), false),
        ("the copy of another one", &whole, "q", Some(&copied), false),
    ];
    for (what, set, name, installed, expected) in table {
        assert_eq!(set.stands(name, installed), expected, "{what}");
    }
}

#[test]
fn a_note_is_read_as_it_was_written() {
    let back = after(&begun(), &Standing::There, &Standing::Gone);
    for set in [begun(), back] {
        let mut noted = deployment("1.0.0", "1.0.0", &[]);
        noted.annotations_mut().insert(UPGRADED_WITH.to_owned(), set.text());
        assert_eq!(Set::noted(&noted), Some(set));
    }
    let mut noted = deployment("1.0.0", "1.0.0", &[]);
    noted.annotations_mut().insert(UPGRADED_WITH.to_owned(), "no note".to_owned());
    assert_eq!(Set::noted(&noted), None);
}

/// A BundleDeployment that asks for one version of `p`, and has one installed, with these conditions.
fn deployment(asked: &str, installed: &str, conditions: &[(&str, &str, &str, &str)]) -> BundleDeployment {
    let conditions = conditions_of(conditions);
    let revision = json!({"revision": 1, "bundle": "p-1", "contentDigest": "sha256:0a", "result": "Healthy",
                          "time": "2026-01-01T00:00:00Z", "annotations": identity("p", installed).annotations()});
    serde_json::from_value(json!({
        "metadata": {"name": "p", "generation": 2, "annotations": identity("p", asked).annotations()},
        "spec": {"provisionerClassName": "c", "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}},
        "status": {"observedGeneration": 2, "conditions": conditions, "activeBundle": "p-1", "history": [revision]},
    }))
    .unwrap()
}

const VALID: (&str, &str, &str, &str) = ("HasValidBundle", "True", "UnpackSuccessful", "");
const DONE: (&str, &str, &str, &str) = ("Installed", "True", "InstallationSucceeded", "");
const SOUND: (&str, &str, &str, &str) = ("Ready", "True", "Succeeded", "");
const WORKING: (&str, &str, &str, &str) = ("Ready", "Unknown", "Progressing", "");
const SICK: (&str, &str, &str, &str) = ("Ready", "False", "UpgradeFailed", "");
const REFUSED: (&str, &str, &str, &str) = ("Installed", "False", "UpgradeFailed", "no");
const LATE: (&str, &str, &str, &str) = ("Ready", "False", "ProgressDeadlineExceeded", "late");
const HELD: (&str, &str, &str, &str) = ("Ready", "Unknown", "WaitingForApproval", "held");
const UNREADABLE: (&str, &str, &str, &str) = ("HasValidBundle", "False", "UnpackFailed", "bad");

#[test]
fn a_member_stands_where_its_bundle_deployment_says() {
    let failed = |why: &str| Standing::Failed(why.to_owned());
    let table = [
        ("nothing was begun", ("1.0.0", "1.0.0"), [VALID, DONE, SOUND], Standing::Before),
        ("on its way", ("2.0.0", "1.0.0"), [VALID, DONE, WORKING], Standing::Coming),
        ("on its way after a failure", ("2.0.0", "1.0.0"), [VALID, REFUSED, WORKING], Standing::Coming),
        ("upgraded", ("2.0.0", "2.0.0"), [VALID, DONE, SOUND], Standing::There),
        ("refused", ("2.0.0", "1.0.0"), [VALID, REFUSED, SICK], failed("no")),
        ("not healthy in time", ("2.0.0", "1.0.0"), [VALID, REFUSED, LATE], failed("late")),
        ("no bundle", ("2.0.0", "1.0.0"), [UNREADABLE, DONE, SICK], failed("bad")),
        ("somebody is asked", ("2.0.0", "1.0.0"), [VALID, DONE, HELD], failed("held")),
        ("on its way back", ("1.0.0", "2.0.0"), [VALID, DONE, WORKING], Standing::Coming),
        ("not back yet", ("1.0.0", "1.0.0"), [VALID, REFUSED, WORKING], Standing::Coming),
        ("another one is asked for", ("3.0.0", "1.0.0"), [VALID, DONE, WORKING], Standing::Elsewhere),
        ("another one", ("3.0.0", "3.0.0"), [VALID, DONE, SOUND], Standing::Elsewhere),
    ];
    let begun: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    for (what, (asked, installed), conditions, expected) in table {
        let live = deployment(asked, installed, &conditions);
        assert_eq!(standing(&change("p"), Some(&live), begun), expected, "{what}");
    }
    assert_eq!(standing(&change("p"), None, begun), Standing::Gone);
    let mut stale = deployment("2.0.0", "1.0.0", &[VALID, REFUSED, SICK]);
    stale.metadata.generation = Some(3);
    assert_eq!(standing(&change("p"), Some(&stale), begun), Standing::Coming, "that was said of another spec");

    let pulling = ("Ready", "Unknown", "UnpackPending", "Back-off pulling image \"r\": no");
    let live = deployment("2.0.0", "1.0.0", &[VALID, DONE, pulling]);
    for (minutes, expected) in [(9, Standing::Coming), (10, failed("Back-off pulling image \"r\": no"))] {
        assert_eq!(standing(&change("p"), Some(&live), begun + SignedDuration::from_mins(minutes)), expected);
    }
}

#[test]
fn whoever_is_held_meanwhile_holds_no_others() {
    let begun: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let standing = |installed: &str, suspend: bool, rollback_to| {
        let mut live = deployment("2.0.0", installed, &[VALID, DONE, SOUND]);
        (live.spec.suspend, live.spec.rollback_to) = (suspend, rollback_to);
        standing(&change("p"), Some(&live), begun)
    };
    let failed = |why: &str| Standing::Failed(why.to_owned());
    assert_eq!(standing("1.0.0", false, None), Standing::Coming);
    assert_eq!(standing("1.0.0", true, None), failed("BundleDeployment \"p\" is suspended"));
    let stays = "BundleDeployment \"p\" stays at revision 1 as long as its spec.rollbackTo is set";
    assert_eq!(standing("1.0.0", false, Some(1)), failed(stays));
    assert_eq!(standing("2.0.0", true, None), Standing::There, "it is upgraded");
}

#[test]
fn only_what_the_history_has_was_installed() {
    let live = deployment("2.0.0", "1.0.0", &[]);
    assert!(was_installed(&identity("p", "1.0.0"), &live));
    assert!(!was_installed(&identity("p", "2.0.0"), &live), "it is only asked for");
    assert!(!was_installed(&Identity { reference: "r.example/evil".to_owned(), ..identity("p", "1.0.0") }, &live));
}
