//! Answers that are spoilt.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;

use super::rules::Fault;

pub(super) fn with_headers(status: StatusCode, headers: Vec<(&'static str, String)>, body: Vec<u8>) -> Response {
    let mut response = (status, body).into_response();
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// The upstream's answer, spoilt by `fault`.
pub(super) fn spoil(fault: Option<Fault>, status: StatusCode, mut headers: HeaderMap, body: Bytes) -> Response {
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONNECTION);
    let whole = body.len();
    let body = match fault {
        Some(Fault::HangUpAfter(bytes)) => {
            let part = body.slice(..bytes.min(whole));
            let hang_up = async {
                tokio::task::yield_now().await; // the part goes out while the rest is pending
                Err(std::io::Error::other("hang-up on request"))
            };
            Body::from_stream(futures::StreamExt::chain(stream::iter([Ok(part)]), stream::once(hang_up)))
        }
        Some(Fault::StallAfter(bytes)) => {
            let part = Ok::<_, Infallible>(body.slice(..bytes.min(whole)));
            Body::from_stream(futures::StreamExt::chain(stream::iter([part]), stream::pending()))
        }
        Some(Fault::Slow(bytes, pause)) => slow(body, bytes.max(1), pause),
        Some(Fault::FlipBit) => {
            let mut bytes = body.to_vec();
            if let Some(byte) = bytes.get_mut(whole / 2) {
                *byte ^= 1;
            }
            Body::from(bytes)
        }
        Some(Fault::Replace(bytes)) => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
            Body::from(bytes)
        }
        _ => Body::from(body),
    };
    (status, headers, body).into_response()
}

pub(super) fn endless(begin: &'static str, again: &str) -> Body {
    let chunk = Bytes::from(again.repeat(64 * 1024 / again.len().max(1)));
    let rest = stream::repeat_with(move || Ok::<_, Infallible>(chunk.clone()));
    Body::from_stream(futures::StreamExt::chain(stream::iter([Ok(Bytes::from_static(begin.as_bytes()))]), rest))
}

fn slow(body: Bytes, step: usize, pause: Duration) -> Body {
    Body::from_stream(stream::unfold(body, move |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        tokio::time::sleep(pause).await; // the very thing that was asked for
        let chunk = rest.split_to(step.min(rest.len()));
        Some((Ok::<_, Infallible>(chunk), rest))
    }))
}
