//! What happened, counted. Labels come from enums, so the number of series is fixed.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rukpak_runtime::metrics::{Counters, Durations, durations, registry as common};

use crate::{BUNDLE_PATH, CONFIG_MAP_PATH, CRD_PATH, DEPLOYMENT_PATH};

/// What the API server is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An object is made.
    Create,
    /// An object is changed.
    Update,
    /// An object is removed.
    Delete,
    /// Anything else, and requests that could not be read.
    Other,
}

/// What we answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Admitted.
    Allowed,
    /// Refused, with a reason.
    Denied,
    /// The request could not be read.
    Invalid,
}

impl Verdict {
    /// Its label.
    pub(crate) fn name(self) -> &'static str {
        VERDICTS[self as usize].1
    }
}

/// What is asked.
const PATHS: [&str; 4] = [BUNDLE_PATH, CONFIG_MAP_PATH, CRD_PATH, DEPLOYMENT_PATH];
const OPERATIONS: [(Operation, &str); 4] = [
    (Operation::Create, "create"),
    (Operation::Update, "update"),
    (Operation::Delete, "delete"),
    (Operation::Other, "other"),
];
const VERDICTS: [(Verdict, &str); 3] =
    [(Verdict::Allowed, "allowed"), (Verdict::Denied, "denied"), (Verdict::Invalid, "invalid")];

/// The counters of this process.
#[derive(Debug)]
pub struct Metrics {
    reviews: Counters<2>,
    denials: Counters<1>,
    durations: Durations,
    certificate_expiry: Gauge<u64, AtomicU64>,
}

impl Default for Metrics {
    /// Nothing has happened: what is known beforehand is shown as 0.
    fn default() -> Self {
        let metrics = Self {
            reviews: Counters::default(),
            denials: Counters::default(),
            durations: durations(),
            certificate_expiry: Gauge::default(),
        };
        for (_, operation) in OPERATIONS {
            for (_, verdict) in VERDICTS {
                drop(metrics.reviews.get_or_create(&[("operation", operation), ("verdict", verdict)]));
            }
        }
        for path in PATHS {
            drop(metrics.denials.get_or_create(&[("path", path)]));
        }
        metrics
    }
}

impl Metrics {
    /// Counts one answer, and how long it took, on one of the paths that the API server posts to.
    pub fn count(&self, path: &'static str, operation: Operation, verdict: Verdict, took: Duration) {
        let (operation, verdict_label) = (OPERATIONS[operation as usize].1, verdict.name());
        self.reviews.get_or_create(&[("operation", operation), ("verdict", verdict_label)]).inc();
        self.durations.get_or_create(&[("path", path)]).observe(took.as_secs_f64());
        if verdict == Verdict::Denied {
            self.denials.get_or_create(&[("path", path)]).inc();
        }
    }

    /// Notes when the serving certificate expires, in Unix seconds.
    pub fn set_certificate_expiry(&self, unix_seconds: u64) {
        self.certificate_expiry.set(unix_seconds);
    }

    /// All that the webhook shows.
    pub fn registry(&self) -> Registry {
        let mut registry = common();
        registry.register("rukpak_webhook_reviews", "Admission reviews answered", self.reviews.clone());
        registry.register("rukpak_webhook_denials", "Admission reviews answered with a no", self.denials.clone());
        let help = "How long callers waited for an answer, their own sending included";
        registry.register("rukpak_webhook_review_duration_seconds", help, self.durations.clone());
        let help = "When the serving certificate expires; 0 without one";
        let expiry = self.certificate_expiry.clone();
        registry.register("rukpak_webhook_certificate_expiry_timestamp_seconds", help, expiry);
        registry
    }
}

#[cfg(test)]
mod tests {
    use rukpak_runtime::metrics::text;

    use super::*;

    #[test]
    fn every_label_has_its_own_place() {
        for (index, (operation, _)) in OPERATIONS.iter().enumerate() {
            assert_eq!(*operation as usize, index);
        }
        for (index, (verdict, _)) in VERDICTS.iter().enumerate() {
            assert_eq!(*verdict as usize, index);
        }
        let metrics = Metrics::default();
        metrics.count(BUNDLE_PATH, Operation::Update, Verdict::Denied, Duration::from_millis(7));
        metrics.count(CRD_PATH, Operation::Update, Verdict::Allowed, Duration::from_secs(301));
        metrics.set_certificate_expiry(7);
        let text = text(&metrics.registry());
        for line in [
            "rukpak_webhook_reviews_total{operation=\"update\",verdict=\"denied\"} 1",
            "rukpak_webhook_reviews_total{operation=\"create\",verdict=\"denied\"} 0",
            "rukpak_webhook_denials_total{path=\"/validate-core-rukpak-io-v1alpha1-bundle\"} 1",
            "rukpak_webhook_denials_total{path=\"/validate-crd\"} 0",
            "rukpak_webhook_review_duration_seconds_bucket{le=\"0.005\",path=\"/validate-core-rukpak-io-v1alpha1-bundle\"} 0",
            "rukpak_webhook_review_duration_seconds_bucket{le=\"0.02\",path=\"/validate-core-rukpak-io-v1alpha1-bundle\"} 1",
            "rukpak_webhook_review_duration_seconds_sum{path=\"/validate-crd\"} 301.0",
            "rukpak_webhook_certificate_expiry_timestamp_seconds 7",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
        }
    }
}
