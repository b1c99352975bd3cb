//! What the installer counts. Labels are enums, so the number of series is fixed. docs/metrics.md describes them.

mod conditions;

use std::sync::LazyLock;

use prometheus_client::registry::Registry;
use rukpak_runtime::metrics::{Counters, Gauges, Outcome};
use rukpak_store::Collected;

use crate::context::Context;
use conditions::DeploymentConditions;

/// How repairs end.
const REPAIRED: [Outcome; 2] = [Outcome::Succeeded, Outcome::Failed];

/// Of the process: reconcilers run wherever they are called.
static COUNTED: LazyLock<Counted> = LazyLock::new(Counted::new);

struct Counted {
    repairs: Counters<1>,
    /// Without a series until the store was collected, as is the next.
    store_contents: Gauges<0>,
    store_bytes: Gauges<0>,
}

impl Counted {
    /// Nothing has happened: what is known beforehand is shown as 0.
    fn new() -> Self {
        let repairs = Counters::default();
        for outcome in REPAIRED {
            drop(repairs.get_or_create(&[("outcome", outcome.name())]));
        }
        Self { repairs, store_contents: Gauges::default(), store_bytes: Gauges::default() }
    }
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

/// Adds what is counted here.
pub fn register(registry: &mut Registry, context: &Context) {
    let Counted { repairs, store_contents, store_bytes } = &*COUNTED;
    let help = "Objects of BundleDeployments that were changed or deleted, by whether they could be repaired";
    registry.register("rukpak_drift_repairs", help, repairs.clone());
    let help = "Contents in the store when it was last collected";
    registry.register("rukpak_store_contents", help, store_contents.clone());
    let help = "What the contents in the store took on disk when it was last collected";
    registry.register("rukpak_store_bytes", help, store_bytes.clone());
    registry.register_collector(Box::new(DeploymentConditions::of(context)));
}
