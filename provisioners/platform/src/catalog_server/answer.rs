//! What a call is answered. Disk: files are opened, not read. The texts are catalogd's.

use std::io;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use rukpak_catalog::served::Filter;
use rukpak_crds::validate::is_name;
use rukpak_runtime::reply::{self, Content};
use url::form_urlencoded;

use super::stream;
use crate::cluster_catalog::store::{CatalogStore, Stored};

const JSON_LINES: &str = "application/jsonl";
/// Less is not worth compressing.
const COMPRESSED_FROM: u64 = 1400;

/// What a path asks for.
enum Route {
    All,
    Metas,
}

pub(super) fn answer(call: &Parts, content: &CatalogStore) -> io::Result<Response> {
    let Some((name, place)) = read(call.uri.path()) else {
        return Ok(text(StatusCode::NOT_FOUND, "404 page not found\n"));
    };
    if !matches!(call.method, Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    if !is_name(name) {
        return Ok((StatusCode::BAD_REQUEST, format!("invalid catalog name: {NOT_A_SUBDOMAIN}\n")).into_response());
    }
    let filter = match place {
        Route::All => None,
        Route::Metas => match filter(call.uri.query().unwrap_or_default()) {
            Some(filter) => Some(filter),
            None => return Ok(text(StatusCode::BAD_REQUEST, "400 Bad Request\n")),
        },
    };
    let Some(stored) = content.get(name) else { return Ok(text(StatusCode::NOT_FOUND, "404 Not Found\n")) };
    let tag = &stored.digest;
    if [tag, &compressed_tag(tag)].into_iter().any(|tag| reply::is_unchanged(&call.headers, tag, stored.modified)) {
        return Ok(reply::known(tag));
    }
    match filter {
        None => all(call, &stored),
        Some(filter) => metas(call, &stored, &filter),
    }
}

fn all(call: &Parts, stored: &Stored) -> io::Result<Response> {
    let (served, modified) = (stored.served()?, Some(stored.modified));
    let file = served.all()?;
    // A part is a part of the plain file.
    let compress = !call.headers.contains_key(header::RANGE)
        && takes_gzip(&call.headers)
        && file.metadata()?.len() >= COMPRESSED_FROM;
    let (file, tag) =
        if compress { (served.compressed()?, compressed_tag(&stored.digest)) } else { (file, stored.digest.clone()) };
    let content = Content { file, tag, media_type: JSON_LINES, modified };
    let mut response = reply::file(content, &call.method, &call.headers)?;
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if compress {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response.headers_mut().remove(header::ACCEPT_RANGES);
    }
    Ok(response)
}

fn metas(call: &Parts, stored: &Stored, filter: &Filter) -> io::Result<Response> {
    let served = stored.served()?;
    let found = served.find(filter);
    let length: u64 = found.iter().map(|range| range.end - range.start).sum();
    let compress = takes_gzip(&call.headers) && length >= COMPRESSED_FROM;
    let body = if call.method == Method::HEAD { Body::empty() } else { stream::body(served.all()?, found, compress) };
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON_LINES));
    headers.insert(header::LAST_MODIFIED, reply::date(stored.modified)?);
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let tag = if compress { compressed_tag(&stored.digest) } else { stored.digest.clone() };
    headers.insert(header::ETAG, HeaderValue::try_from(format!("\"{tag}\"")).map_err(io::Error::other)?);
    if compress {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    } else {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    Ok(response)
}

fn text(status: StatusCode, text: &'static str) -> Response {
    (status, text).into_response()
}

/// The compressed bytes are others, so their tag is another.
fn compressed_tag(digest: &str) -> String {
    format!("{digest}-gzip")
}

fn read(path: &str) -> Option<(&str, Route)> {
    let (name, rest) = path.strip_prefix("/catalogs/")?.split_once('/')?;
    match rest {
        "api/v1/all" => Some((name, Route::All)),
        "api/v1/metas" => Some((name, Route::Metas)),
        _ => None,
    }
}

/// `None` if the query asks for what nobody knows. What is empty is not given.
fn filter(query: &str) -> Option<Filter> {
    let mut filter = Filter::default();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let field = match &*key {
            "schema" => &mut filter.schema,
            "package" => &mut filter.package,
            "name" => &mut filter.name,
            _ => return None,
        };
        // Of several the first counts.
        if field.is_none() && !value.is_empty() {
            *field = Some(value.into_owned());
        }
    }
    Some(filter)
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let is_none = weight.trim().strip_prefix("q=").is_some_and(|q| q.trim().parse::<f32>().is_ok_and(|q| q <= 0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !is_none
    })
}

const NOT_A_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                               start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                               '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
