//! A leader that stands still past its Lease, in the middle of an upgrade, and goes on when another one leads.

use rukpak_tests::Act;

use crate::sweep::check;
use crate::sweep::fault::RIGHT_WITHIN;
use crate::sweep::operation::Operation;
use crate::sweep::point::Outcome;
use crate::sweep::stage::Stage;
use crate::sweep::subject::Subject;

/// Short, so that nobody waits; long enough for a busy machine.
const TIMES: [&str; 2] = ["--leader-elect", "--leader-elect-lease-duration=8s"];

/// A stage with a leader.
pub async fn stage() -> Stage {
    Stage::set(&TIMES).await
}

/// Stops the leader at a write of an upgrade. Who stands by ends the upgrade; who comes back changes nothing and stands by.
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
    let begin = stage.controller.log().len();
    stage.controller.resume().expect("the keeper obeys");
    let stands_by = stage.controller.until_logged(begin, "leading no more; standing by").await;
    let again = check::wait(&subject, Operation::Upgrade, RIGHT_WITHIN).await;
    let outcome = match (done, stands_by, again) {
        (Ok(()), Ok(()), Ok(())) => Outcome::Passed,
        (done, stands_by, again) => {
            Outcome::Failed(format!("stopped past its Lease at {line}: {done:?}, {stands_by:?}, {again:?}"))
        }
    };
    // It gives the Lease back, and the first takes it.
    second.terminate().await.expect("the keeper obeys");
    outcome
}
