//! `/metrics`: what all programs count, and what each adds. docs/metrics.md describes them all, and tests compare.
//!
//! Labels take their values from enums and kinds, never from objects: the number of series is fixed. What a program counts lives
//! in statics, because reconcilers run wherever they are called; a [`Registry`] only names it.

mod outcome;
mod requests;
mod work;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::header;
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use outcome::{Outcome, add_outcomes, count_reconcile};
pub(crate) use requests::{Counted, is_watch};
pub(crate) use work::{Running, Waiting};

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
