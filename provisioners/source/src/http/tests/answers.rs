//! Servers that refuse, redirect, break, lie or say nothing.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn every_status_has_upstreams_text_and_a_class() {
    let cases = [
        (404, "404 Not Found", Class::NotFound),
        (410, "410 Gone", Class::NotFound),
        (401, "401 Unauthorized", Class::Unauthorized),
        (403, "403 Forbidden", Class::Unauthorized),
        (429, "429 Too Many Requests", Class::Unavailable),
        (503, "503 Service Unavailable", Class::Unavailable),
        (204, "204 No Content", Class::Terminal),
        (206, "206 Partial Content", Class::Terminal),
        (400, "400 Bad Request", Class::Terminal),
    ];
    for (status, shown, class) in cases {
        // A body of another status is never read, however long.
        let body = if status == 204 { Vec::new() } else { vec![b'x'; 4_000_000] };
        let server = serve(Answer::new(status, body)).await;
        let error = refusal(options(), &request(&server)).await;
        assert_eq!(error.class(), class, "{error}");
        let expected = format!("GET http://{}/b.tgz: unexpected status \"{shown}\"", server.host());
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[tokio::test]
async fn refused_logins_come_with_what_to_do() {
    let server = serve(Answer::basic()).await;
    let request = request(&server);
    let error = refusal(options(), &request).await.to_string();
    assert!(error.ends_with(": give a Secret with username and password"), "{error}");
    let request = request.with_login(Login::new("me", "hush"));
    let error = refusal(options(), &request).await.to_string();
    assert!(error.contains("check the username and the password in the Secret"), "{error}");
    assert_eq!(server.seen().last().unwrap().authorization, Some(basic("me", "hush")));
    let server = serve(Answer::bearer("x")).await;
    let error = refusal(options(), &super::request(&server)).await.to_string();
    assert!(error.contains("asks for Bearer authentication"), "{error}");
}

#[tokio::test]
async fn redirects_are_followed_and_end() {
    let server = Server::start(|seen| match seen.target.strip_prefix("/") {
        Some("b.tgz") => Answer::redirect("5".into()),
        Some("1") => Answer::new(200, bundle()),
        Some(left) => Answer::redirect(format!("/{}?s3cret", left[..1].parse::<u8>().unwrap() - 1)),
        None => Answer::new(404, ""),
    })
    .await;
    // Five: b.tgz -> 5 -> 4 -> 3 -> 2 -> 1.
    let five = Server::start(|seen| match &seen.target[1..] {
        "b.tgz" => Answer::redirect("5".into()),
        "1" => Answer::new(200, bundle()),
        left => Answer::redirect(format!("/{}", left.parse::<u8>().unwrap() - 1)),
    })
    .await;
    assert!(fetcher().download(&request(&five)).await.is_ok());
    assert_eq!(five.seen().len(), 6);
    let error = refusal(options(), &request(&server)).await;
    assert!(error.to_string().contains("more than 5 redirects"), "{error}");
    assert!(!format!("{}{error:?}", chain(&error)).contains("s3cret"), "{error:?}");
    assert_eq!(server.seen().len(), 6);
    for (to, expected) in [("ftp://127.0.0.1/x", "which is not https"), ("mailto:x", "to nowhere")] {
        let server = serve(Answer::redirect(to.into())).await;
        let error = refusal(options(), &request(&server)).await;
        assert!(matches!(error, Error::Redirect { .. }) && error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn certificates_are_checked_unless_told_not_to_and_tls_is_not_given_up() {
    let (tls, authority) = certificate("127.0.0.1");
    let plain = serve(Answer::new(200, bundle())).await;
    let to = format!("http://{}/", plain.host());
    let server = Server::start_with(Some(tls), move |seen| {
        if seen.target == "/leave" { Answer::redirect(to.clone()) } else { Answer::new(200, bundle()) }
    })
    .await;
    let request = |path: &str| Request::new(&format!("https://{}{path}", server.host())).unwrap();
    let stranger = refusal(options(), &request("/")).await;
    assert_eq!(stranger.class(), Class::Unavailable);
    assert!(stranger.to_string().contains("certificate signed by unknown authority"), "{stranger}");
    let knowing = Fetcher::new(FetcherOptions { extra_ca_pem: authority, ..options() }).unwrap();
    assert!(knowing.download(&request("/")).await.is_ok());
    assert!(fetcher().download(&request("/").with_insecure_skip_verify(true)).await.is_ok());
    let error = knowing.download(&request("/leave")).await.unwrap_err();
    assert!(matches!(error, Error::Redirect { .. }), "{error}");
    assert!(plain.seen().is_empty());
    let error = Fetcher::new(FetcherOptions { extra_ca_pem: b"nonsense".to_vec(), ..options() }).unwrap_err();
    assert!(matches!(error, Error::Setup(crate::SetupError::NoCertificates)), "{error}");
}

#[tokio::test]
async fn what_breaks_off_is_told_from_what_is_damaged() {
    let whole = bundle();
    let server = serve(Answer { cut: Some(50), ..Answer::new(200, whole.clone()) }).await;
    let error = refusal(options(), &request(&server)).await;
    assert!(matches!(error, Error::Body { received_bytes: 50, .. }), "{error}");
    assert_eq!(error.class(), Class::Unavailable);
    // Cut before it was served: the length is right, the archive is not.
    let cases = [
        (whole[..50].to_vec(), "error creating FS: cannot read the tar archive"),
        (b"<html>not here</html>".to_vec(), "gzip: invalid header: what GET http://"),
        (Vec::new(), "gzip: invalid header"),
        (b"PK\x03\x04....".to_vec(), "gzip: invalid header: zip compression is not supported"),
        (gzip(&escaping()), "error creating FS: entry \"../a.txt\""),
    ];
    for (body, expected) in cases {
        let server = serve(Answer::new(200, body)).await;
        let error = refusal(options(), &request(&server)).await;
        assert!(chain(&error).starts_with(expected), "{}", chain(&error));
        assert_eq!(error.class(), Class::Terminal);
    }
}

#[tokio::test]
async fn silence_and_slowness_end() {
    let server = serve(Answer { hang: true, cut: Some(10), ..Answer::new(200, bundle()) }).await;
    // Long enough for what does come on a busy machine.
    let idle = FetcherOptions { idle_timeout: Duration::from_secs(1), ..options() };
    let error = refusal(idle, &request(&server)).await;
    assert!(matches!(error, Error::Body { received_bytes: 10, .. }), "{error}");
    let limits = Limits { pull_time: Duration::from_millis(300), ..Limits::default() };
    let error = refusal(FetcherOptions { limits, ..options() }, &request(&server)).await;
    assert!(error.to_string().contains("--limit=pull-seconds"), "{error}");
    assert_eq!(error.class(), Class::Unavailable);
    let gone = serve(Answer::default()).await.host();
    let error = refusal(options(), &Request::new(&format!("http://{gone}/")).unwrap()).await;
    assert!(error.to_string().ends_with("http request for bundle content failed"), "{error}");
    assert_eq!(error.class(), Class::Unavailable);
}

/// Sends `body` without saying how long it is; the end of the connection is its end.
async fn endless(body: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            drop(stream.read(&mut head).await);
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await);
            drop(stream.write_all(&body).await);
        }
    });
    host
}

#[tokio::test]
async fn too_much_is_refused_whether_announced_or_not() {
    let size = bundle().len() as u64;
    let of = |download_bytes| FetcherOptions { limits: Limits { download_bytes, ..Limits::default() }, ..options() };
    let server = serve(Answer::new(200, bundle())).await;
    let unannounced = Request::new(&format!("http://{}/", endless(bundle()).await)).unwrap();
    for request in [request(&server), unannounced] {
        assert!(Fetcher::new(of(size)).unwrap().download(&request).await.is_ok());
        let error = Fetcher::new(of(size - 1)).unwrap().download(&request).await.unwrap_err();
        assert_eq!(error.class(), Class::Terminal);
        assert!(error.to_string().contains("--limit=download-bytes"), "{error}");
    }
    let server = serve(Answer::new(200, gzip(&tar(&[("a", &[0; 5000])])))).await;
    let limits = Limits { tree_bytes: 4999, ..Limits::default() };
    let error = refusal(FetcherOptions { limits, ..options() }, &request(&server)).await;
    assert!(chain(&error).contains("--limit=tree-bytes"), "{}", chain(&error));
    let nowhere = FetcherOptions { stage_dir: "/nonexistent/x".into(), ..options() };
    let error = refusal(nowhere, &request(&server)).await;
    assert!(matches!(error, Error::Spool { .. }) && error.class() == Class::Unavailable, "{error}");
}
