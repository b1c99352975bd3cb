//! `/metrics`: what all programs count, and what each adds. docs/metrics.md describes them all, and tests compare.
//!
//! Labels take their values from enums and kinds, never from objects: the number of series is fixed. What a program counts lives
//! in statics, because reconcilers run wherever they are called; a [`Registry`] only names it.

mod requests;

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant;

use axum::Router;
use axum::http::header;
use axum::routing::get;
use kube::api::DynamicObject;
use kube::runtime::reflector::ObjectRef;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use rukpak_crds::{Condition, ConditionStatus};

pub(crate) use requests::{Counted, is_watch};

use crate::lock::lock;

/// Names and values.
pub type Labels<const N: usize> = [(&'static str, &'static str); N];
/// One counter for each set of labels.
pub type Counters<const N: usize> = Family<Labels<N>, Counter>;
/// One gauge for each set of labels.
pub type Gauges<const N: usize> = Family<Labels<N>, Gauge>;
/// One histogram of seconds for each value of a label.
pub type Durations = Family<Labels<1>, Histogram>;

/// Upper bounds of buckets, in seconds: from an answer out of memory to a large image from far away.
const BOUNDS: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0];
/// The text that [`text`] makes: OpenMetrics. What reads Prometheus' older form reads it as well.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the modules of this crate count.
static COUNTED: LazyLock<Common> = LazyLock::new(Common::default);

struct Common {
    panics: Counter,
    leads: Gauge,
    /// By kind and outcome.
    reconciles: Counters<2>,
    durations: Durations,
    running: Gauges<1>,
    waiting: Gauges<1>,
    requests: Counters<2>,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            panics: Counter::default(),
            leads: Gauge::default(),
            reconciles: Counters::default(),
            durations: durations(),
            running: Gauges::default(),
            waiting: Gauges::default(),
            requests: Counters::default(),
        }
    }
}

/// Histograms of seconds.
pub fn durations() -> Durations {
    Family::new_with_constructor(|| Histogram::new(BOUNDS))
}

/// Counts one reconcile that panicked.
pub(crate) fn count_panic() {
    COUNTED.panics.inc();
}

/// Notes whether this process leads.
pub(crate) fn set_leads(leads: bool) {
    COUNTED.leads.set(leads.into());
}

/// What every program shows: the version that runs, and its requests to the API server.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("rukpak_build", "The version that runs", version);
    let help = "Requests that the API server was sent, by what came back";
    registry.register("rukpak_api_requests", help, COUNTED.requests.clone());
    registry
}

/// Adds what programs show that reconcile.
pub fn add_reconciles(registry: &mut Registry) {
    let Common { panics, leads, durations, running, waiting, .. } = &*COUNTED;
    registry.register("rukpak_leader", "Whether this process is the one that writes", leads.clone());
    let help = "Reconciles that met a bug in this program";
    registry.register("rukpak_reconcile_panics", help, panics.clone());
    let help = "How long reconciles took, waiting included";
    registry.register("rukpak_reconcile_duration_seconds", help, durations.clone());
    registry.register("rukpak_reconciles_running", "Reconciles that have begun and not ended", running.clone());
    let help = "Objects that a reconcile was asked for, and that it has not begun for";
    registry.register("rukpak_queue_depth", help, waiting.clone());
}

/// `/metrics`, with what is registered.
pub fn router(registry: Registry) -> Router {
    let registry = Arc::new(registry);
    let answer = async move || ([(header::CONTENT_TYPE, CONTENT_TYPE)], text(&registry));
    Router::new().route("/metrics", get(answer))
}

/// What is registered, as it is now, in OpenMetrics' text form.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = encode(&mut text, registry);
    text
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

const OUTCOMES: [(Outcome, &str); 5] = [
    (Outcome::Unchanged, "unchanged"),
    (Outcome::Succeeded, "succeeded"),
    (Outcome::Waiting, "waiting"),
    (Outcome::Failed, "failed"),
    (Outcome::Error, "error"),
];

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
    COUNTED.reconciles.get_or_create(&[("kind", kind), ("outcome", outcome.name())]).inc();
}

/// Adds the reconciles of `kinds`, by outcome. Those that have not happened are shown as 0.
pub fn add_outcomes(registry: &mut Registry, kinds: &[&'static str]) {
    for kind in kinds {
        for (_, outcome) in OUTCOMES {
            drop(COUNTED.reconciles.get_or_create(&[("kind", kind), ("outcome", outcome)]));
        }
    }
    registry.register("rukpak_reconcile", "Reconciles by outcome", COUNTED.reconciles.clone());
}

/// The objects of a kind that a reconcile was asked for, and has not begun for: each once, however often it was asked.
pub(crate) struct Waiting {
    objects: Mutex<HashSet<ObjectRef<DynamicObject>>>,
    depth: Gauge,
}

impl Waiting {
    /// None yet.
    pub(crate) fn of(kind: &'static str) -> Self {
        let depth = COUNTED.waiting.get_or_create_owned(&[("kind", kind)]);
        Self { objects: Mutex::default(), depth }
    }

    /// A reconcile was asked for.
    pub(crate) fn add(&self, object: ObjectRef<DynamicObject>) {
        self.change(|objects| objects.insert(object));
    }

    /// It begins, or the object is gone.
    pub(crate) fn remove(&self, object: &ObjectRef<DynamicObject>) {
        self.change(|objects| objects.remove(object));
    }

    fn change(&self, change: impl FnOnce(&mut HashSet<ObjectRef<DynamicObject>>) -> bool) {
        let mut objects = lock(&self.objects);
        change(&mut objects);
        self.depth.set(i64::try_from(objects.len()).unwrap_or(i64::MAX));
    }
}

/// A reconcile: dropped, it has ended, and its time is counted.
pub(crate) struct Running {
    begun: Instant,
    gauge: Gauge,
    duration: Histogram,
}

impl Running {
    /// It begins now.
    pub(crate) fn begin(kind: &'static str) -> Self {
        let labels = [("kind", kind)];
        let running = COUNTED.running.get_or_create_owned(&labels);
        running.inc();
        Self { begun: Instant::now(), gauge: running, duration: COUNTED.durations.get_or_create_owned(&labels) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.gauge.dec();
        self.duration.observe(self.begun.elapsed().as_secs_f64());
    }
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
        let text = text(&registry);
        assert!(text.contains("rukpak_reconcile_total{kind=\"Pump\",outcome=\"waiting\"} 1\n"), "{text}");
        assert!(text.contains("rukpak_reconcile_total{kind=\"Pump\",outcome=\"failed\"} 0\n"), "{text}");
    }
}
