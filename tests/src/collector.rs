//! An OpenTelemetry collector: takes traces as OTLP over HTTP in protobuf, and keeps their spans.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A span, as it arrived.
#[derive(Debug, Clone)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// Its trace.
    pub trace: Vec<u8>,
    /// Its number in the trace.
    pub id: Vec<u8>,
    /// The number of the span that it is part of; empty for the first of a trace.
    pub parent: Vec<u8>,
    /// Its attributes, as text.
    pub attributes: BTreeMap<String, String>,
    /// Who sent it.
    pub resource: BTreeMap<String, String>,
    /// The names of its events.
    pub events: Vec<String>,
    /// What is wrong, where its status is an error.
    pub error: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// A collector. It ends when dropped.
pub struct Collector {
    address: SocketAddr,
    spans: watch::Sender<Vec<Span>>,
    task: JoinHandle<()>,
}

impl Collector {
    /// Listens on a loopback port, in plain HTTP, within the runtime of the test.
    ///
    /// # Errors
    /// There is no port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("bind a loopback port")?;
        let (address, spans) = (listener.local_addr()?, watch::Sender::new(Vec::new()));
        let router = Router::new().route("/v1/traces", post(take)).with_state(spans.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the collector ended");
            }
        });
        Ok(Self { address, spans, task })
    }

    /// What programs are told: the base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for a span that `is_wanted`.
    ///
    /// # Errors
    /// None came in time; says which did.
    pub async fn span(&self, within: Duration, is_wanted: impl Fn(&Span) -> bool) -> Result<Span> {
        let mut spans = self.spans.subscribe();
        let found = tokio::time::timeout(within, spans.wait_for(|spans| spans.iter().any(&is_wanted))).await;
        match found {
            Ok(spans) => spans?.iter().find(|span| is_wanted(span)).cloned().context("it was there"),
            Err(_) => bail!("no such span among {:#?}", self.spans.borrow()),
        }
    }

    /// All spans that are part of `parent`, so far.
    pub fn children(&self, parent: &Span) -> Vec<Span> {
        let is_child = |span: &&Span| span.trace == parent.trace && span.parent == parent.id;
        self.spans.borrow().iter().filter(is_child).cloned().collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(
    State(spans): State<watch::Sender<Vec<Span>>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<([(header::HeaderName, &'static str); 1], Vec<u8>), StatusCode> {
    const TYPE: &str = "application/x-protobuf";
    if headers.get(header::CONTENT_TYPE).is_none_or(|type_| type_ != TYPE) {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let request = ExportTraceServiceRequest::decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let new = request.resource_spans.into_iter().flat_map(|of_resource| {
        let resource = texts(of_resource.resource.unwrap_or_default().attributes);
        let all = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        all.map(move |span| Span {
            name: span.name,
            trace: span.trace_id,
            id: span.span_id,
            parent: span.parent_span_id,
            attributes: texts(span.attributes),
            resource: resource.clone(),
            events: span.events.into_iter().map(|event| event.name).collect(),
            error: span.status.filter(|status| status.code == SpanStatus::Error as i32).map(|status| status.message),
            took: Duration::from_nanos(span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano)),
        })
    });
    spans.send_modify(|spans| spans.extend(new));
    Ok(([(header::CONTENT_TYPE, TYPE)], ExportTraceServiceResponse::default().encode_to_vec()))
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value| match value {
        any_value::Value::StringValue(text) => text,
        any_value::Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pair = |pair: KeyValue| Some((pair.key, text(pair.value?.value?)));
    attributes.into_iter().filter_map(pair).collect()
}
