//! Every world of a small size: the planner as it is, on a small API server, through all that people, faults and restarts may do in a
//! few steps. What has to hold is in `worlds/properties.rs`; `worlds/README.md` says what is searched and what is only a model.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are tests

#[path = "worlds/properties.rs"]
mod properties;
#[path = "worlds/reconcile.rs"]
mod reconcile;
#[path = "worlds/search.rs"]
mod search;
#[path = "worlds/server.rs"]
mod server;
#[path = "worlds/small.rs"]
mod small;
#[path = "worlds/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use search::{Bounds, search};
use world::Small;

/// A search that takes longer than this many seconds stops, and says so.
const LONGEST: u64 = 20;

/// Searches a world, with up to `disturbances` in a history, and one more where nothing fails. `RUKPAK_WORLDS=N` adds `N`, and gives
/// each search `N` minutes.
fn search_world(small: fn() -> Small, disturbances: u8) {
    let more = std::env::var("RUKPAK_WORLDS").ok().and_then(|text| text.parse::<u8>().ok()).unwrap_or_default();
    let time = Duration::from_secs(if more > 0 { 60 * u64::from(more) } else { LONGEST });
    let mut violations = BTreeMap::new();
    // What people do alone makes shorter stories; then everything.
    for (races, faults, extra) in [(false, false, 1), (true, true, 0)] {
        let (small, start) = (small(), Instant::now());
        let (name, disturbances) = (small.name, disturbances + extra + more);
        let found = search(small, Bounds { disturbances, races, faults, time });
        println!(
            "{name}: {} states, {}; {} reconciles, {} steps, {disturbances} disturbances{}, {:.1} s",
            found.states,
            if found.is_whole { "all of them" } else { "as far as the time went" },
            found.reconciles,
            found.depth,
            if faults { " and races" } else { "" },
            start.elapsed().as_secs_f64()
        );
        for (what, history) in found.violations {
            violations.entry(what).or_insert(history);
        }
    }
    let text: String = violations.values().fold(String::new(), |all, history| all + "\n" + history);
    assert!(violations.is_empty(), "{} violations{text}", violations.len());
}

#[test]
fn keeps_objects_when_their_version_ends() {
    search_world(small::served, 2);
}

#[test]
fn keeps_definition_while_instances_live() {
    search_world(small::definitions, 2);
}

#[test]
fn carries_out_policy_before_it_is_ready() {
    search_world(small::policy, 2);
}

#[test]
fn asks_what_another_account_may_do_before_it_is_ready() {
    search_world(small::account, 2);
}

#[test]
fn deletes_in_order_and_keeps_the_finalizer_until_all_is_gone() {
    search_world(small::end, 2);
}

#[test]
fn keeps_what_operators_wrote_at_an_adoption() {
    search_world(small::adoption, 2);
}

#[test]
fn creates_objects_with_fields_left_to_others() {
    search_world(small::contest, 4);
}

#[test]
fn leaves_copies_of_its_marks_alone() {
    search_world(small::copies, 2);
}

#[test]
fn keeps_namespace_that_another_deployment_shares() {
    search_world(small::sharing, 2);
}

/// A CRD that somebody declares is never deleted, and has all versions that are declared, whoever comes, changes and goes.
#[test]
fn keeps_definition_as_long_as_one_of_two_deployments_declares_it() {
    search_world(small::united, 2);
}

/// Nothing tells the first controller that its writes come too late.
#[test]
fn leaves_one_release_where_two_controllers_write() {
    search_world(small::shards, 2);
}

#[test]
fn takes_upgrade_forward_or_back_once() {
    search_world(small::upgrade, 2);
}

#[test]
fn rolls_back_without_waiting_for_others() {
    search_world(small::dependency, 3);
}

#[test]
fn holds_every_promise_at_once() {
    search_world(small::everything, 1);
}
