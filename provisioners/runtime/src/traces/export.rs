//! Sends spans to an OpenTelemetry collector: OTLP over HTTP, in protobuf.
//!
//! Flags come first, then the environment, as OpenTelemetry specifies it: `OTEL_EXPORTER_OTLP_*`, `OTEL_SERVICE_NAME`,
//! `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`, `OTEL_SDK_DISABLED`.

use std::env;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::Uri;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter as Export};
use reqwest::Certificate;
use tokio::runtime::Handle;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::{Layer, Registry};

use crate::lock::lock;

/// Where the traces of a collector are.
const PATH: &str = "/v1/traces";
/// Longest wait for a collector's answer, as OpenTelemetry has it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait at the end for what was not sent yet.
const FLUSHED_WITHIN: Duration = Duration::from_secs(2);
/// A collector that cannot be reached is told of so often at most.
const TOLD_AGAIN_AFTER: Duration = Duration::from_mins(10);

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file with certificates cannot be read.
    #[error("cannot read {0} (OTEL_EXPORTER_OTLP_CERTIFICATE)")]
    Certificate(String, #[source] std::io::Error),
    /// There is no HTTP client to be had.
    #[error("cannot set up the HTTP client")]
    Client(#[source] reqwest::Error),
    /// The environment says something that is not understood.
    #[error(transparent)]
    Exporter(#[from] ExporterBuildError),
}

/// The export of spans. It lasts until [`Self::flush`].
pub(crate) struct Exporting {
    provider: SdkTracerProvider,
}

/// Starts the export to the collector that `flag` names, else to that of the environment; `None` if there is none. Requests are
/// made on `runtime`, in the name of `program`.
pub(crate) fn start(program: &'static str, flag: Option<&Uri>, runtime: &Handle) -> Result<Option<Exporting>, Error> {
    let is_named = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"].into_iter().any(is_set);
    let is_off = env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    if flag.is_none() && (!is_named || is_off) {
        return Ok(None);
    }
    let mut exporter = SpanExporter::builder().with_http().with_http_client(client()?);
    if let Some(base) = flag {
        exporter = exporter.with_endpoint(format!("{}{PATH}", base.to_string().trim_end_matches('/')));
    }
    let exporter = Exporter { inner: Arc::new(exporter.build()?), runtime: runtime.clone(), told: Mutex::default() };
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource(program));
    Ok(Some(Exporting { provider: provider.build() }))
}

impl Exporting {
    /// What takes up spans of this repository's programs, and the log lines within them.
    pub(crate) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        let ours = filter_fn(|metadata| {
            metadata.target().starts_with("rukpak") && (metadata.is_span() || *metadata.level() <= Level::INFO)
        });
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("rukpak"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false);
        layer.with_filter(ours.with_max_level_hint(LevelFilter::DEBUG)).boxed()
    }

    /// Sends what was not sent yet, in so far as that takes no longer than two seconds.
    pub(crate) fn flush(self) {
        // What cannot be sent was told of.
        let _ = self.provider.shutdown_with_timeout(FLUSHED_WITHIN);
    }
}

/// OpenTelemetry takes an empty variable for one that is not set.
fn is_set(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| !value.is_empty())
}

fn client() -> Result<reqwest::Client, Error> {
    let mut client = reqwest::Client::builder().tls_backend_rustls().timeout(ANSWERED_WITHIN);
    if let Some(file) = env::var("OTEL_EXPORTER_OTLP_CERTIFICATE").ok().filter(|file| !file.is_empty()) {
        let pem = std::fs::read(&file).map_err(|error| Error::Certificate(file, error))?;
        client = client.tls_certs_only(Certificate::from_pem_bundle(&pem).map_err(Error::Client)?);
    }
    client.build().map_err(Error::Client)
}

/// What the environment says of this process, else the name of the program; and its version.
fn resource(program: &'static str) -> Resource {
    let said = Resource::builder().build();
    let is_named =
        said.get(&Key::new("service.name")).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let mut resource = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if !is_named {
        resource = resource.with_service_name(program);
    }
    resource.build()
}

/// Exports on the threads of the runtime, and tells of a collector that cannot be reached, now and then.
#[derive(Debug)]
struct Exporter {
    inner: Arc<SpanExporter>,
    runtime: Handle,
    told: Mutex<Option<Told>>,
}

/// What was said last of the collector.
#[derive(Clone, Copy, Debug)]
struct Told {
    at: Instant,
    works: bool,
}

impl Export for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let inner = Arc::clone(&self.inner);
        // This is called by a thread that is none of the runtime's, without which the client does nothing.
        let sent = self.runtime.spawn(async move { inner.export(batch).await }).await;
        let sent = sent.unwrap_or_else(|error| Err(OTelSdkError::InternalFailure(error.to_string())));
        self.tell(&sent);
        sent
    }

    fn set_resource(&mut self, resource: &Resource) {
        // Nothing is exported before this is called.
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.set_resource(resource);
        }
    }
}

impl Exporter {
    fn tell(&self, sent: &OTelSdkResult) {
        let mut told = lock(&self.told);
        let (works, now) = (sent.is_ok(), Instant::now());
        if !is_news(*told, works, now) {
            return;
        }
        // That it works again does not shorten the time until it is said again that it does not.
        let at = if works { told.map_or(now, |told| told.at) } else { now };
        *told = Some(Told { at, works });
        match sent {
            Ok(()) => tracing::info!("traces are exported again"),
            Err(error) => tracing::warn!(%error, "cannot export traces; spans are lost"),
        }
    }
}

/// Whether it is worth a log line that the collector works, or does not.
fn is_news(told: Option<Told>, works: bool, now: Instant) -> bool {
    match told {
        None => !works,
        Some(Told { works: worked, .. }) if works => !worked,
        Some(Told { at, .. }) => now.duration_since(at) >= TOLD_AGAIN_AFTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_is_down_is_told_of_every_ten_minutes() {
        let begin = Instant::now();
        let told = |works| Some(Told { at: begin, works });
        assert!(!is_news(None, true, begin));
        assert!(is_news(None, false, begin));
        assert!(!is_news(told(false), false, begin + Duration::from_secs(599)));
        assert!(is_news(told(false), false, begin + TOLD_AGAIN_AFTER));
        // One that comes and goes is told of no more often.
        assert!(is_news(told(false), true, begin));
        assert!(!is_news(told(true), true, begin));
        assert!(!is_news(told(true), false, begin + Duration::from_secs(599)));
    }
}
