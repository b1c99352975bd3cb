//! What the installer counts. Labels are enums, so the number of series is fixed. docs/metrics.md describes them.

use std::fmt;
use std::sync::LazyLock;

use kube::runtime::reflector::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use rukpak_crds::condition::{Conditions as _, HAS_VALID_BUNDLE, HEALTHY, INSTALLED, READY, RECONCILING, STALLED};
use rukpak_crds::{BundleDeployment, ConditionStatus};
use rukpak_format::Format;
use rukpak_plan::status::{CONTESTED, FOREIGN_BUNDLES, SUSPENDED};
use rukpak_runtime::metrics::{Counters, Gauges, Outcome};
use rukpak_store::Collected;
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// Conditions that are counted.
const TYPES: [&str; 9] =
    [HAS_VALID_BUNDLE, INSTALLED, HEALTHY, READY, RECONCILING, STALLED, CONTESTED, FOREIGN_BUNDLES, SUSPENDED];

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
pub(crate) fn count_repair(outcome: Outcome) {
    COUNTED.repairs.get_or_create(&[("outcome", outcome.name())]).inc();
}

/// What a collection left in the store.
pub(crate) fn set_store(Collected { kept, kept_bytes, .. }: Collected) {
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

/// The conditions of all BundleDeployments, counted when somebody asks: nothing is counted while they change. Looks at the cache, which
/// has all of them while this process leads.
#[derive(Debug)]
struct DeploymentConditions {
    deployments: Store<BundleDeployment>,
    filled: CancellationToken,
}

impl DeploymentConditions {
    fn of(context: &Context) -> Self {
        Self { deployments: context.reads.deployments.clone(), filled: context.filled.clone() }
    }

    /// How many deployments of ours have which condition.
    fn counts(&self) -> Gauges<2> {
        let counts = Gauges::default();
        for type_ in TYPES {
            for status in [ConditionStatus::True, ConditionStatus::False, ConditionStatus::Unknown] {
                drop(counts.get_or_create(&labels(type_, status)));
            }
        }
        for deployment in self.deployments.state() {
            let is_ours = Format::of_class(&deployment.spec.provisioner_class_name).is_some();
            let Some(status) = deployment.status.as_ref().filter(|_| is_ours) else { continue };
            for type_ in TYPES {
                if let Some(condition) = status.conditions.find(type_) {
                    counts.get_or_create(&labels(type_, condition.status)).inc();
                }
            }
        }
        counts
    }
}

fn labels(type_: &'static str, status: ConditionStatus) -> [(&'static str, &'static str); 2] {
    let status = match status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    };
    [("type", type_), ("status", status)]
}

impl Collector for DeploymentConditions {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // Who stands by has seen none of them.
        if !self.filled.is_cancelled() {
            return Ok(());
        }
        let help = "BundleDeployments by their conditions";
        let name = "rukpak_bundledeployment_condition";
        self.counts().encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher};
    use rukpak_runtime::metrics::text;
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_of_our_deployments_are_counted_once_all_are_seen() {
        let (deployments, mut writer) = reflector::store();
        writer.apply_watcher_event(&watcher::Event::Init);
        for (name, class, ready) in [
            ("a", "core-rukpak-io-plain", "True"),
            ("b", "core-rukpak-io-registry", "False"),
            ("c", "core-rukpak-io-plain", "True"),
            ("other", "somebody-elses", "True"),
        ] {
            let conditions = json!([{"type": "Ready", "status": ready, "reason": "R", "message": "",
                                     "lastTransitionTime": "2024-01-01T00:00:00Z"}]);
            let deployment = json!({"metadata": {"name": name}, "status": {"conditions": conditions}, "spec": {
                "provisionerClassName": class,
                "template": {"spec": {"provisionerClassName": class, "source": {"type": "image"}}}}});
            writer.apply_watcher_event(&watcher::Event::InitApply(serde_json::from_value(deployment).unwrap()));
        }
        writer.apply_watcher_event(&watcher::Event::InitDone);
        let filled = CancellationToken::new();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(DeploymentConditions { deployments, filled: filled.clone() }));
        assert_eq!(text(&registry), "# EOF\n", "not all are seen");
        filled.cancel();
        let text = text(&registry);
        for (type_, status, count) in [("Ready", "True", 2), ("Ready", "False", 1), ("Stalled", "True", 0)] {
            let line = format!("rukpak_bundledeployment_condition{{type=\"{type_}\",status=\"{status}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
