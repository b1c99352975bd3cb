//! What this program counts. Labels are enums, so the number of series is fixed. docs/metrics.md describes them.

mod conditions;

use std::sync::LazyLock;
use std::time::Duration;

use prometheus_client::registry::Registry;
use rukpak_crds::condition::reason;
use rukpak_crds::validate::Source;
use rukpak_crds::{Condition, ConditionStatus};
use rukpak_runtime::metrics::{Counters, Durations, Gauges, add_reconciles, durations, registry as common};
use rukpak_sandbox::Findings;
use rukpak_store::Collected;
use rukpak_trust::Verdict;

use crate::context::Context;
use conditions::DeploymentConditions;

/// Which reconciler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bundles.
    Bundle,
    /// BundleDeployments.
    BundleDeployment,
}

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

const KINDS: [(Kind, &str); 2] = [(Kind::Bundle, "Bundle"), (Kind::BundleDeployment, "BundleDeployment")];
const OUTCOMES: [(Outcome, &str); 5] = [
    (Outcome::Unchanged, "unchanged"),
    (Outcome::Succeeded, "succeeded"),
    (Outcome::Waiting, "waiting"),
    (Outcome::Failed, "failed"),
    (Outcome::Error, "error"),
];
/// Types of sources, as the API calls them.
const SOURCES: [&str; 5] = ["image", "git", "http", "configMaps", "upload"];
/// How fetches end.
const FETCHED: [Outcome; 3] = [Outcome::Succeeded, Outcome::Waiting, Outcome::Failed];
/// What comes of a look at the policies, and at signatures where they ask for one.
const VERIFIED: [&str; 5] = ["verified", "not_required", "missing", "refused", "pending"];
/// How repairs end.
const REPAIRED: [Outcome; 2] = [Outcome::Succeeded, Outcome::Failed];

/// Of the process: reconcilers run wherever they are called.
static COUNTED: LazyLock<Own> = LazyLock::new(Own::new);

struct Own {
    passes: Counters<2>,
    fetches: Counters<2>,
    fetched_bytes: Counters<1>,
    fetch_durations: Durations,
    repairs: Counters<1>,
    verifications: Counters<1>,
    /// Without a series until it is known, as are the two of the store.
    confinement: Gauges<1>,
    store_contents: Gauges<0>,
    store_bytes: Gauges<0>,
}

impl Own {
    /// Nothing has happened: what is known beforehand is shown as 0.
    fn new() -> Self {
        let own = Self {
            passes: Counters::default(),
            fetches: Counters::default(),
            fetched_bytes: Counters::default(),
            fetch_durations: durations(),
            repairs: Counters::default(),
            verifications: Counters::default(),
            confinement: Gauges::default(),
            store_contents: Gauges::default(),
            store_bytes: Gauges::default(),
        };
        for (_, kind) in KINDS {
            for (_, outcome) in OUTCOMES {
                drop(own.passes.get_or_create(&[("kind", kind), ("outcome", outcome)]));
            }
        }
        for source in SOURCES {
            drop(own.fetched_bytes.get_or_create(&[("source", source)]));
            for outcome in FETCHED {
                drop(own.fetches.get_or_create(&[("source", source), ("outcome", outcome.name())]));
            }
        }
        for outcome in REPAIRED {
            drop(own.repairs.get_or_create(&[("outcome", outcome.name())]));
        }
        for outcome in VERIFIED {
            drop(own.verifications.get_or_create(&[("outcome", outcome)]));
        }
        own
    }
}

/// What a child process found out that it cannot do.
pub fn set_confinement(findings: Findings) {
    let Findings { files, memory, ports, programs } = findings;
    for (what, is_refused) in [("files", files), ("memory", memory), ("ports", ports), ("programs", programs)] {
        COUNTED.confinement.get_or_create(&[("from", what)]).set(is_refused.into());
    }
}

/// Counts one reconcile.
pub fn count(kind: Kind, outcome: Outcome) {
    COUNTED.passes.get_or_create(&[("kind", KINDS[kind as usize].1), ("outcome", outcome.name())]).inc();
}

/// Counts one fetch of a type of [`source`](source_type): `bytes` are those of all files, unpacked, if it succeeded.
pub fn count_fetch(source: &'static str, outcome: Outcome, bytes: u64, took: Duration) {
    COUNTED.fetches.get_or_create(&[("source", source), ("outcome", outcome.name())]).inc();
    COUNTED.fetched_bytes.get_or_create(&[("source", source)]).inc_by(bytes);
    COUNTED.fetch_durations.get_or_create(&[("source", source)]).observe(took.as_secs_f64());
}

/// What the API calls a source of this type.
pub fn source_type(source: &Source) -> &'static str {
    match source {
        Source::Image { .. } => "image",
        Source::Git { .. } => "git",
        Source::Http { .. } => "http",
        Source::ConfigMaps(_) => "configMaps",
        Source::Upload => "upload",
    }
}

/// Counts what the policies, and the search for a signature, said of a source.
pub fn count_verification(verdict: &Verdict) {
    let outcome = match verdict.reason {
        reason::SIGNATURE_VERIFIED => "verified",
        reason::NOT_REQUIRED => "not_required",
        reason::SIGNATURE_MISSING => "missing",
        reason::REFUSED_BY_POLICY => "refused",
        _ => "pending",
    };
    COUNTED.verifications.get_or_create(&[("outcome", outcome)]).inc();
}

/// Counts the repair of one object.
pub fn count_repair(outcome: Outcome) {
    COUNTED.repairs.get_or_create(&[("outcome", outcome.name())]).inc();
}

/// What a collection left in the store.
pub fn set_store(Collected { kept, kept_bytes, .. }: Collected) {
    for (gauge, value) in [(&COUNTED.store_contents, kept), (&COUNTED.store_bytes, kept_bytes)] {
        gauge.get_or_create(&[]).set(i64::try_from(value).unwrap_or(i64::MAX));
    }
}

/// All that the controller shows.
pub fn registry(context: &Context) -> Registry {
    let mut registry = common();
    add_reconciles(&mut registry);
    let own = &*COUNTED;
    registry.register("rukpak_reconcile", "Reconciles by outcome", own.passes.clone());
    let help = "Attempts to fetch the content of a Bundle by how they ended";
    registry.register("rukpak_fetches", help, own.fetches.clone());
    let help = "Sizes of all files of what was fetched, unpacked";
    registry.register("rukpak_fetched_bytes", help, own.fetched_bytes.clone());
    let help = "How long attempts to fetch took, unpacking and storing included";
    registry.register("rukpak_fetch_duration_seconds", help, own.fetch_durations.clone());
    let help = "Objects of BundleDeployments that were changed or deleted, by whether they could be repaired";
    registry.register("rukpak_drift_repairs", help, own.repairs.clone());
    let help = "What the ContentPolicies, and the search for signatures, said of the sources of Bundles";
    registry.register("rukpak_verifications", help, own.verifications.clone());
    let help = "Whether this node's kernel keeps child processes from what they need not do";
    registry.register("rukpak_child_confined", help, own.confinement.clone());
    let help = "Contents in the store when it was last collected";
    registry.register("rukpak_store_contents", help, own.store_contents.clone());
    let help = "What the contents in the store took on disk when it was last collected";
    registry.register("rukpak_store_bytes", help, own.store_bytes.clone());
    registry.register_collector(Box::new(DeploymentConditions::of(context)));
    registry
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
        // No other test counts these.
        count(Kind::BundleDeployment, Outcome::Waiting);
        count_fetch("http", Outcome::Succeeded, 5, Duration::from_millis(30));
        count_fetch("http", Outcome::Failed, 0, Duration::from_millis(30));
        let own = &*COUNTED;
        let passes = own.passes.get_or_create(&[("kind", "BundleDeployment"), ("outcome", "waiting")]).get();
        let failed = own.fetches.get_or_create(&[("source", "http"), ("outcome", "failed")]).get();
        let bytes = own.fetched_bytes.get_or_create(&[("source", "http")]).get();
        let mut registry = Registry::default();
        registry.register("took", "Seconds", own.fetch_durations.clone());
        let text = rukpak_runtime::metrics::text(&registry);
        assert_eq!((passes, failed, bytes), (1, 1, 5));
        assert!(text.contains("took_count{source=\"http\"} 2\n"), "{text}");
        assert!(text.contains("took_sum{source=\"http\"} 0.06\n"), "{text}");
    }
}
