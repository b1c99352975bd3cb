//! One point: an operation, the number of one of its writes, and what happens there.

use std::time::Duration;

use futures::StreamExt;
use rukpak_tests::Act;
use tokio::time::Instant;

use crate::sweep::check;
use crate::sweep::fault::{Fault, RIGHT_WITHIN};
use crate::sweep::operation::Operation;
use crate::sweep::stage::Stage;
use crate::sweep::store;
use crate::sweep::subject::Subject;

/// As long as a process that is traced may take for an operation.
const TRACED_WITHIN: Duration = Duration::from_secs(15);
/// Nothing is written for so long: the operation is over.
const QUIET: Duration = Duration::from_millis(400);
/// What nobody needs is collected when the last ref is gone, and once the collector has rested: nine times as long as its last
/// collection took, which may be a second and more on a busy machine.
const COLLECTED_WITHIN: Duration = Duration::from_mins(1);
/// A failed upgrade is tried again after a minute, and fails again.
const AGAIN_WITHIN: Duration = Duration::from_secs(10);
/// Deployments that are prepared at once.
const PARALLEL: usize = 12;

#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub operation: Operation,
    /// 1 is the first write.
    pub number: usize,
    pub fault: Fault,
}

/// What came of a point.
pub enum Outcome {
    Passed,
    /// The operation made fewer writes this time.
    NotReached,
    Failed(String),
}

/// The writes of the operation when nothing happens.
pub async fn measure(stage: &Stage, operation: Operation) -> Vec<String> {
    let mut subject = Subject::new(stage, "measure").await;
    operation.prepare(&mut subject).await;
    stage.gate.arm(&subject.name, 0, Act::HoldRequest);
    operation.trigger(&subject).await;
    check::wait(&subject, operation, RIGHT_WITHIN).await.unwrap_or_else(|wrong| panic!("{operation:?}: {wrong}"));
    let mut known = stage.gate.writes().len();
    while tokio::time::timeout(QUIET, stage.gate.wait_for_more(known)).await.is_ok() {
        known = stage.gate.writes().len();
    }
    let writes = stage.gate.writes();
    subject.end(operation).await.unwrap_or_else(|wrong| panic!("{operation:?}: {wrong}"));
    writes
}

/// Tries the points one after the other on deployments that are prepared all at once, and then looks at all of them again.
pub async fn batch(stage: &Stage, points: &[Point]) -> Vec<Outcome> {
    let prepare = |point: Point| async move {
        let mut subject = Subject::new(stage, "point").await;
        point.operation.prepare(&mut subject).await;
        subject
    };
    stage.gate.arm("", 0, Act::HoldRequest);
    let mut subjects: Vec<_> =
        futures::stream::iter(points.iter().copied().map(prepare)).buffered(PARALLEL).collect().await;
    let mut outcomes = Vec::new();
    for (point, subject) in points.iter().zip(&mut subjects) {
        if point.operation == Operation::Renewal {
            subject.remember().await; // it has gone on meanwhile
        }
        outcomes.push(attempt(stage, subject, *point).await);
    }
    for ((point, subject), outcome) in points.iter().zip(&subjects).zip(&mut outcomes) {
        let later = check::wait(subject, point.operation, AGAIN_WITHIN).await;
        if let (Outcome::Passed, Err(wrong)) = (&*outcome, later) {
            *outcome = Outcome::Failed(format!("{point:?}: right at first, and then: {wrong}"));
        }
    }
    let wrong = store::problems(&stage.store());
    let ends = points.iter().zip(&subjects).map(|(point, subject)| subject.end(point.operation));
    let ends = futures::future::join_all(ends).await;
    for ((point, ended), outcome) in points.iter().zip(ends).zip(&mut outcomes) {
        if let (Outcome::Passed, Err(wrong)) = (&*outcome, ended) {
            *outcome = Outcome::Failed(format!("{point:?}: {wrong}"));
        }
    }
    if let Some(last) = outcomes.last_mut() {
        let left = emptied(stage).await.err();
        let wrong: Vec<String> = wrong.into_iter().chain(left).collect();
        if !wrong.is_empty() {
            let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
            let log = stage.controller.log_tail(60);
            *last = Outcome::Failed(format!("the store after {points:?} ({names:?}): {}\n{log}", wrong.join("; ")));
        }
    }
    outcomes
}

async fn attempt(stage: &Stage, subject: &Subject<'_>, point: Point) -> Outcome {
    let Point { operation, number, fault } = point;
    if let Fault::KilledAtCall(call) = fault {
        return attempt_traced(stage, subject, point, call).await;
    }
    stage.gate.arm(&subject.name, number, fault.act());
    operation.trigger(subject).await;
    let over = async {
        let over = check::wait(subject, operation, RIGHT_WITHIN).await;
        tokio::time::sleep(QUIET).await; // its last writes are not needed for it to be right
        over
    };
    let line = tokio::select! {
        line = stage.gate.sprung() => line.expect("the gate stands"),
        over = over => return over.map_or_else(|wrong| Outcome::Failed(failed(stage, point, "no write", &wrong)), |()| Outcome::NotReached),
    };
    fault.strike(stage).await;
    match check::wait(subject, operation, fault.right_within()).await {
        Ok(()) => Outcome::Passed,
        Err(wrong) => Outcome::Failed(failed(stage, point, &line, &wrong)),
    }
}

/// The controller is killed at a system call on its store.
async fn attempt_traced(stage: &Stage, subject: &Subject<'_>, point: Point, call: &str) -> Outcome {
    stage.controller.end();
    let traced = stage.start_traced(call, point.number).await;
    point.operation.trigger(subject).await;
    let killed = async {
        while traced.exit_status().expect("a keeper").is_none() {
            tokio::time::sleep(Duration::from_millis(25)).await; // the end of a process that is not awaited cannot be watched
        }
    };
    // A child that is killed in its place is started again, and killed again.
    let over = tokio::select! {
        () = killed => None,
        over = check::wait(subject, point.operation, TRACED_WITHIN) => over.ok(),
    };
    traced.end();
    stage.controller.restart().await.expect("the controller starts");
    match (over, check::wait(subject, point.operation, RIGHT_WITHIN).await) {
        (Some(()), Ok(())) => Outcome::NotReached,
        (None, Ok(())) => Outcome::Passed,
        (_, Err(wrong)) => Outcome::Failed(failed(stage, point, call, &wrong)),
    }
}

fn failed(stage: &Stage, point: Point, line: &str, wrong: &str) -> String {
    let writes = stage.gate.writes().join("\n    ");
    let Point { operation, number, fault } = point;
    let log = stage.controller.log_tail(12);
    format!(
        "{}, {} write {number}, {line}\n  {wrong}\n  writes:\n    {writes}\n  log:\n{log}",
        operation.name(),
        fault.name()
    )
}

/// Waits until the store is empty: everything was deleted.
async fn emptied(stage: &Stage) -> Result<(), String> {
    let deadline = Instant::now() + COLLECTED_WITHIN;
    loop {
        let left = store::leftovers(&stage.store());
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("left when everything is deleted: {left:?}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await; // files of another process
    }
}
