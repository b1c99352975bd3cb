//! Who gets to see a login, and that nobody reads it afterwards.

use super::*;

#[tokio::test]
async fn a_login_stays_with_its_origin() {
    let other = serve(Answer::new(200, bundle())).await;
    let to = format!("http://user:pass@{}/x?signature=s3cret", other.host());
    let server = Server::start(move |seen| match seen.target.as_str() {
        "/b.tgz" => Answer::redirect("/here".into()),
        _ => Answer::redirect(to.clone()),
    })
    .await;
    let request = request(&server).with_login(Login::new("me", "hush"));
    assert!(fetcher().download(&request).await.is_ok());
    let given: Vec<_> = server.seen().into_iter().map(|seen| seen.authorization).collect();
    assert_eq!(given, [Some(basic("me", "hush")), Some(basic("me", "hush"))]);
    assert_eq!(other.seen().len(), 1);
    assert_eq!(other.seen()[0].authorization, None);
}

#[tokio::test]
async fn a_detour_does_not_bring_the_login_back() {
    let to = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let other = Server::start({
        let to = to.clone();
        move |_| Answer::redirect(to.get().unwrap().clone())
    })
    .await;
    let away = format!("http://{}/", other.host());
    let server = Server::start(move |seen| {
        if seen.target == "/b.tgz" { Answer::redirect(away.clone()) } else { Answer::new(200, bundle()) }
    })
    .await;
    to.set(format!("http://{}/chosen-by-another", server.host())).unwrap();
    let request = request(&server).with_login(Login::new("me", "hush"));
    assert!(fetcher().download(&request).await.is_ok());
    let given: Vec<_> = server.seen().into_iter().map(|seen| seen.authorization).collect();
    assert_eq!(given, [Some(basic("me", "hush")), None]);
}

#[tokio::test]
async fn another_scheme_is_another_origin() {
    let (tls, authority) = certificate("127.0.0.1");
    let secure = Server::start_with(Some(tls), |_| Answer::new(200, bundle())).await;
    let to = format!("https://{}/", secure.host());
    let plain = serve(Answer::redirect(to)).await;
    let request = request(&plain).with_login(Login::new("me", "hush"));
    let fetcher = Fetcher::new(FetcherOptions { extra_ca_pem: authority, ..options() }).unwrap();
    assert!(fetcher.download(&request).await.is_ok());
    assert_eq!(secure.seen()[0].authorization, None);
}

#[tokio::test]
async fn a_login_in_the_url_works_and_no_error_shows_a_secret() {
    let wanted = basic("m4rked-user", "m4rked-password");
    let server = Server::start(move |seen| {
        if seen.authorization.as_ref() == Some(&wanted) { Answer::new(200, bundle()) } else { Answer::basic() }
    })
    .await;
    let url = |host: &str| format!("http://m4rked-user:m4rked-password@{host}/b.tgz?sig=m4rked-query#m4rked-fragment");
    let good = Request::new(&url(&server.host())).unwrap();
    let download = fetcher().download(&good).await.unwrap();
    assert_eq!(server.seen()[0].target, "/b.tgz?sig=m4rked-query");
    assert!(!format!("{download:?}{good:?}").contains("m4rked"));
    let encoded = &basic("m4rked-user", "m4rked-password")[6..];
    let echo = format!("m4rked-user m4rked-password {encoded}");
    let answers = [
        Answer::new(401, echo.clone()),
        Answer::new(403, echo.clone()),
        Answer::new(404, echo.clone()),
        Answer::new(500, echo.clone()),
        Answer::new(200, echo.clone()),
        Answer::new(200, gzip(echo.as_bytes())),
        Answer { cut: Some(3), ..Answer::new(200, echo.clone()) },
        Answer::redirect("ftp://m4rked-user:m4rked-password@x/?m4rked-query".into()),
        Answer::redirect("/again?m4rked-query".into()),
        Answer::new(401, "").header("WWW-Authenticate", format!("Basic realm=\"{echo}\"")),
        Answer::redirect("http://m4rked-user:m4rked-password@127.0.0.1:1/?m4rked-query".into()),
    ];
    for answer in answers {
        let server = serve(answer).await;
        let request = Request::new(&url(&server.host())).unwrap();
        let error = refusal(options(), &request).await;
        let text = format!("{}\n{error:?}", chain(&error));
        assert!(!text.contains("m4rked") && !text.contains(encoded), "{text}");
        assert!(!text.is_empty());
    }
    let error = fetcher().download_pinned(&good, &Digest::sha256(b"")).await.unwrap_err();
    assert!(!format!("{}\n{error:?}", chain(&error)).contains("m4rked"));
}
