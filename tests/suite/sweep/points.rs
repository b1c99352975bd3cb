//! Which points are tried.

use std::collections::BTreeSet;

use crate::sweep::fault::{CALLS, Fault, OTHERS};
use crate::sweep::operation::Operation;
use crate::sweep::point::Point;

/// Operations that are tried with everything that may happen.
const THOROUGHLY: [Operation; 6] = [
    Operation::Install,
    Operation::Upgrade,
    Operation::Migration,
    Operation::WayBack,
    Operation::Rollback,
    Operation::Repair,
];
/// What is tried of a migration beside the kills, by default: where answers decide which objects are left.
const OF_MIGRATION: [Fault; 4] =
    [Fault::Refused(409), Fault::Refused(503), Fault::AnswerSwallowed, Fault::ApiServerRestarted];

/// Whether everything is to be tried.
pub fn is_all() -> bool {
    std::env::var("SWEEP").is_ok_and(|value| value == "all")
}

/// The operations, or those that `SWEEP_ONLY` names (with commas) to look at them alone.
pub fn operations() -> Vec<Operation> {
    let mut operations = Operation::ALL.to_vec();
    if let Ok(names) = std::env::var("SWEEP_ONLY") {
        operations.retain(|operation| names.split(',').any(|name| name == operation.name()));
    }
    operations
}

/// The points, the operations and how many writes each makes given: all with `SWEEP=all`, else always the same some.
pub fn chosen(measured: &[(Operation, usize)]) -> Vec<Point> {
    let mut measured = measured.to_vec();
    measured.sort_unstable();
    measured
        .iter()
        .flat_map(|(operation, writes)| if is_all() { all(*operation, *writes) } else { some(*operation, *writes) })
        .collect()
}

fn all(operation: Operation, writes: usize) -> Vec<Point> {
    let mut points = Vec::new();
    for number in 1..=writes {
        for fault in [Fault::KilledBefore, Fault::KilledAfter] {
            points.push(Point { operation, number, fault });
        }
        if THOROUGHLY.contains(&operation) {
            // In turn: after a few writes each of them was there.
            let others = OTHERS.iter().cycle().skip(2 * (number - 1)).take(2);
            points.extend(others.map(|fault| Point { operation, number, fault: *fault }));
        }
    }
    if operation == Operation::Install {
        for (call, last) in CALLS {
            let step = last.div_ceil(12);
            let numbers = (1..=last).step_by(step);
            points.extend(numbers.map(|number| Point { operation, number, fault: Fault::KilledAtCall(call) }));
        }
    }
    if matches!(operation, Operation::Upgrade | Operation::Migration) {
        for number in [1, writes.div_ceil(2), writes] {
            for fault in [Fault::ApiServerRestarted, Fault::EtcdStopped] {
                points.push(Point { operation, number, fault });
            }
        }
    }
    points
}

/// A kill at the first and the last write and one between them; and everything else once in the middle of an upgrade.
fn some(operation: Operation, writes: usize) -> Vec<Point> {
    let numbers = BTreeSet::from([1, writes.div_ceil(2), writes]);
    let kills = numbers.into_iter().zip([Fault::KilledAfter, Fault::KilledBefore].into_iter().cycle());
    let mut points: Vec<Point> = kills.map(|(number, fault)| Point { operation, number, fault }).collect();
    if operation == Operation::Install {
        points.extend(CALLS.map(|(call, last)| Point {
            operation,
            number: last.div_ceil(4),
            fault: Fault::KilledAtCall(call),
        }));
    }
    if operation == Operation::Migration {
        // In the middle the objects are rewritten.
        let numbers = (writes.div_ceil(3)..).step_by(2);
        points.extend(OF_MIGRATION.into_iter().zip(numbers).map(|(fault, number)| Point { operation, number, fault }));
    }
    if operation == Operation::Upgrade {
        let others = OTHERS.into_iter().chain([Fault::ApiServerRestarted]).enumerate();
        points.extend(others.map(|(index, fault)| Point {
            operation,
            number: 2 + index % writes.max(3).saturating_sub(2),
            fault,
        }));
    }
    points
}
