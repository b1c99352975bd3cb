//! Promises 2 and 3, point by point: at each write of each operation the controller is killed, refused or made to wait, and
//! afterwards there is exactly what the operation was to bring about.
//!
//! Some of the points by default, all of them with `SWEEP=all` (`make soak`).

mod check;
mod facade;
mod fault;
mod lease;
mod operation;
mod point;
mod points;
pub mod release;
mod renewal;
mod stage;
mod store;
mod stored;
mod subject;
mod table;

use std::sync::Mutex;
use std::time::Instant;

use fault::Fault;
use futures::future::join_all;
use operation::Operation;
use point::{Outcome, Point};
use stage::Stage;
use table::{Row, Table, say};

/// Control planes at once: most of a point is waiting.
const STAGES: usize = 2;
/// Points whose deployments are prepared together.
const BATCH: usize = 6;
/// Of the points that are chosen by default.
const LEAST: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_at_a_write_there_is_in_the_end_what_was_asked_for() {
    let begun = Instant::now();
    let stages = join_all((0..STAGES).map(|_| Stage::set(&[renewal::LIFETIME]))).await;
    let operations = Mutex::new(points::operations());
    let measured: Mutex<Vec<(Operation, usize)>> = Mutex::default();
    join_all(stages.iter().map(async |stage| {
        while let Some(operation) = take(&operations, 1).pop() {
            let writes = point::measure(stage, operation).await;
            measured.lock().expect("nobody panicked").push((operation, writes.len()));
        }
    }))
    .await;
    let measured = measured.into_inner().expect("nobody panicked");
    let points = Mutex::new(points::chosen(&measured));
    let mut table = Table::default();
    for (operation, writes) in &measured {
        table.rows.insert(row(*operation), Row { writes: *writes, ..Row::default() });
    }
    let table = Mutex::new(table);
    join_all(stages.iter().map(async |stage| {
        loop {
            let some = take(&points, BATCH);
            if some.is_empty() {
                break;
            }
            let outcomes = point::batch(stage, &some).await;
            let mut table = table.lock().expect("nobody panicked");
            some.iter().zip(outcomes).for_each(|(point, outcome)| note(&mut table, *point, outcome));
            if points::is_all() {
                let Row { tried, passed, .. } = table.total();
                say(&format!("{:?}: {tried} tried, {passed} passed", begun.elapsed()));
            }
        }
    }))
    .await;
    drop(stages);
    let mut table = table.into_inner().expect("nobody panicked");
    if points::is_all() {
        past_the_lease(&mut table, &measured).await;
    }
    say(&format!("{table}{:?}", begun.elapsed()));
    assert!(table.failures.is_empty(), "{}", table.failures.join("\n\n"));
    assert!(table.total().tried >= LEAST, "{table}");
}

async fn past_the_lease(table: &mut Table, measured: &[(Operation, usize)]) {
    let writes =
        measured.iter().find(|(operation, _)| *operation == Operation::Upgrade).map_or(0, |(_, writes)| *writes);
    if writes == 0 {
        return;
    }
    let stage = lease::stage().await;
    for number in [1, writes.div_ceil(3), (2 * writes).div_ceil(3)] {
        let outcome = lease::attempt(&stage, number).await;
        count(table, (Operation::ALL.len() + 1, "stopped past its Lease".to_owned()), outcome);
    }
}

/// The last `count` of a list that all take from.
fn take<T>(list: &Mutex<Vec<T>>, count: usize) -> Vec<T> {
    let mut list = list.lock().expect("nobody panicked");
    let rest = list.len().saturating_sub(count);
    list.split_off(rest)
}

fn row(operation: Operation) -> (usize, String) {
    (Operation::ALL.iter().position(|one| *one == operation).unwrap_or_default(), operation.name().to_owned())
}

fn note(table: &mut Table, point: Point, outcome: Outcome) {
    let key = if matches!(point.fault, Fault::KilledAtCall(_)) {
        (Operation::ALL.len(), "writes of the store".to_owned())
    } else {
        row(point.operation)
    };
    count(table, key, outcome);
}

fn count(table: &mut Table, key: (usize, String), outcome: Outcome) {
    let row = table.rows.entry(key).or_default();
    row.points += 1;
    match outcome {
        Outcome::NotReached => {}
        Outcome::Passed => (row.tried, row.passed) = (row.tried + 1, row.passed + 1),
        Outcome::Failed(text) => {
            row.tried += 1;
            say(&text);
            table.failures.push(text);
        }
    }
}
