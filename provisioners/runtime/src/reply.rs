//! Answers that carry a file: whole, in part, or not at all where the client has it already (RFC 9110, sections 13 and 14).

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

/// What is in memory of a file at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// A file to send.
pub struct Content {
    /// The file; it is sent from its first byte.
    pub file: File,
    /// Changes with its bytes. Without quotes.
    pub tag: String,
    /// Its media type.
    pub media_type: &'static str,
    /// When its bytes were made, where clients are to know.
    pub modified: Option<SystemTime>,
}

/// What of a file is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    /// First byte, and how many.
    Bytes(u64, u64),
    Nothing,
}

/// Whether the client has the content already that was made then and has this tag: by the tag, or by the time where the client names
/// no tag.
pub fn is_unchanged(headers: &HeaderMap, tag: &str, modified: SystemTime) -> bool {
    if headers.contains_key(header::IF_NONE_MATCH) {
        return is_known(headers, tag);
    }
    let since = headers.get(header::IF_MODIFIED_SINCE).and_then(|value| value.to_str().ok());
    let since = since.and_then(|since| httpdate::parse_http_date(since).ok());
    // Dates of HTTP have whole seconds.
    since.is_some_and(|since| modified < since + Duration::from_secs(1))
}

/// Whether the client has the content with this tag already.
pub fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let Some(value) = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()) else { return false };
    let is_it = |one: &str| one == "*" || one.trim_start_matches("W/") == quoted(tag);
    value.split(',').map(str::trim).any(is_it)
}

/// The answer to a client that has it.
pub fn known(tag: &str) -> Response {
    (StatusCode::NOT_MODIFIED, [(header::ETAG, quoted(tag))]).into_response()
}

/// The answer with the file, or a part of it.
pub fn file(content: Content, method: &Method, headers: &HeaderMap) -> io::Result<Response> {
    let Content { mut file, tag, media_type, modified } = content;
    let size = file.metadata()?.len();
    let (status, start, length) = match part(headers, &tag, size) {
        Part::Whole => (StatusCode::OK, 0, size),
        Part::Bytes(start, length) => (StatusCode::PARTIAL_CONTENT, start, length),
        Part::Nothing => {
            let range = format!("bytes */{size}");
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, [(header::CONTENT_RANGE, range)]).into_response());
        }
    };
    let body = if method == Method::HEAD {
        Body::empty()
    } else {
        file.seek(SeekFrom::Start(start))?;
        let part = tokio::fs::File::from_std(file).take(length);
        Body::from_stream(ReaderStream::with_capacity(part, CHUNK_BYTES))
    };
    let mut response = (status, [(header::ETAG, quoted(&tag))], body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_LENGTH, length.into());
    if let Some(modified) = modified {
        headers.insert(header::LAST_MODIFIED, date(modified)?);
    }
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {start}-{}/{size}", start + length - 1);
        headers.insert(header::CONTENT_RANGE, HeaderValue::try_from(range).map_err(io::Error::other)?);
    }
    Ok(response)
}

/// A time as HTTP writes it.
///
/// # Errors
/// None that could happen: the text is ASCII.
pub fn date(time: SystemTime) -> io::Result<HeaderValue> {
    HeaderValue::try_from(httpdate::fmt_http_date(time)).map_err(io::Error::other)
}

/// Only one range is answered in part; more, and what cannot be read, as if none had been asked for.
fn part(headers: &HeaderMap, tag: &str, size: u64) -> Part {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if text(header::IF_RANGE).is_some_and(|wanted| wanted != quoted(tag)) {
        return Part::Whole;
    }
    let Some((first, last)) = text(header::RANGE).and_then(|range| range.strip_prefix("bytes=")?.split_once('-'))
    else {
        return Part::Whole;
    };
    match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => span(first, last.min(size.saturating_sub(1)), size),
        (Ok(first), Err(_)) if last.trim().is_empty() => span(first, size.saturating_sub(1), size),
        (Err(_), Ok(count)) if first.trim().is_empty() => match count {
            0 => Part::Nothing,
            _ => span(size.saturating_sub(count), size.saturating_sub(1), size),
        },
        _ => Part::Whole,
    }
}

fn span(first: u64, last: u64, size: u64) -> Part {
    if first < size { Part::Bytes(first, last - first + 1) } else { Part::Nothing }
}

fn quoted(tag: &str) -> String {
    format!("\"{tag}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn one_range_is_a_part() {
        let table = [
            ("bytes=0-0", Part::Bytes(0, 1)),
            ("bytes=2-", Part::Bytes(2, 8)),
            ("bytes=2-99", Part::Bytes(2, 8)),
            ("bytes=-3", Part::Bytes(7, 3)),
            ("bytes=-99", Part::Bytes(0, 10)),
            ("bytes=10-", Part::Nothing),
            ("bytes=-0", Part::Nothing),
            ("bytes=3-2", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("lines=0-1", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("bytes=", Part::Whole),
        ];
        for (range, expected) in table {
            assert_eq!(part(&headers(&[(header::RANGE, range)]), "t", 10), expected, "{range}");
        }
        assert_eq!(part(&headers(&[(header::RANGE, "bytes=0-")]), "t", 0), Part::Nothing);
        let conditional = |tag| headers(&[(header::RANGE, "bytes=0-1"), (header::IF_RANGE, tag)]);
        assert_eq!(part(&conditional("\"t\""), "t", 10), Part::Bytes(0, 2));
        assert_eq!(part(&conditional("\"old\""), "t", 10), Part::Whole);
        assert_eq!(part(&HeaderMap::new(), "t", 10), Part::Whole);
    }

    #[test]
    fn a_time_counts_where_no_tag_is_named() {
        let made = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
        let date = |seconds| httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        for (since, expected) in [(date(0), false), (date(1), true), (date(2), true), ("x".to_owned(), false)] {
            let headers = headers(&[(header::IF_MODIFIED_SINCE, &since)]);
            assert_eq!(is_unchanged(&headers, "t", made), expected, "{since}");
        }
        let both = headers(&[(header::IF_MODIFIED_SINCE, &date(2)), (header::IF_NONE_MATCH, "\"other\"")]);
        assert!(!is_unchanged(&both, "t", made));
    }

    #[test]
    fn what_the_client_has_is_not_sent() {
        for (value, expected) in
            [("\"t\"", true), ("W/\"t\"", true), ("\"a\", \"t\"", true), ("*", true), ("\"a\"", false), ("t", false)]
        {
            assert_eq!(is_known(&headers(&[(header::IF_NONE_MATCH, value)]), "t"), expected, "{value}");
        }
        assert!(!is_known(&HeaderMap::new(), "t"));
    }
}
