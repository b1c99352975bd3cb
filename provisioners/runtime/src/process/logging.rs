//! Log lines on stderr, and spans to a collector if there is one.

use std::io;

use axum::http::Uri;
use tokio::runtime::Handle;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

use crate::args::{LogFormat, Logging};
use crate::error::Chain;
use crate::traces::export::{self, Exporting};

/// Whatever takes log lines or spans.
type Sink = Box<dyn Layer<Registry> + Send + Sync>;

/// From now on log lines, panics included, go to stderr, and spans to the collector. A collector that was named in a way that
/// nobody understands keeps no program from running.
pub(super) fn start(
    program: &'static str,
    logging: &Logging,
    collector: Option<&Uri>,
    runtime: &Handle,
) -> Option<Exporting> {
    let traces = export::start(program, collector, runtime);
    let mut sinks = vec![lines(logging)];
    sinks.extend(traces.as_ref().ok().and_then(Option::as_ref).map(Exporting::layer));
    tracing_subscriber::registry().with(sinks).init();
    log_panics();
    traces.unwrap_or_else(|error| {
        tracing::warn!(error = %Chain(&error), "traces are not exported");
        None
    })
}

fn lines(Logging { format, filter }: &Logging) -> Sink {
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(false);
    let lines = match format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.boxed(),
    };
    lines.with_filter(EnvFilter::new(filter)).boxed()
}

/// A panic is a log line like any other, with its place.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let text = panic.payload_as_str();
        let thread = std::thread::current().name().map(str::to_owned);
        tracing::error!(place, text, thread, "panic: a bug in this program");
    }));
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;

    use super::*;
    use crate::traces;

    #[test]
    fn without_a_collector_no_span_is_made() {
        for (filter, is_disabled) in [("info", true), ("debug", false)] {
            let logging = Logging { format: LogFormat::Json, filter: filter.to_owned() };
            let subscriber = tracing_subscriber::registry().with(vec![lines(&logging)]);
            tracing::subscriber::with_default(subscriber, || {
                assert_eq!(traces::reconcile("Bundle", &ObjectMeta::default()).is_disabled(), is_disabled, "{filter}");
            });
        }
    }
}
