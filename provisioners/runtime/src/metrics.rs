//! `/metrics`, in Prometheus' text form: what all programs count, and what each adds.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::http::header;
use axum::routing::get;

/// Of the process: reconcilers run wherever they are called.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts one reconcile that panicked.
pub(crate) fn count_panic() {
    PANICS.fetch_add(1, Ordering::Relaxed);
}

/// Adds how many reconciles panicked; for programs that reconcile.
pub fn reconcile_panics(text: &mut String) {
    let panics = PANICS.load(Ordering::Relaxed);
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "# HELP rukpak_reconcile_panics_total Reconciles that met a mistake in this program.\n\
         # TYPE rukpak_reconcile_panics_total counter\n\
         rukpak_reconcile_panics_total {panics}"
    );
}

/// `/metrics`: the version that runs, and then what `own` adds.
pub fn router(own: impl Fn(&mut String) + Clone + Send + Sync + 'static) -> Router {
    let answer = async move || {
        let mut text = build_info();
        own(&mut text);
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
    };
    Router::new().route("/metrics", get(answer))
}

fn build_info() -> String {
    format!(
        "# HELP rukpak_build_info The version that runs.\n\
         # TYPE rukpak_build_info gauge\n\
         rukpak_build_info{{version=\"{}\"}} 1\n",
        env!("CARGO_PKG_VERSION")
    )
}
