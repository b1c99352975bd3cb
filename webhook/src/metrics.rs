//! What happened, counted. Labels come from enums, so the number of series is fixed.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

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

const OPERATIONS: [(Operation, &str); 4] = [
    (Operation::Create, "create"),
    (Operation::Update, "update"),
    (Operation::Delete, "delete"),
    (Operation::Other, "other"),
];
const VERDICTS: [(Verdict, &str); 3] =
    [(Verdict::Allowed, "allowed"), (Verdict::Denied, "denied"), (Verdict::Invalid, "invalid")];

/// The counters of this process.
#[derive(Debug, Default)]
pub struct Metrics {
    reviews: [[AtomicU64; VERDICTS.len()]; OPERATIONS.len()],
    certificate_expiry: AtomicU64,
}

impl Metrics {
    /// Counts one answer.
    pub fn count(&self, operation: Operation, verdict: Verdict) {
        self.reviews[operation as usize][verdict as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes when the serving certificate expires, in Unix seconds.
    pub fn set_certificate_expiry(&self, unix_seconds: u64) {
        self.certificate_expiry.store(unix_seconds, Ordering::Relaxed);
    }

    /// The counters in the Prometheus text format.
    pub fn render(&self) -> String {
        let mut text = String::from(
            "# HELP rukpak_webhook_reviews_total Admission reviews answered.\n# TYPE rukpak_webhook_reviews_total counter\n",
        );
        for (operation, operation_label) in OPERATIONS {
            for (verdict, verdict_label) in VERDICTS {
                let count = self.reviews[operation as usize][verdict as usize].load(Ordering::Relaxed);
                // Writing to a String does not fail.
                let _ = writeln!(
                    text,
                    "rukpak_webhook_reviews_total{{operation=\"{operation_label}\",verdict=\"{verdict_label}\"}} {count}"
                );
            }
        }
        let expiry = self.certificate_expiry.load(Ordering::Relaxed);
        let _ = write!(
            text,
            "# HELP rukpak_webhook_certificate_expiry_timestamp_seconds When the serving certificate expires; 0 without one.\n\
             # TYPE rukpak_webhook_certificate_expiry_timestamp_seconds gauge\n\
             rukpak_webhook_certificate_expiry_timestamp_seconds {expiry}\n"
        );
        text
    }
}

#[cfg(test)]
mod tests {
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
        metrics.count(Operation::Update, Verdict::Denied);
        metrics.set_certificate_expiry(7);
        let text = metrics.render();
        assert!(text.contains("rukpak_webhook_reviews_total{operation=\"update\",verdict=\"denied\"} 1\n"));
        assert!(text.contains("rukpak_webhook_reviews_total{operation=\"create\",verdict=\"denied\"} 0\n"));
        assert!(text.ends_with("_seconds 7\n"));
    }
}
