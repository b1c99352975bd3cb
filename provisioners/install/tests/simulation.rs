//! Whole programs in simulation: the real install reconciler, with its watches and its queue, against the small API server, on one
//! thread, in time that jumps. `simulation/fate.rs` decides what is next: as a seed says, or one thing after the other.
//!
//! `RUKPAK_SIMULATION=N` runs N random histories; `RUKPAK_SEED=N` begins with that seed, and with that alone where nothing else is said.
//! `RUKPAK_PAIRS=N` searches each story whole, with one disturbance, and then for N minutes with two.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are tests

#[path = "simulation/cluster.rs"]
mod cluster;
#[path = "simulation/fate.rs"]
mod fate;
#[path = "simulation/garbage.rs"]
mod garbage;
#[path = "simulation/history.rs"]
mod history;
#[path = "simulation/numbers.rs"]
mod numbers;
#[path = "simulation/process.rs"]
mod process;
#[path = "simulation/properties.rs"]
mod properties;
#[path = "simulation/run.rs"]
mod run;
#[path = "simulation/script.rs"]
mod script;
#[path = "simulation/search.rs"]
mod search;
#[path = "simulation/server.rs"]
mod server;
#[path = "simulation/small.rs"]
mod small;
#[path = "simulation/stories.rs"]
mod stories;
#[path = "simulation/story.rs"]
mod story;
#[path = "simulation/wire.rs"]
mod wire;

use run::{HISTORIES, run, search_story, searches};
use stories::{shards, stories};

/// Seeds that once failed. A change of the stories, or of what is random, makes other histories of them.
const KEPT: [(u64, &str); 3] = [
    (202, "two deployments made a shared CRD again at once, and the one that lost took it for gone"),
    (1_150, "the same, the other way round"),
    (1_308, "what a watch told while a restart read health was lost: an object was gone"),
];

#[test]
fn keeps_every_promise_in_random_histories() {
    run(stories(), HISTORIES, &KEPT.map(|(seed, _)| seed));
}

#[test]
fn keeps_every_promise_in_random_histories_of_two_shards() {
    run(vec![shards()], HISTORIES / 4, &[]);
}

searches! {
    keeps_objects_when_their_version_ends: small::served;
    tells_what_is_missing_after_a_restart: small::gone;
    keeps_definition_while_instances_live: small::definitions;
    carries_out_policy_before_it_is_ready: small::policy;
    asks_what_another_account_may_do_before_it_is_ready: small::account;
    deletes_in_order_and_keeps_the_finalizer_until_all_is_gone: small::end;
    keeps_what_operators_wrote_at_an_adoption: small::adoption;
    creates_objects_with_fields_left_to_others: small::contest;
    leaves_copies_of_its_marks_alone: small::copies;
    keeps_namespace_that_another_deployment_shares: small::sharing;
    keeps_definition_as_long_as_one_of_two_deployments_declares_it: small::united;
    leaves_one_release_where_two_controllers_write: small::shards;
    lets_one_replica_write_at_a_time: small::led;
    takes_upgrade_forward_or_back_once: small::upgrade;
    tries_what_was_refused_again_in_time: small::refused;
    rolls_back_without_waiting_for_others: small::dependency;
    goes_on_where_manifests_cannot_be_kept: small::manifests;
}

#[test]
fn holds_every_promise_at_once() {
    stories().into_iter().for_each(search_story);
}

#[test]
fn lets_one_replica_write_at_a_time_in_random_histories() {
    run(vec![small::led()], HISTORIES / 4, &[]);
}
