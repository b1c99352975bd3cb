//! Registries that refuse, break, lie or say nothing.

use super::server::certificate;
use super::*;

async fn refusal(options: PullerOptions, host: &str) -> Error {
    let puller = Puller::new(options).unwrap();
    pull(&puller, &format!("{host}/team/app:v1"), &Credentials::anonymous()).await.unwrap_err()
}

#[tokio::test]
async fn every_status_has_its_class() {
    let cases = [
        (404, Class::NotFound),
        (403, Class::Unauthorized),
        (429, Class::Unavailable),
        (500, Class::Unavailable),
        (503, Class::Unavailable),
        (400, Class::Terminal),
        (304, Class::Terminal),
    ];
    for (status, class) in cases {
        let body = r#"{"errors":[{"code":"ODD","message":"because\u0007"}]}"#;
        let server = Server::start(move |_| Answer::new(status, if status == 304 { "" } else { body })).await;
        let error = refusal(options(&[&server]), &server.host()).await;
        assert_eq!(error.class(), class, "{error}");
        let text = error.to_string();
        assert!(text.contains("team/app:v1") && text.contains(&status.to_string()), "{text}");
        assert!(status == 304 || text.contains("odd: because"), "{text}");
    }
}

#[tokio::test]
async fn a_missing_layer_and_a_broken_one_are_named() {
    let image = Image::small();
    let digest = image.blobs[0].0.clone();
    let cases = [
        (Answer::new(404, ""), Class::NotFound, "answered 404"),
        (
            Answer { cut: Some(50), ..image.answer(&Seen { target: format!("/blobs/{digest}"), authorization: None }) },
            Class::Unavailable,
            "broke off",
        ),
        (Answer::redirect("http://127.0.0.1:1/x".into()), Class::Unavailable, "no answer from 127.0.0.1:1"),
        (Answer::redirect("ftp://127.0.0.1:1/x".into()), Class::Terminal, "not https"),
        (Answer::new(307, ""), Class::Terminal, "redirects to nowhere"),
    ];
    for (answer, class, expected) in cases {
        let image = image.clone();
        let server = Server::start(
            move |seen| {
                if seen.target.contains("/blobs/") { answer.clone() } else { image.answer(seen) }
            },
        )
        .await;
        let error = refusal(options(&[&server]), &server.host()).await;
        assert_eq!(error.class(), class, "{error}");
        assert!(error.to_string().contains(expected) && error.to_string().contains(&digest), "{error}");
    }
}

#[tokio::test]
async fn redirects_end() {
    let server =
        Server::start(|seen| Answer::redirect(format!("{}x?token=s3cret", seen.target.split('?').next().unwrap())))
            .await;
    let error = refusal(options(&[&server]), &server.host()).await;
    assert!(error.to_string().contains("more than 5 redirects"), "{error}");
    assert!(!everything(&error).contains("s3cret"));
    assert_eq!(server.seen().len(), 6);
}

#[tokio::test]
async fn silence_and_slowness_end() {
    use std::time::Duration;
    let image = Image::small();
    let server = Server::start(move |seen| {
        if seen.target.contains("/blobs/") {
            Answer { hang: true, cut: Some(10), ..image.answer(seen) }
        } else {
            image.answer(seen)
        }
    })
    .await;
    // Long enough for what does come on a busy machine.
    let idle = PullerOptions { idle_timeout: Duration::from_secs(1), ..options(&[&server]) };
    let error = refusal(idle, &server.host()).await;
    assert_eq!(error.class(), Class::Unavailable);
    assert!(everything(&error).contains("broke off after 10 bytes"), "{}", everything(&error));
    let limits = Limits { pull_time: Duration::from_millis(300), ..Limits::default() };
    let error = refusal(PullerOptions { limits, ..options(&[&server]) }, &server.host()).await;
    assert_eq!(error.class(), Class::Unavailable);
    assert!(error.to_string().contains("--limit=pull-seconds"), "{error}");
}

#[tokio::test]
async fn nobody_there_and_hanging_up_are_told() {
    let gone = Server::start(|_| Answer::default()).await.host();
    let nobody = PullerOptions { plain_http: vec![gone.clone()], ..options(&[]) };
    assert_eq!(refusal(nobody, &gone).await.class(), Class::Unavailable);
    let rude = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = rude.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move { while rude.accept().await.is_ok() {} });
    let error = refusal(PullerOptions { plain_http: vec![host.clone()], ..options(&[]) }, &host).await;
    assert!(matches!(error, Error::Request { .. }), "{error}");
    task.abort();
}

#[tokio::test]
async fn a_registry_without_tls_is_told_with_the_flag_that_speaks_to_it() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let plain = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = plain.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = plain.accept().await {
            // What a registry says to a handshake.
            let _ = stream.read_u8().await;
            let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").await;
        }
    });
    let error = refusal(options(&[]), &host).await;
    assert_eq!(error.class(), Class::Unavailable);
    let words = format!(
        "no answer from {host} (it does not speak TLS: if it is meant not to, add --plain-http-registry={host} to the arguments of this \
         program, in a cluster of Deployment core, for catalogs of platform-operators-controller-manager)"
    );
    assert!(error.to_string().ends_with(&words), "{error}");
    // Where it is not the registry that was named, another flag would not help.
    let (tls, authority) = certificate("127.0.0.1");
    let to = format!("https://{host}/");
    let server = Server::start_with(Some(tls), move |_| Answer::redirect(to.clone())).await;
    let trusting = PullerOptions { extra_ca_pem: authority, ..options(&[]) };
    let error = refusal(trusting, &server.host()).await;
    assert!(error.to_string().ends_with(&format!("no answer from {host}")), "{error}");
    task.abort();
}

#[tokio::test]
async fn answers_without_end_are_cut() {
    let huge = vec![b' '; 4 * 1024 * 1024 + 1];
    let server = Server::start(move |_| Answer::new(200, huge.clone())).await;
    let error = refusal(options(&[&server]), &server.host()).await;
    assert!(matches!(error, Error::TooLarge { maximum_bytes: 4_194_304, .. }), "{error}");
    let server = Server::start(|_| Answer::new(404, vec![b'x'; 1024 * 1024])).await;
    assert_eq!(refusal(options(&[&server]), &server.host()).await.class(), Class::NotFound);
}

#[tokio::test]
async fn bad_references_are_refused_without_asking_anyone() {
    let puller = puller(&[]);
    let sha384 = format!("quay.io/a@sha384:{}", "0".repeat(96));
    for bad in ["", "UPPER/case", "a b", "quay.io/a@sha256:12", "http://quay.io/a", &sha384, &"a".repeat(300)] {
        let error = puller.resolve(bad, &Credentials::anonymous()).await.unwrap_err();
        assert_eq!(error.class(), Class::Terminal, "{error}");
    }
}

#[tokio::test]
async fn tls_needs_an_authority_we_trust_and_is_not_given_up() {
    let (tls, authority) = certificate("127.0.0.1");
    let plain = Server::start(|_| Answer::new(200, "")).await;
    let (image, to) = (Image::small(), format!("http://{}/", plain.host()));
    let server = Server::start_with(Some(tls), move |seen| {
        if seen.target.ends_with("/leave") { Answer::redirect(to.clone()) } else { image.answer(seen) }
    })
    .await;
    let none = Credentials::anonymous();
    let reference = format!("{}/app:v1", server.host());
    let stranger = refusal(options(&[]), &server.host()).await;
    assert_eq!(stranger.class(), Class::Unavailable);
    assert!(everything(&stranger).contains("UnknownIssuer"), "{}", everything(&stranger));
    let trusting = Puller::new(PullerOptions { extra_ca_pem: authority, ..options(&[]) }).unwrap();
    assert!(pull(&trusting, &reference, &none).await.is_ok());
    let error = trusting.resolve(&format!("{}/app:leave", server.host()), &none).await.unwrap_err();
    assert!(matches!(error, Error::Redirect { .. }), "{error}");
    assert!(plain.seen().is_empty());
}

#[test]
fn authorities_are_pem_or_nothing() {
    for (pem, expected) in [(&b""[..], true), (b"\n", true), (b"nonsense", false)] {
        let options = PullerOptions { extra_ca_pem: pem.to_vec(), ..options(&[]) };
        assert_eq!(Puller::new(options).is_ok(), expected, "{pem:?}");
    }
}
