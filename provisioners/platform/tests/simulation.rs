//! rukpak-platform and the controller in simulation: packages are installed, upgraded and removed by the two real programs, against the
//! small API server, on one thread, in time that jumps. `install/tests/simulation/README.md` says how.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are tests
#![allow(dead_code)] // stories of the controller alone need more of what is shared

#[path = "../../install/tests/simulation/cluster.rs"]
mod cluster;
#[path = "../../install/tests/simulation/fate.rs"]
mod fate;
#[path = "../../install/tests/simulation/garbage.rs"]
mod garbage;
#[path = "../../install/tests/simulation/history.rs"]
mod history;
#[path = "../../install/tests/simulation/numbers.rs"]
mod numbers;
#[path = "simulation/packages.rs"]
mod packages;
#[path = "../../install/tests/simulation/process.rs"]
mod process;
#[path = "../../install/tests/simulation/properties.rs"]
mod properties;
#[path = "simulation/rest.rs"]
mod rest;
#[path = "../../install/tests/simulation/run.rs"]
mod run;
#[path = "../../install/tests/simulation/script.rs"]
mod script;
#[path = "../../install/tests/simulation/search.rs"]
mod search;
#[path = "../../install/tests/simulation/server.rs"]
mod server;
#[path = "simulation/stories.rs"]
mod stories;
#[path = "../../install/tests/simulation/story.rs"]
mod story;
#[path = "../../install/tests/simulation/wire.rs"]
mod wire;

use run::{HISTORIES, run, searches};

searches! {
    keeps_extension_at_the_newest_version: stories::extension;
    keeps_platform_operator_at_the_newest_version: stories::operator;
    upgrades_two_extensions_together_or_neither: stories::pair;
}

#[test]
fn keeps_every_promise_in_random_histories_of_packages() {
    run(vec![stories::extension(), stories::operator(), stories::pair()], HISTORIES / 4, &[]);
}
