//! A leader that stands still past its Lease, in the middle of an upgrade, and goes on when another one leads.

use std::time::Duration;

use rukpak_tests::{Act, Process};

use crate::sweep::check;
use crate::sweep::fault::RIGHT_WITHIN;
use crate::sweep::operation::Operation;
use crate::sweep::point::Outcome;
use crate::sweep::stage::Stage;
use crate::sweep::subject::Subject;

/// Short, so that nobody waits; long enough for a busy machine.
const TIMES: [&str; 4] = [
    "--leader-elect",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
];

/// A stage with a leader.
pub async fn stage() -> Stage {
    Stage::set(&TIMES).await
}

/// Stops the leader at a write of an upgrade. Who stands by ends the upgrade; who comes back changes nothing and ends.
pub async fn attempt(stage: &Stage, number: usize) -> Outcome {
    let mut subject = Subject::new(stage, "lease").await;
    Operation::Upgrade.prepare(&mut subject).await;
    let second = stage.start_named("second").await;
    second.wait_ready().await.expect("it stands by");
    stage.gate.arm(&subject.name, number, Act::HoldRequest);
    Operation::Upgrade.trigger(&subject).await;
    let line = stage.gate.sprung().await.expect("the gate stands");
    stage.controller.pause().expect("the keeper obeys");
    stage.gate.release();
    let done = check::wait(&subject, Operation::Upgrade, RIGHT_WITHIN).await;
    stage.controller.resume().expect("the keeper obeys");
    let outcome =
        match (done, ended(&stage.controller).await, check::wait(&subject, Operation::Upgrade, RIGHT_WITHIN).await) {
            (Ok(()), Ok(()), Ok(())) => Outcome::Passed,
            (done, ended, again) => {
                Outcome::Failed(format!("stopped past its Lease at {line}: {done:?}, {ended:?}, {again:?}"))
            }
        };
    // It gives the Lease back.
    second.terminate().await.expect("the keeper obeys");
    stage.controller.restart().await.expect("the controller starts");
    outcome
}

/// Waits for a process to find out that it does not lead any more.
async fn ended(process: &Process) -> Result<(), String> {
    let wait = async {
        while process.exit_status().expect("a keeper").is_none() {
            tokio::time::sleep(Duration::from_millis(25)).await; // it cannot be watched
        }
    };
    tokio::time::timeout(RIGHT_WITHIN, wait).await.map_err(|_| "it goes on".to_owned())
}
