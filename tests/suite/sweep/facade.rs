//! OLM v0's API under the sweep: at each write of `rukpak-platform` that follows from what a user does to a Subscription and its
//! neighbours, the program is killed, refused or left without an answer. In the end everything says what it says where nothing has happened.
//!
//! What is taken over from OLM v0 is written by `rukpakctl`, and swept beside it (`olmv0::kills`).

mod operation;
mod snapshot;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use rukpak_tests::{Act, Gate};
use serde_json::Value;

use self::operation::{Operation, Subject};
use super::fault::{Fault, RIGHT_WITHIN};
use super::points;
use super::table::{Row, Table, say};
use crate::olmv0::facade::world::World;

/// Subjects that are prepared at once.
const PARALLEL: usize = 8;
/// Points that are tried before what came of them is looked at again.
const BATCH: usize = 16;
/// The manager writes nothing for so long: the operation is over.
const QUIET: Duration = Duration::from_secs(1);
/// What is asked for anew all the time, as a CatalogSource is, may be about to be told.
const AGAIN_WITHIN: Duration = Duration::from_secs(20);
/// Of the points that are chosen by default.
const LEAST: usize = 9;
/// What is tried of each write besides the kills, in turn.
const OTHERS: [Fault; 5] =
    [Fault::Refused(409), Fault::Refused(503), Fault::Swallowed, Fault::AnswerSwallowed, Fault::Late];

/// One write of an operation, and what happens to it.
#[derive(Clone, Copy, Debug)]
struct Point {
    operation: Operation,
    /// 1 is the first write.
    number: usize,
    fault: Fault,
}

/// An operation to which nothing happened.
struct Undisturbed {
    operation: Operation,
    writes: Vec<String>,
    end: Value,
}

/// What came of a point.
enum Outcome {
    Passed,
    /// The operation made fewer writes this time.
    NotReached,
    Failed(String),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_a_write_subscriptions_end_as_if_it_had_not() {
    let begun = Instant::now();
    let (world, gate) = World::gated().await;
    // Cases hold on to their world.
    let world: &'static World = Box::leak(Box::new(world));
    let undisturbed = Box::pin(measure_all(world, &gate)).await;
    let mut table = Table::default();
    for known in &undisturbed {
        table.rows.insert(row(known.operation), Row { writes: known.writes.len(), ..Row::default() });
    }
    for points in chosen(&undisturbed).chunks(BATCH) {
        for (point, outcome) in points.iter().zip(batch(world, &gate, points, &undisturbed).await) {
            note(&mut table, *point, outcome);
        }
    }
    world.manager.end();
    world.controller.end();
    say(&format!("{table}{:?}", begun.elapsed()));
    assert!(table.failures.is_empty(), "{}", table.failures.join("\n\n"));
    assert!(table.total().tried >= LEAST, "{table}");
}

/// The writes and the ends of all operations when nothing happens.
async fn measure_all(world: &'static World, gate: &Gate) -> Vec<Undisturbed> {
    gate.arm("", 0, Act::HoldRequest);
    let prepared = stream::iter(Operation::ALL.map(|operation| operation.prepare(world)));
    let subjects: Vec<Subject> = Box::pin(prepared.buffered(PARALLEL).collect()).await;
    let mut writes = Vec::new();
    for (operation, subject) in Operation::ALL.into_iter().zip(&subjects) {
        gate.arm(&subject.case.package, 0, Act::HoldRequest);
        operation.trigger(subject).await;
        let reached = until(subject, gate, RIGHT_WITHIN, |end| operation.is_reached(end)).await;
        reached.unwrap_or_else(|end| panic!("{operation:?} does not end: {end:#}\n{}", world.manager.log_tail(40)));
        let mut known = gate.writes().len();
        while tokio::time::timeout(QUIET, gate.wait_for_more(known)).await.is_ok() {
            known = gate.writes().len();
        }
        writes.push(gate.writes());
    }

    // Now, because the last thing that a controller does need not make the manager write.
    let mut undisturbed = Vec::new();
    for ((operation, subject), writes) in Operation::ALL.into_iter().zip(&subjects).zip(writes) {
        let end = snapshot::take(&subject.case).await;
        assert!(operation.is_reached(&end), "{operation:?}: {end:#}");
        undisturbed.push(Undisturbed { operation, writes, end });
        subject.leave().await;
    }
    undisturbed
}

/// The points: all with `SWEEP=all`, else always the same some.
fn chosen(undisturbed: &[Undisturbed]) -> Vec<Point> {
    let of = |(index, known): (usize, &Undisturbed)| {
        let (operation, writes) = (known.operation, known.writes.len());
        if points::is_all() { all(operation, writes) } else { some(operation, writes, index) }
    };
    undisturbed.iter().enumerate().flat_map(of).collect()
}

fn all(operation: Operation, writes: usize) -> Vec<Point> {
    let others = |number: usize| OTHERS.into_iter().cycle().skip(2 * (number - 1)).take(2);
    let faults = |number| [Fault::KilledBefore, Fault::KilledAfter].into_iter().chain(others(number));
    (1..=writes).flat_map(|number| faults(number).map(move |fault| Point { operation, number, fault })).collect()
}

/// A kill in the middle of each operation; an earlier one, and a refusal, where most follows from a write.
fn some(operation: Operation, writes: usize, index: usize) -> Vec<Point> {
    let late = (3 * writes).div_ceil(4);
    let numbers = match operation {
        Operation::Install | Operation::Upgrade => BTreeSet::from([writes.div_ceil(3), late]),
        Operation::Approval => BTreeSet::from([1, late]),
        _ => BTreeSet::from([writes.div_ceil(2)]),
    };
    // Every other operation begins with the other one.
    let mut kills = [Fault::KilledAfter, Fault::KilledBefore].into_iter().cycle().skip(index);
    let kill = |number| Some(Point { operation, number, fault: kills.next()? });
    let mut points: Vec<Point> = numbers.into_iter().filter_map(kill).collect();
    let refusal = match operation {
        Operation::Install => Some(Fault::Refused(409)),
        Operation::Upgrade => Some(Fault::Refused(503)),
        _ => None,
    };
    points.extend(refusal.map(|fault| Point { operation, number: 2, fault }));
    points
}

/// Tries points one after the other on subjects that are prepared all at once, and then looks at all of them again.
async fn batch(world: &'static World, gate: &Gate, points: &[Point], undisturbed: &[Undisturbed]) -> Vec<Outcome> {
    gate.arm("", 0, Act::HoldRequest);
    let prepared = stream::iter(points.iter().map(|point| point.operation.prepare(world)));
    let subjects: Vec<Subject> = Box::pin(prepared.buffered(PARALLEL).collect()).await;
    let end = |point: &Point| {
        let known = undisturbed.iter().find(|known| known.operation == point.operation);
        &known.expect("all were measured").end
    };
    let mut outcomes = Vec::new();
    for (point, subject) in points.iter().zip(&subjects) {
        outcomes.push(attempt((world, gate), subject, *point, end(point)).await);
    }
    for ((point, subject), outcome) in points.iter().zip(&subjects).zip(&mut outcomes) {
        let later = until(subject, gate, AGAIN_WITHIN, |now| now == end(point)).await;
        if let (Outcome::Passed, Err(now)) = (&*outcome, later) {
            let differences = snapshot::differences(&now, end(point)).join("\n  ");
            *outcome = Outcome::Failed(format!("{point:?}: right at first, and then\n  {differences}"));
        }
        subject.leave().await;
    }
    outcomes
}

async fn attempt((world, gate): (&World, &Gate), subject: &Subject, point: Point, end: &Value) -> Outcome {
    let Point { operation, number, fault } = point;
    gate.arm(&subject.case.package, number, fault.act());
    operation.trigger(subject).await;
    let over = async {
        let over = until(subject, gate, RIGHT_WITHIN, |now| now == end).await;
        tokio::time::sleep(QUIET).await; // its last writes are not needed for it to be right
        over
    };
    let line = tokio::select! {
        line = gate.sprung() => line.expect("the gate stands"),
        over = over => return match over {
            Ok(()) => Outcome::NotReached,
            Err(now) => Outcome::Failed(failed(world, gate, point, "no write", &now, end)),
        },
    };
    if matches!(fault, Fault::KilledBefore | Fault::KilledAfter) {
        world.manager.kill().await.expect("the keeper obeys");
        gate.drop_held();
        world.manager.restart().await.expect("the manager starts");
    }
    match until(subject, gate, fault.right_within(), |now| now == end).await {
        Ok(()) => Outcome::Passed,
        Err(now) => Outcome::Failed(failed(world, gate, point, &line, &now, end)),
    }
}

/// Waits until what everything says is as wanted; else what it says.
async fn until(
    subject: &Subject,
    gate: &Gate,
    within: Duration,
    is_wanted: impl Fn(&Value) -> bool,
) -> Result<(), Value> {
    /// The controller's writes do not pass the gate: this long without one, and all is looked at again.
    const INTERVAL: Duration = Duration::from_millis(250);
    let deadline = Instant::now() + within;
    loop {
        let known = gate.writes().len();
        let now = snapshot::take(&subject.case).await;
        if is_wanted(&now) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(now);
        }
        // Whichever comes first.
        let _ = tokio::time::timeout(INTERVAL, gate.wait_for_more(known)).await;
    }
}

fn failed(world: &World, gate: &Gate, point: Point, line: &str, now: &Value, end: &Value) -> String {
    let Point { operation, number, fault } = point;
    let (writes, log) = (gate.writes().join("\n    "), world.manager.log_tail(12));
    let differences = snapshot::differences(now, end).join("\n  ");
    format!(
        "{}, {} write {number}, {line}\n  {differences}\n  writes:\n    {writes}\n  log:\n{log}",
        operation.name(),
        fault.name()
    )
}

fn row(operation: Operation) -> (usize, String) {
    let place = Operation::ALL.iter().position(|one| *one == operation);
    (place.unwrap_or_default(), operation.name().to_owned())
}

fn note(table: &mut Table, point: Point, outcome: Outcome) {
    let row = table.rows.entry(row(point.operation)).or_default();
    row.points += 1;
    row.tried += usize::from(!matches!(outcome, Outcome::NotReached));
    row.passed += usize::from(matches!(outcome, Outcome::Passed));
    if let Outcome::Failed(text) = outcome {
        say(&text);
        table.failures.push(text);
    }
}
