//! Bodies that are read while they come.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::client::server;

const TEXT: &str = "text/plain, application/json";

async fn body(server: &Server, known: Option<&str>) -> Incoming {
    match fetcher().open(&request(server), TEXT, known).await.unwrap() {
        Opened::Body(body) => body,
        Opened::Unchanged => panic!("it is another"),
    }
}

/// What was read, and how.
async fn read(fetcher: &Fetcher, body: Incoming) -> Result<std::io::Result<Vec<u8>>, Error> {
    fetcher
        .read(body, |reader| {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map(|_| bytes)
        })
        .await
}

#[tokio::test]
async fn a_body_is_read_with_its_validator() {
    let long = "0123456789".repeat(100_000);
    for (header, value, expected) in [
        (Some("ETag"), "\"a\"", Some("etag \"a\"")),
        (Some("ETag"), "W/\"a\"", Some("etag W/\"a\"")),
        (Some("Last-Modified"), "Sun, 01 Nov 2026 00:00:00 GMT", Some("last-modified Sun, 01 Nov 2026 00:00:00 GMT")),
        (None, "", None),
    ] {
        let answer = server_answer(200, &long).header("Content-Type", "Text/Plain; charset=utf-8");
        let answer = header.into_iter().fold(answer, |answer, header| answer.header(header, value));
        let server = serve(answer).await;
        let body = body(&server, Some("etag \"b\"")).await;
        assert_eq!(body.validator().as_deref(), expected);
        assert_eq!(read(&fetcher(), body).await.unwrap().unwrap(), long.as_bytes());
    }
}

fn server_answer(status: u16, body: &str) -> server::Answer {
    server::Answer::new(status, body)
}

#[tokio::test]
async fn what_is_known_is_unchanged_only_if_someone_asked() {
    let server = serve(server_answer(304, "")).await;
    for known in ["etag \"a\"", "last-modified Sun, 01 Nov 2026 00:00:00 GMT"] {
        let answer = fetcher().open(&request(&server), TEXT, Some(known)).await.unwrap();
        assert!(matches!(answer, Opened::Unchanged));
    }
    for known in [None, Some("sha256:0"), Some("etag a\nb")] {
        let error = fetcher().open(&request(&server), TEXT, known).await.unwrap_err();
        assert!(matches!(error, Error::Status { .. }), "{known:?}: {error}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_whole_gives_no_result() {
    let server = serve(server::Answer { cut: Some(5), ..server_answer(200, "0123456789") }).await;
    let error = read(&fetcher(), body(&server, None).await).await.unwrap_err();
    assert!(matches!(error, Error::Body { received_bytes: 5, .. }), "{error}");
    // A reader that has enough ends the transfer; what is behind is not waited for.
    let server = serve(server::Answer { hang: true, cut: Some(5), ..server_answer(200, "0123456789") }).await;
    let (fetcher, body) = (fetcher(), body(&server, None).await);
    assert!(fetcher.read(body, |reader| reader.read_exact(&mut [0; 2]).is_ok()).await.unwrap());

    let small = Limits { download_bytes: 9, ..Limits::default() };
    let strict = Fetcher::new(FetcherOptions { limits: small, ..options() }).unwrap();
    let server = serve(server_answer(200, "0123456789")).await;
    let error = strict.open(&request(&server), TEXT, None).await.unwrap_err();
    assert!(matches!(error, Error::Limit(_)), "{error}");
    let server = serve(server_answer(200, "<html>").header("Content-Type", "text/html")).await;
    let error = fetcher.open(&request(&server), TEXT, None).await.unwrap_err();
    assert!(matches!(error, Error::ContentType { .. }) && error.class() == Class::Terminal, "{error}");
}

/// Answers one request with `answer`, as it stands.
async fn raw(answer: &'static str) -> Request {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    Request::new(&url).unwrap()
}

#[tokio::test]
async fn an_answer_says_where_it_ends() {
    let endless = raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n0123456789").await;
    let error = fetcher().open(&endless, TEXT, None).await.unwrap_err();
    assert!(matches!(error, Error::NoLength { .. }), "{error}");
    let chunks =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\n01234\r\n5\r\n56789\r\n";
    for (answer, whole) in [(format!("{chunks}0\r\n\r\n"), true), (chunks.to_owned(), false)] {
        let request = raw(Box::leak(answer.into_boxed_str())).await;
        let small = Limits { download_bytes: 10, ..Limits::default() };
        let fetcher = Fetcher::new(FetcherOptions { limits: small, ..options() }).unwrap();
        let Opened::Body(body) = fetcher.open(&request, TEXT, None).await.unwrap() else { panic!("a body") };
        let bytes = read(&fetcher, body).await;
        assert_eq!(bytes.is_ok(), whole, "{bytes:?}");
        assert!(!whole || bytes.unwrap().unwrap() == b"0123456789");
    }
    let many = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n5\r\n56789\r\n1\r\nx\r\n0\r\n\r\n";
    let request = raw(many).await;
    let small = Limits { download_bytes: 10, ..Limits::default() };
    let fetcher = Fetcher::new(FetcherOptions { limits: small, ..options() }).unwrap();
    let Opened::Body(body) = fetcher.open(&request, TEXT, None).await.unwrap() else { panic!("a body") };
    assert!(matches!(read(&fetcher, body).await, Err(Error::Limit(_))));
}
