//! What this program counts.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::http::StatusCode;

use prometheus_client::registry::Registry;
use rukpak_crds::condition::Conditions as _;
use rukpak_crds::olm::{ClusterCatalog, ClusterExtension, PROGRESSING, reason};
use rukpak_crds::{Condition, ConditionStatus};
use rukpak_runtime::metrics::{Durations, Gauges, add_reconciles, durations, registry as common};

/// Without a series until somebody counts them.
static PLATFORM_OPERATORS: LazyLock<Gauges<1>> = LazyLock::new(Gauges::default);
static CLUSTER_CATALOGS: LazyLock<Gauges<1>> = LazyLock::new(Gauges::default);
static CLUSTER_EXTENSIONS: LazyLock<Gauges<1>> = LazyLock::new(Gauges::default);
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

/// How many ClusterCatalogs are as their specs ask for, how many are not, and how many were not looked at yet.
pub(crate) fn set_cluster_catalogs(objects: &[Arc<ClusterCatalog>]) {
    let status = |object: &Arc<ClusterCatalog>| object.status.as_ref().map(|status| status.conditions.clone());
    set(&CLUSTER_CATALOGS, progress(objects.iter().map(status)));
}

/// How many ClusterExtensions are as their specs ask for, how many are not, and how many are on their way.
pub(crate) fn set_cluster_extensions(objects: &[Arc<ClusterExtension>]) {
    let status = |object: &Arc<ClusterExtension>| object.status.as_ref().map(|status| status.conditions.clone());
    set(&CLUSTER_EXTENSIONS, progress(objects.iter().map(status)));
}

/// Counts what `Progressing` says.
fn progress(all: impl Iterator<Item = Option<Vec<Condition>>>) -> [(&'static str, usize); 3] {
    let [mut settled, mut failing, mut progressing] = [0; 3];
    for conditions in all {
        match conditions.unwrap_or_default().find(PROGRESSING) {
            Some(said) if said.reason == reason::SUCCEEDED => settled += 1,
            Some(said) if said.reason == reason::RETRYING || said.status == ConditionStatus::False => failing += 1,
            _ => progressing += 1,
        }
    }
    [("settled", settled), ("failing", failing), ("progressing", progressing)]
}

/// How many catalogs could be loaded when they were last looked at, and how many could not.
pub(crate) fn set_catalogs(loaded: usize, failing: usize) {
    set(&CATALOGS, [("loaded", loaded), ("failing", failing)]);
}

fn set<const N: usize>(gauges: &Gauges<1>, counts: [(&'static str, usize); N]) {
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
    let help = "ClusterCatalogs, by whether their content is the one that is asked for";
    registry.register("rukpak_cluster_catalogs", help, CLUSTER_CATALOGS.clone());
    let help = "ClusterExtensions, by whether what is asked for is installed";
    registry.register("rukpak_cluster_extensions", help, CLUSTER_EXTENSIONS.clone());
    let help = "Catalogs that were asked for, by whether they could be loaded when they were last looked at";
    registry.register("rukpak_platform_catalogs", help, CATALOGS.clone());
    let help = "How long it took until a call for the content of a ClusterCatalog was answered, its body not included";
    registry.register("rukpak_catalog_request_duration_seconds", help, CATALOG_REQUESTS.clone());
    // There before the first call.
    drop(CATALOG_REQUESTS.get_or_create(&[("code", "2xx")]));
    registry
}
