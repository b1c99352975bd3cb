//! Traces: a span for each reconcile, and for each admission review, with a child for each stage that takes long.
//!
//! Spans have the level debug: where no collector is named and nothing is logged at that level none is made. Attributes follow
//! OpenTelemetry's names (`k8s.object.*`) where it has them. docs/traces.md describes them all.

pub(crate) mod export;

use kube::api::ObjectMeta;
use tracing::{Span, field};

use crate::error::Chain;

/// The span of a reconcile of the object with this metadata. What came of it, [`outcome`] says.
pub(crate) fn reconcile(kind: &'static str, object: &ObjectMeta) -> Span {
    tracing::debug_span!(
        "reconcile",
        otel.name = %format_args!("reconcile {kind}"),
        otel.status_code = field::Empty,
        otel.status_description = field::Empty,
        k8s.object.kind = kind,
        k8s.object.name = object.name,
        k8s.object.uid = object.uid,
        k8s.namespace.name = object.namespace,
        rukpak.generation = object.generation,
        rukpak.outcome = field::Empty,
    )
}

/// Says, within the span of a reconcile, what came of it: one of docs/traces.md. `failure` says why it failed, if it did.
pub fn outcome(outcome: &'static str, failure: Option<&str>) {
    end(&Span::current(), outcome, failure);
}

/// A reconcile could not report.
pub(crate) fn error(span: &Span, error: &dyn std::error::Error) {
    if !span.is_disabled() {
        end(span, "error", Some(&Chain(error).to_string()));
    }
}

/// A reconcile panicked with this text.
pub(crate) fn panicked(span: &Span, text: &str) {
    end(span, "panicked", Some(text));
}

fn end(span: &Span, outcome: &'static str, failure: Option<&str>) {
    span.record("rukpak.outcome", outcome);
    if let Some(failure) = failure {
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", failure);
    }
}
