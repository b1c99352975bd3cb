//! What this program counts. Labels are enums, so the number of series is fixed.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rukpak_crds::{Condition, ConditionStatus};
use rukpak_runtime::metrics::reconcile_panics;
use rukpak_sandbox::Findings;

/// Which reconciler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bundles.
    Bundle,
    /// BundleDeployments.
    BundleDeployment,
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing to do.
    Unchanged,
    /// What was asked for was done.
    Succeeded,
    /// Something else has to happen first.
    Waiting,
    /// It could not be done; the status says why.
    Failed,
    /// The API server or the store could not be used.
    Error,
}

impl Outcome {
    /// What the condition `Ready` says that a pass has changed it to; `None` if it is as it was.
    pub fn of(ready: Option<&Condition>) -> Self {
        match ready.map(|ready| ready.status) {
            None => Self::Unchanged,
            Some(ConditionStatus::True) => Self::Succeeded,
            Some(ConditionStatus::False) => Self::Failed,
            Some(ConditionStatus::Unknown) => Self::Waiting,
        }
    }
}

const KINDS: [(Kind, &str); 2] = [(Kind::Bundle, "Bundle"), (Kind::BundleDeployment, "BundleDeployment")];
const OUTCOMES: [(Outcome, &str); 5] = [
    (Outcome::Unchanged, "unchanged"),
    (Outcome::Succeeded, "succeeded"),
    (Outcome::Waiting, "waiting"),
    (Outcome::Failed, "failed"),
    (Outcome::Error, "error"),
];

/// Of the process: reconcilers run wherever they are called.
static PASSES: [[AtomicU64; OUTCOMES.len()]; KINDS.len()] =
    [const { [const { AtomicU64::new(0) }; OUTCOMES.len()] }; KINDS.len()];

/// What child processes cannot do on this node; `u64::MAX` where nobody knows.
static CONFINEMENT: [AtomicU64; 4] = [const { AtomicU64::new(u64::MAX) }; 4];

/// What a child process found out that it cannot do.
pub fn set_confinement(findings: Findings) {
    let Findings { files, memory, ports, programs } = findings;
    for (gauge, is_refused) in CONFINEMENT.iter().zip([files, memory, ports, programs]) {
        gauge.store(u64::from(is_refused), Ordering::Relaxed);
    }
}

/// Counts one pass.
pub fn count(kind: Kind, outcome: Outcome) {
    PASSES[kind as usize][outcome as usize].fetch_add(1, Ordering::Relaxed);
}

/// Adds everything counted so far, in Prometheus' text form.
pub fn render(text: &mut String) {
    text.push_str(
        "# HELP rukpak_reconcile_total Reconcile passes by how they ended.\n\
         # TYPE rukpak_reconcile_total counter\n",
    );
    for (kind, kind_name) in KINDS {
        for (outcome, outcome_name) in OUTCOMES {
            let passes = PASSES[kind as usize][outcome as usize].load(Ordering::Relaxed);
            // Writing to a String does not fail.
            let _ =
                writeln!(text, "rukpak_reconcile_total{{kind=\"{kind_name}\",outcome=\"{outcome_name}\"}} {passes}");
        }
    }
    reconcile_panics(text);
    show_confinement(text);
}

fn show_confinement(text: &mut String) {
    let found = CONFINEMENT.each_ref().map(|gauge| gauge.load(Ordering::Relaxed));
    if found.contains(&u64::MAX) {
        return;
    }
    text.push_str(
        "# HELP rukpak_child_confined Whether this node's kernel keeps child processes from what they need not do.\n\
         # TYPE rukpak_child_confined gauge\n",
    );
    for (what, is_refused) in ["files", "memory", "ports", "programs"].into_iter().zip(found) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "rukpak_child_confined{{from=\"{what}\"}} {is_refused}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_has_its_own_place() {
        for (place, (kind, _)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, place);
        }
        for (place, (outcome, _)) in OUTCOMES.iter().enumerate() {
            assert_eq!(*outcome as usize, place);
        }
    }

    #[test]
    fn what_is_counted_is_shown() {
        // No other test counts this pair.
        count(Kind::BundleDeployment, Outcome::Waiting);
        let mut text = String::new();
        render(&mut text);
        assert!(text.contains("rukpak_reconcile_total{kind=\"BundleDeployment\",outcome=\"waiting\"} 1\n"), "{text}");
        assert!(text.lines().all(|line| line.starts_with("# ") || line.split(' ').count() == 2), "{text}");
    }
}
