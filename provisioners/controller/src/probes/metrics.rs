//! What is counted. Labels are enums, so the number of series is fixed.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rukpak_crds::{Condition, ConditionStatus};
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

static PANICS: AtomicU64 = AtomicU64::new(0);

/// How many there are of each of two states; `u64::MAX` where nobody counts them.
type Gauge = [AtomicU64; 2];

static PLATFORM_OPERATORS: Gauge = [const { AtomicU64::new(u64::MAX) }; 2];
static CATALOGS: Gauge = [const { AtomicU64::new(u64::MAX) }; 2];

/// How many PlatformOperators there are.
pub fn set_platform_operators(installed: usize, failing: usize) {
    set(&PLATFORM_OPERATORS, [installed, failing]);
}

/// How many catalogs could be loaded when they were last looked at, and how many could not.
pub fn set_catalogs(loaded: usize, failing: usize) {
    set(&CATALOGS, [loaded, failing]);
}

fn set(gauge: &Gauge, counts: [usize; 2]) {
    for (gauge, count) in gauge.iter().zip(counts) {
        gauge.store(count as u64, Ordering::Relaxed);
    }
}

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

/// Counts one reconcile that panicked.
pub fn count_panic() {
    PANICS.fetch_add(1, Ordering::Relaxed);
}

/// Everything counted so far, in Prometheus' text form.
pub fn render() -> String {
    let mut text = String::from(
        "# HELP rukpak_build_info The version that runs.\n\
         # TYPE rukpak_build_info gauge\n",
    );
    // Writing to a String does not fail.
    let _ = writeln!(text, "rukpak_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    text.push_str(
        "# HELP rukpak_reconcile_total Reconcile passes by how they ended.\n\
         # TYPE rukpak_reconcile_total counter\n",
    );
    for (kind, kind_name) in KINDS {
        for (outcome, outcome_name) in OUTCOMES {
            let passes = PASSES[kind as usize][outcome as usize].load(Ordering::Relaxed);
            let _ =
                writeln!(text, "rukpak_reconcile_total{{kind=\"{kind_name}\",outcome=\"{outcome_name}\"}} {passes}");
        }
    }
    let panics = PANICS.load(Ordering::Relaxed);
    let _ = writeln!(
        text,
        "# HELP rukpak_reconcile_panics_total Reconciles that met a mistake in this program.\n\
         # TYPE rukpak_reconcile_panics_total counter\n\
         rukpak_reconcile_panics_total {panics}"
    );
    let help = "PlatformOperators, by whether their packages are installed.";
    show(&mut text, ("rukpak_platform_operators", help), ["installed", "failing"], &PLATFORM_OPERATORS);
    let help = "Catalogs that were asked for, by whether they could be loaded when they were last looked at.";
    show(&mut text, ("rukpak_platform_catalogs", help), ["loaded", "failing"], &CATALOGS);
    show_confinement(&mut text);
    text
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

fn show(text: &mut String, (name, help): (&str, &str), states: [&str; 2], gauge: &Gauge) {
    let counts = gauge.each_ref().map(|count| count.load(Ordering::Relaxed));
    if counts.contains(&u64::MAX) {
        return;
    }
    // Writing to a String does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    for (state, count) in states.into_iter().zip(counts) {
        let _ = writeln!(text, "{name}{{state=\"{state}\"}} {count}");
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
        let text = render();
        assert!(text.contains("rukpak_reconcile_total{kind=\"BundleDeployment\",outcome=\"waiting\"} 1\n"), "{text}");
        assert!(text.lines().all(|line| line.starts_with("# ") || line.split(' ').count() == 2), "{text}");
    }
}
