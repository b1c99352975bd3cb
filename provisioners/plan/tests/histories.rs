//! Random histories of releases, faults and hands. After any of them, and enough quiet reconciles, the cluster holds exactly the
//! objects of one release, the status says which, and nothing is written any more.
//!
//! The cluster, the store and what writes are a model (`histories/world.rs`, `histories/run.rs`); what is decided, remembered and
//! reported is the crate's.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

#[path = "histories/run.rs"]
mod run;
#[path = "histories/world.rs"]
mod world;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use rukpak_plan::Release;
use rukpak_plan::decide::Decision;
use rukpak_plan::resolve::Why;
use run::{Ended, Fault, Faults};
use world::{NAMES, Version, World};

/// So many histories, if `RUKPAK_HISTORIES` does not say otherwise.
const HISTORIES: u32 = 1500;
/// So many things happen in one at most.
const LENGTH: usize = 40;
/// So many quiet reconciles are enough for a whole release.
const ENOUGH: usize = 8;
/// So many reconciles are looked at.
const QUIET: usize = 24;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    /// A reconcile.
    Reconcile(Faults),
    /// So many seconds pass.
    Wait(u16),
    /// The process ends, and another one begins.
    Restart,
    /// The template asks for another release.
    Template(Version),
    Suspend(bool),
    RollbackTo(Option<u8>),
    /// A progress deadline of a minute is set or unset.
    Deadline(bool),
    /// Somebody annotates the deployment.
    Annotate,
    /// Somebody deletes an object.
    Delete(usize),
    /// Somebody changes a field of ours.
    Change(usize),
    /// The Bundle is deleted.
    DeleteBundle,
    /// What was not healthy is, or the reverse.
    Cure(bool),
}

fn faults() -> impl Strategy<Value = Faults> {
    let fault = prop_oneof![
        4 => Just(Fault::Transient),
        2 => Just(Fault::Conflict),
        2 => Just(Fault::Refused),
        2 => Just(Fault::KilledBefore),
        2 => Just(Fault::KilledAfter),
    ];
    let asking = prop_oneof![6 => Just(None), 1 => Just(Some(Fault::Transient)), 1 => Just(Some(Fault::Refused))];
    prop_oneof![
        1 => Just(Faults::default()),
        2 => (asking, prop::option::of((0..12_usize, fault))).prop_map(|(check, write)| Faults { check, write }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let versions = prop::sample::select(&Version::ALL[..]);
    prop_oneof![
        16 => faults().prop_map(Event::Reconcile),
        4 => prop_oneof![0..5_u16, 5..90_u16, 90..20_000_u16].prop_map(Event::Wait),
        2 => Just(Event::Restart),
        4 => versions.prop_map(Event::Template),
        1 => any::<bool>().prop_map(Event::Suspend),
        2 => prop::option::of(1..8_u8).prop_map(Event::RollbackTo),
        1 => any::<bool>().prop_map(Event::Deadline),
        1 => Just(Event::Annotate),
        2 => (0..NAMES.len()).prop_map(Event::Delete),
        2 => (0..NAMES.len()).prop_map(Event::Change),
        1 => Just(Event::DeleteBundle),
        1 => any::<bool>().prop_map(Event::Cure),
    ]
}

fn happen(world: &mut World, event: &Event) {
    match event {
        Event::Reconcile(faults) => {
            run::reconcile(world, faults.clone());
        }
        Event::Wait(seconds) => world.wait(u64::from(*seconds)),
        Event::Restart => world.restart(),
        Event::Template(version) => world.edit(|spec| spec.template = *version),
        Event::Suspend(suspend) => world.edit(|spec| spec.suspend = *suspend),
        Event::RollbackTo(revision) => world.roll_back(revision.map(i64::from)),
        Event::Deadline(is_set) => world.edit(|spec| spec.has_deadline = *is_set),
        Event::Annotate => world.annotate(),
        Event::Delete(object) => {
            world.cluster.remove(NAMES[*object]);
        }
        Event::Change(object) => world.change(NAMES[*object]),
        Event::Cure(is_cured) => world.is_cured = *is_cured,
        Event::DeleteBundle => world.bundle = world::Bundle::Absent,
    }
}

/// Nothing fails any more, and time goes on to whenever the next reconcile is due.
fn quiet(world: &mut World) -> Result<(), TestCaseError> {
    if world.spec.suspend {
        let cluster = world.cluster.clone();
        let ended = run::reconcile(world, Faults::default());
        let is_looking = ended.decisions.iter().all(|decision| matches!(decision, Decision::Resume(_)));
        prop_assert!(is_looking && cluster == world.cluster, "a suspended deployment is written for");
        world.edit(|spec| spec.suspend = false);
    }
    for round in 0..QUIET {
        let Ended { decisions, next, is_exhausted, .. } = run::reconcile(world, Faults::default());
        prop_assert!(!is_exhausted, "decisions without an end in round {round}: {decisions:?}");
        if round >= ENOUGH {
            whole(world)
                .map_err(|why| TestCaseError::fail(format!("round {round}: {why}\n{decisions:?}\n{world:#?}")))?;
        }
        let is_hot = next.is_some_and(|next| next <= world.now) && decisions.is_empty();
        prop_assert!(!is_hot, "looks again at once and does nothing\n{world:#?}");
        if let Some(unpacked) = world.bundle.unpacked() {
            world.bundle = unpacked;
            continue;
        }
        let Some(next) = next else { break };
        world.now = world.now.max(next);
    }
    Ok(())
}

/// Two reconciles more, and nothing comes of them.
fn rest(world: &mut World) -> Result<(), TestCaseError> {
    // What is due at this very moment is done by the first.
    run::reconcile(world, Faults::default());
    let (cluster, writes, status) = (world.cluster.clone(), world.writes, world.status.clone());
    for _ in 0..2 {
        let ended = run::reconcile(world, Faults::default());
        prop_assert!(ended.decisions.is_empty(), "{:?}\n{world:#?}", ended.decisions);
        prop_assert!(world.writes == writes && world.cluster == cluster, "it is written again and again");
        prop_assert_eq!(&world.status, &status);
    }
    whole(world).map_err(|why| TestCaseError::fail(format!("at rest: {why}\n{world:#?}")))
}

/// The cluster has one release, all of it and nothing else, and the status says which.
fn whole(world: &World) -> Result<(), String> {
    let wanted = world.wanted();
    let Some(installed) = world.installed() else {
        let is_possible = wanted.is_some_and(|wanted| !wanted.is_refused());
        return if is_possible { Err("nothing is installed".to_owned()) } else { Ok(()) };
    };
    let names: Vec<&str> = world.cluster.keys().copied().collect();
    if names != installed.objects() {
        return Err(format!("{names:?} instead of {installed:?}"));
    }
    for (name, live) in &world.cluster {
        if live.of != installed {
            return Err(format!("{name} is of {:?}, and {installed:?} is installed", live.of));
        }
        if live.is_changed && !world.is_left_to_others(name) {
            return Err(format!("{name} is not as it was applied"));
        }
    }
    told(world, installed, wanted)
}

/// The status says what is installed and why, if it is not what is wanted.
fn told(world: &World, installed: Version, wanted: Option<Version>) -> Result<(), String> {
    let says = |type_: &str| world.condition(type_);
    let expect = |is_so: bool, what: &str| if is_so { Ok(()) } else { Err(what.to_owned()) };
    expect(world.pending().is_none(), "something is begun for ever")?;
    let history = &world.status.history;
    let numbers: BTreeSet<i64> = history.iter().map(|revision| revision.revision).collect();
    expect(numbers.len() == history.len() && history.len() <= 5, "revisions are twice in the history, or too many")?;
    let known = history.iter().find(|revision| Release::read(&revision.release) == Some(installed.release()));
    let known = known.ok_or("what is installed is not in the history")?;
    // If its first report was lost, and the template was changed before the next, nobody knows the Bundle's name any more.
    let is_active = world.status.active_bundle == known.bundle || known.bundle.is_none();
    expect(is_active, "another Bundle is said to be active")?;
    let Some(wanted) = wanted else {
        return expect(says("Stalled").contains("RevisionNotFound"), "nothing says that the revision is missing");
    };
    expect(!says("Stalled").contains("RevisionNotFound"), "the revision is there")?;
    if wanted == installed {
        expect(says("Installed") == "True InstallationSucceeded", "Installed is not True")?;
        let is_ready = says("Ready") == "True Succeeded";
        return expect(is_ready == world.is_healthy(wanted), "Ready does not tell the health");
    }
    // Once it was late, only a change of the deployment has it tried again: also what nobody refuses, if it was begun, met what may
    // pass, and nothing was tried until its time was over.
    let is_late = says("Ready") == "False ProgressDeadlineExceeded";
    expect(wanted.is_refused() || wanted == Version::Sick || is_late, "it could have been installed")?;
    expect(!installed.is_refused(), "what is refused is installed")?;
    expect(says("Installed").starts_with("False"), "Installed is not False")?;
    expect(says("Stalled").starts_with("True"), "Stalled is not True")?;
    expect(says("Reconciling").is_empty(), "Reconciling does not end")
}

fn runner() -> TestRunner {
    let cases = std::env::var("RUKPAK_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(HISTORIES);
    TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() })
}

#[test]
fn after_any_history_the_cluster_holds_one_whole_release() {
    let histories = prop::collection::vec(event(), 0..LENGTH);
    let result = runner().run(&histories, |history| {
        let mut world = World::new();
        for event in &history {
            happen(&mut world, event);
        }
        quiet(&mut world)?;
        rest(&mut world)
    });
    // The shortest history that fails is part of the text.
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Whatever passes by itself, within the five minutes that an upgrade is given for it, does not turn it back.
#[test]
fn an_upgrade_that_only_meets_what_may_pass_goes_forward() {
    let fault =
        prop_oneof![Just(Fault::Transient), Just(Fault::Conflict), Just(Fault::KilledBefore), Just(Fault::KilledAfter)];
    let check = prop_oneof![4 => Just(None), 1 => Just(Some(Fault::Transient))];
    let faults = (check, (0..8_usize, fault)).prop_map(|(check, write)| Faults { check, write: Some(write) });
    let reconciles = prop::collection::vec((faults, 0..20_u64), 1..12);
    let result = runner().run(&reconciles, |reconciles| {
        let mut world = World::new();
        quiet(&mut world)?;
        world.edit(|spec| spec.template = Version::Larger);
        for (faults, seconds) in reconciles {
            let Ended { decisions, .. } = run::reconcile(&mut world, faults);
            let is_back = |decision: &Decision| matches!(decision, Decision::Install { why: Why::WayBack, .. });
            prop_assert!(!decisions.iter().any(is_back), "{decisions:?}\n{world:#?}");
            world.wait(seconds);
        }
        quiet(&mut world)?;
        prop_assert_eq!(world.installed(), Some(Version::Larger));
        rest(&mut world)
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// The model is worth something only if it goes wrong where it should: a controller that takes what was applied last for what is
/// installed.
#[test]
fn the_model_notices_a_release_that_is_not_whole() {
    let mut world = World::new();
    quiet(&mut world).unwrap();
    whole(&world).unwrap();
    world.cluster.remove("a");
    assert!(whole(&world).is_err());
    quiet(&mut world).unwrap();
    whole(&world).unwrap();
    world.change("a");
    assert!(whole(&world).is_err());
}
