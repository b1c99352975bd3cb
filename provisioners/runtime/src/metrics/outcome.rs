//! How reconciles end: `rukpak_reconcile`.

use std::sync::LazyLock;

use prometheus_client::registry::Registry;
use rukpak_crds::{Condition, ConditionStatus};

use super::Counters;

/// How a reconcile ended.
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

const OUTCOMES: [(Outcome, &str); 5] = [
    (Outcome::Unchanged, "unchanged"),
    (Outcome::Succeeded, "succeeded"),
    (Outcome::Waiting, "waiting"),
    (Outcome::Failed, "failed"),
    (Outcome::Error, "error"),
];

/// Reconciles of this process, by kind and outcome.
static RECONCILES: LazyLock<Counters<2>> = LazyLock::new(Counters::default);

impl Outcome {
    /// What the condition `Ready` says that a reconcile has changed it to; `None` if it is as it was.
    pub fn of(ready: Option<&Condition>) -> Self {
        match ready.map(|ready| ready.status) {
            None => Self::Unchanged,
            Some(ConditionStatus::True) => Self::Succeeded,
            Some(ConditionStatus::False) => Self::Failed,
            Some(ConditionStatus::Unknown) => Self::Waiting,
        }
    }

    /// Its label.
    pub fn name(self) -> &'static str {
        OUTCOMES[self as usize].1
    }
}

/// Counts one reconcile of an object of `kind`.
pub fn count_reconcile(kind: &'static str, outcome: Outcome) {
    RECONCILES.get_or_create(&[("kind", kind), ("outcome", outcome.name())]).inc();
}

/// Adds the reconciles of `kinds`, by outcome. Those that have not happened are shown as 0.
pub fn add_outcomes(registry: &mut Registry, kinds: &[&'static str]) {
    for kind in kinds {
        for (_, outcome) in OUTCOMES {
            drop(RECONCILES.get_or_create(&[("kind", kind), ("outcome", outcome)]));
        }
    }
    registry.register("rukpak_reconcile", "Reconciles by outcome", RECONCILES.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_label() {
        for (place, (outcome, _)) in OUTCOMES.iter().enumerate() {
            assert_eq!(*outcome as usize, place);
        }
    }

    #[test]
    fn a_counted_reconcile_is_shown() {
        count_reconcile("Pump", Outcome::Waiting);
        let mut registry = Registry::default();
        add_outcomes(&mut registry, &["Pump"]);
        let text = super::super::text(&registry);
        assert!(text.contains("rukpak_reconcile_total{kind=\"Pump\",outcome=\"waiting\"} 1\n"), "{text}");
        assert!(text.contains("rukpak_reconcile_total{kind=\"Pump\",outcome=\"failed\"} 0\n"), "{text}");
    }
}
