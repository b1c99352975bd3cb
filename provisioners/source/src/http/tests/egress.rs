//! Addresses that are refused: by name, as they are, behind redirects.

use super::*;

const REFUSED: &str = "has an address that sources may not be fetched from (--source-allow-cidr opens it)";

fn guarded(egress: Egress) -> FetcherOptions {
    FetcherOptions { egress, ..options() }
}

fn at(host: &str, server: &Server) -> Request {
    let port = server.host().rsplit_once(':').unwrap().1.to_owned();
    Request::new(&format!("http://{host}:{port}/b.tgz")).unwrap()
}

#[tokio::test]
async fn neither_a_name_nor_an_address_leads_to_loopback() {
    let server = serve(Answer::new(200, bundle())).await;
    for host in ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        let request = at(host, &server);
        let error = refusal(guarded(Egress::default()), &request).await;
        let text = chain(&error);
        assert!(text.starts_with("GET http://") && text.ends_with(REFUSED), "{text}");
        assert_eq!(error.class(), Class::Terminal);
    }
    assert_eq!(server.seen().len(), 0);
    let opened = guarded(Egress::default().allowing(["127.0.0.1/32".parse().unwrap()]));
    let fetcher = Fetcher::new(opened).unwrap();
    for host in ["localhost", "127.0.0.1"] {
        assert!(fetcher.download(&at(host, &server)).await.is_ok(), "{host}");
    }
}

#[tokio::test]
async fn a_redirect_leads_nowhere_that_the_request_may_not() {
    let target = serve(Answer::new(200, bundle())).await;
    let port = target.host().rsplit_once(':').unwrap().1.to_owned();
    let opened = Egress::default().allowing(["127.0.0.1/32".parse().unwrap()]);
    // An address is shown as URLs write it.
    for (host, shown) in
        [("127.0.0.2", "127.0.0.2"), ("[::ffff:127.0.0.2]", "[::ffff:7f00:2]"), ("169.254.169.254", "169.254.169.254")]
    {
        let server = serve(Answer::redirect(format!("http://{host}:{port}/"))).await;
        let text = chain(&refusal(guarded(opened.clone()), &request(&server)).await);
        assert!(text.ends_with(REFUSED) && text.contains(shown), "{text}");
    }
    assert_eq!(target.seen().len(), 0);
}

#[tokio::test]
async fn a_server_that_need_not_prove_who_it_is_exempts_no_other() {
    let (tls, _) = certificate("localhost");
    let stranger = Server::start_with(Some(tls.clone()), |_| Answer::new(200, bundle())).await;
    let port = stranger.host().rsplit_once(':').unwrap().1.to_owned();
    let to = |host: &str| format!("https://{host}:{port}/b.tgz");
    let request = |server: &Server| {
        let port = server.host().rsplit_once(':').unwrap().1.to_owned();
        Request::new(&format!("https://localhost:{port}/b.tgz")).unwrap().with_insecure_skip_verify(true)
    };
    // The same host on another port, then another host.
    for (host, expected) in [("localhost", true), ("127.0.0.1", false)] {
        let answer = Answer::redirect(to(host));
        let server = Server::start_with(Some(tls.clone()), move |_| answer.clone()).await;
        let result = fetcher().download(&request(&server)).await;
        assert_eq!(result.is_ok(), expected, "{host}: {:?}", result.err().map(|error| chain(&error)));
    }
    assert_eq!(stranger.seen().len(), 1);
}
