//! What this program counts.

use std::sync::LazyLock;
use std::time::Duration;

use axum::http::StatusCode;

use prometheus_client::registry::Registry;
use rukpak_runtime::metrics::{Durations, Gauges, add_reconciles, durations, registry as common};

/// Without a series until somebody counts them.
static PLATFORM_OPERATORS: LazyLock<Gauges<1>> = LazyLock::new(Gauges::default);
static CATALOGS: LazyLock<Gauges<1>> = LazyLock::new(Gauges::default);
static CATALOG_REQUESTS: LazyLock<Durations> = LazyLock::new(durations);

/// How long it took until a call for a catalog could be answered.
pub(crate) fn observe_catalog_request(status: StatusCode, time: Duration) {
    let class = match status.as_u16() {
        ..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        _ => "5xx",
    };
    CATALOG_REQUESTS.get_or_create(&[("code", class)]).observe(time.as_secs_f64());
}

/// How many PlatformOperators there are.
pub(crate) fn set_platform_operators(installed: usize, failing: usize) {
    set(&PLATFORM_OPERATORS, [("installed", installed), ("failing", failing)]);
}

/// How many catalogs could be loaded when they were last looked at, and how many could not.
pub(crate) fn set_catalogs(loaded: usize, failing: usize) {
    set(&CATALOGS, [("loaded", loaded), ("failing", failing)]);
}

fn set(gauges: &Gauges<1>, counts: [(&'static str, usize); 2]) {
    for (state, count) in counts {
        gauges.get_or_create(&[("state", state)]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// All that it shows.
pub(crate) fn registry() -> Registry {
    let mut registry = common();
    add_reconciles(&mut registry);
    let help = "PlatformOperators, by whether their packages are installed";
    registry.register("rukpak_platform_operators", help, PLATFORM_OPERATORS.clone());
    let help = "Catalogs that were asked for, by whether they could be loaded when they were last looked at";
    registry.register("rukpak_platform_catalogs", help, CATALOGS.clone());
    let help = "How long it took until a call for the content of a ClusterCatalog was answered, its body not included";
    registry.register("rukpak_catalog_request_duration_seconds", help, CATALOG_REQUESTS.clone());
    // There before the first call.
    drop(CATALOG_REQUESTS.get_or_create(&[("code", "2xx")]));
    registry
}
