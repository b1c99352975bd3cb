//! Who gets to see which secret.

use super::server::basic;
use super::*;

const BEARER: &str = "Bearer tok-4711";

fn guarded(seen: &Seen, wanted: &str, challenge: Answer, image: &Image) -> Answer {
    if seen.authorization.as_deref() == Some(wanted) { image.answer(seen) } else { challenge }
}

#[tokio::test]
async fn tokens_come_from_the_realm_and_logins_go_only_there() {
    for name in ["token", "access_token"] {
        let realm = Server::start(move |_| Answer::new(200, format!(r#"{{"{name}":"tok-4711"}}"#))).await;
        let image = Image::small();
        let challenge = Answer::bearer(&format!("http://{}/token?x=1", realm.host()));
        let server = Server::start(move |seen| guarded(seen, BEARER, challenge.clone(), &image)).await;
        let puller = puller(&[&server]);
        let reference = format!("{}/team/app:v1", server.host());
        for credentials in [Credentials::anonymous(), login(&server.host())] {
            assert!(pull(&puller, &reference, &credentials).await.is_ok());
        }
        let asked = realm.seen();
        // One token a pull: the second step goes on with that of the first.
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0].target, "/token?x=1&service=test&scope=repository%3Ateam%2Fapp%3Apull");
        assert_eq!(asked[0].authorization, None);
        assert_eq!(asked[1].authorization, Some(basic("user", "hush")));
        let given = server.seen().into_iter().filter_map(|seen| seen.authorization).collect::<Vec<_>>();
        assert!(!given.is_empty() && given.iter().all(|given| given == BEARER), "{given:?}");
    }
}

/// M3: what the realm's query asks for beside ours is not passed on.
#[tokio::test]
async fn a_realm_cannot_ask_for_a_token_for_another_repository() {
    let realm = Server::start(|_| Answer::new(200, r#"{"token":"tok-4711"}"#)).await;
    let query = "service=victim&scope=repository:victim/app:pull,push&account=admin&client_id=x&offline_token=true";
    let challenge = Answer::bearer(&format!("http://{}/token?{query}", realm.host()));
    let server = Server::start(move |_| challenge.clone()).await;
    let reference = format!("{}/team/app:v1", server.host());
    pull(&puller(&[&server]), &reference, &login(&server.host())).await.unwrap_err();
    assert_eq!(realm.seen()[0].target, "/token?service=test&scope=repository%3Ateam%2Fapp%3Apull");
}

#[tokio::test]
async fn a_token_service_at_a_refused_address_is_not_asked() {
    let realm = Server::start(|_| Answer::new(200, r#"{"token":"tok-4711"}"#)).await;
    let port = realm.host().rsplit_once(':').unwrap().1.to_owned();
    let challenge = Answer::bearer(&format!("http://127.0.0.2:{port}/token"));
    let server = Server::start(move |_| challenge.clone()).await;
    let egress = Egress::default().allowing(["127.0.0.1/32".parse().unwrap()]);
    let puller = Puller::new(PullerOptions { egress, ..options(&[&server]) }).unwrap();
    let refusal = pull(&puller, &format!("{}/app:v1", server.host()), &login(&server.host())).await.unwrap_err();
    assert!(matches!(refusal, Error::Address { .. }), "{refusal}");
    assert_eq!(refusal.class(), Class::Terminal);
    assert!(realm.seen().is_empty());
}

#[tokio::test]
async fn a_login_for_some_hosts_goes_to_no_other_token_service() {
    let realm = Server::start(|_| Answer::new(200, r#"{"token":"tok-4711"}"#)).await;
    let image = Image::small();
    let challenge = Answer::bearer(&format!("http://{}/token", realm.host()));
    let server = Server::start(move |seen| guarded(seen, BEARER, challenge.clone(), &image)).await;
    let reference = format!("{}/app:v1", server.host());
    let only = |hosts: &str| login(&server.host()).only_for(&hosts.parse().unwrap());
    let refusal = pull(&puller(&[&server]), &reference, &only(&server.host())).await.unwrap_err();
    assert!(refusal.to_string().contains("not one of the hosts that the login is for"), "{refusal}");
    assert!(realm.seen().is_empty());
    let both = format!("{}, http://{}", server.host(), realm.host());
    assert!(pull(&puller(&[&server]), &reference, &only(&both)).await.is_ok());
    assert_eq!(realm.seen().iter().filter(|seen| seen.authorization.is_some()).count(), realm.seen().len());
}

#[tokio::test]
async fn an_expired_token_is_replaced() {
    let realm = Server::start(|_| Answer::new(200, r#"{"token":"tok-4711"}"#)).await;
    let challenge = Answer::bearer(&format!("http://{}/", realm.host()));
    let image = Image::small();
    let server = Server::start(move |seen| guarded(seen, BEARER, challenge.clone(), &image)).await;
    let puller = puller(&[&server]);
    let none = Credentials::anonymous();
    let mut resolved = puller.resolve(&format!("{}/app:v1", server.host()), &none).await.unwrap();
    assert!(!format!("{resolved:?}").contains("4711"));
    resolved.authorization = Authorization::bearer("stale");
    assert!(puller.fetch(&resolved, &none).await.is_ok());
}

#[tokio::test]
async fn basic_logins_work_and_without_one_the_error_says_what_to_do() {
    let image = Image::small();
    let wanted = basic("user", "hush");
    let server = Server::start(move |seen| guarded(seen, &wanted, Answer::basic(), &image)).await;
    let puller = puller(&[&server]);
    let reference = format!("{}/app:v1", server.host());
    assert!(pull(&puller, &reference, &login(&server.host())).await.is_ok());
    for (credentials, hint) in
        [(Credentials::anonymous(), "needs a pull secret"), (login("quay.io"), "needs a pull secret")]
    {
        let refusal = pull(&puller, &reference, &credentials).await.unwrap_err();
        assert_eq!(refusal.class(), Class::Unauthorized);
        assert!(refusal.to_string().contains(hint), "{refusal}");
    }
}

/// Logins of both kinds of secret for `host`, in the order in which they are tried.
fn logins(host: &str) -> Credentials {
    let mut all = Credentials::from_dockercfg(
        format!(r#"{{"{host}/team":{{"username":"first","password":"m4rked-1"}}}}"#).as_bytes(),
    )
    .unwrap();
    for (user, password) in [("second", "m4rked-2"), ("user", "hush"), ("last", "m4rked-3")] {
        let json = format!(r#"{{"auths":{{"{host}":{{"username":"{user}","password":"{password}"}}}}}}"#);
        all.extend(Credentials::from_docker_config_json(json.as_bytes()).unwrap());
    }
    all
}

#[tokio::test]
async fn logins_are_tried_in_order_until_one_is_accepted() {
    // By the registry itself,
    let (image, wanted) = (Image::small(), basic("user", "hush"));
    let server = Server::start(move |seen| guarded(seen, &wanted, Answer::basic(), &image)).await;
    let reference = format!("{}/team/app:v1", server.host());
    assert!(pull(&puller(&[&server]), &reference, &logins(&server.host())).await.is_ok());
    let mut given: Vec<_> = server.seen().into_iter().map(|seen| seen.authorization).collect();
    given.dedup();
    let expected =
        [None, Some(basic("first", "m4rked-1")), Some(basic("second", "m4rked-2")), Some(basic("user", "hush"))];
    assert_eq!(given, expected);
    // or by the service that gives out its tokens.
    let (image, wanted) = (Image::small(), basic("user", "hush"));
    let realm = Server::start(move |seen| match seen.authorization.as_ref() {
        Some(login) if *login == wanted => Answer::new(200, r#"{"token":"tok-4711"}"#),
        _ => Answer::new(401, ""),
    })
    .await;
    let challenge = Answer::bearer(&format!("http://{}/", realm.host()));
    let server = Server::start(move |seen| guarded(seen, BEARER, challenge.clone(), &image)).await;
    let reference = format!("{}/team/app:v1", server.host());
    assert!(pull(&puller(&[&server]), &reference, &logins(&server.host())).await.is_ok());
    assert_eq!(realm.seen().len(), 3);
}

#[tokio::test]
async fn when_every_login_is_refused_the_error_says_so_and_shows_none() {
    let server = Server::start(|seen| {
        let echo = seen.authorization.clone().unwrap_or_default();
        let body = format!(r#"{{"errors":[{{"code":"DENIED","message":"{echo} m4rked-1 m4rked-2 m4rked-3 hush"}}]}}"#);
        Answer { body: body.into_bytes(), ..Answer::basic() }
    })
    .await;
    let reference = format!("{}/team/app:v1", server.host());
    let refusal = pull(&puller(&[&server]), &reference, &logins(&server.host())).await.unwrap_err();
    assert_eq!((refusal.class(), server.seen().len()), (Class::Unauthorized, 5));
    let text = everything(&refusal);
    assert!(text.contains("none of the matching logins"), "{text}");
    for secret in ["m4rked", "hush", &basic("last", "m4rked-3")[6..]] {
        assert!(!text.contains(secret), "{text}");
    }
    assert!(!format!("{:?}", logins("quay.io")).contains("m4rked"));
}

#[tokio::test]
async fn a_redirect_to_another_host_takes_no_secret_along() {
    let image = Image::small();
    let blob = image.blobs[0].1.clone();
    let cdn = Server::start(move |_| Answer::new(200, blob.clone())).await;
    let to = format!("http://user:pass@{}/somewhere?signature=s3cret", cdn.host());
    let wanted = basic("user", "hush");
    let server = Server::start(move |seen| match guarded(seen, &wanted, Answer::basic(), &image) {
        Answer { status: 200, .. } if seen.target.contains("/blobs/") => Answer::redirect(to.clone()),
        other => other,
    })
    .await;
    assert!(pull(&puller(&[&server]), &format!("{}/app:v1", server.host()), &login(&server.host())).await.is_ok());
    assert_eq!(cdn.seen().len(), 1);
    assert_eq!(cdn.seen()[0].authorization, None);
}

#[tokio::test]
async fn a_redirect_target_cannot_ask_for_the_login() {
    let realm = Server::start(|_| Answer::new(200, r#"{"token":"x"}"#)).await;
    let challenge = Answer::bearer(&format!("http://{}/", realm.host()));
    let cdn = Server::start(move |_| challenge.clone()).await;
    let (image, to) = (Image::small(), format!("http://{}/", cdn.host()));
    let server =
        Server::start(
            move |seen| {
                if seen.target.contains("/blobs/") { Answer::redirect(to.clone()) } else { image.answer(seen) }
            },
        )
        .await;
    let refusal =
        pull(&puller(&[&server]), &format!("{}/app:v1", server.host()), &login(&server.host())).await.unwrap_err();
    assert_eq!(refusal.class(), Class::Unauthorized);
    assert!(realm.seen().is_empty());
}

#[tokio::test]
async fn secrets_that_are_echoed_do_not_reach_the_error() {
    let echo = format!(r#"{{"errors":[{{"code":"DENIED","message":"no: hush {} tok-4711"}}]}}"#, basic("user", "hush"));
    let realm = Server::start(|_| Answer::new(200, r#"{"token":"tok-4711"}"#)).await;
    let challenge = Answer::bearer(&format!("http://{}/", realm.host()));
    let server = Server::start(move |seen| match seen.authorization {
        Some(_) => Answer::new(403, echo.clone()),
        None => challenge.clone(),
    })
    .await;
    let refusal =
        pull(&puller(&[&server]), &format!("{}/app:v1", server.host()), &login(&server.host())).await.unwrap_err();
    assert_eq!(refusal.class(), Class::Unauthorized);
    let text = everything(&refusal);
    assert!(text.contains("denied: no: <redacted>"), "{text}");
    for secret in ["hush", "4711", &basic("user", "hush")[6..]] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[tokio::test]
async fn what_is_no_usable_challenge_or_token_is_said() {
    let cases = [
        (Answer::new(401, ""), "no challenge at all"),
        (Answer::new(401, "").header("WWW-Authenticate", "Negotiate"), "Negotiate"),
        (Answer::bearer("ftp://x/"), "not https"),
    ];
    for (answer, expected) in cases {
        let server = Server::start(move |_| answer.clone()).await;
        let reference = format!("{}/app:v1", server.host());
        let refusal = puller(&[&server]).resolve(&reference, &Credentials::anonymous()).await.unwrap_err();
        assert_eq!(refusal.class(), Class::Unauthorized);
        assert!(refusal.to_string().contains(expected), "{refusal}");
    }
    let answers = [
        (Answer::new(200, "{}"), Class::Unavailable, "without a usable token"),
        (Answer::new(200, vec![b' '; 64 * 1024 + 1]), Class::Terminal, "more than 65536 bytes"),
        (Answer::new(401, ""), Class::Unauthorized, "access denied"),
        (Answer::new(500, ""), Class::Unavailable, "answered 500"),
    ];
    for (answer, class, expected) in answers {
        let realm = Server::start(move |_| answer.clone()).await;
        let challenge = Answer::bearer(&format!("http://{}/", realm.host()));
        let server = Server::start(move |_| challenge.clone()).await;
        let reference = format!("{}/app:v1", server.host());
        let refusal = puller(&[&server]).resolve(&reference, &Credentials::anonymous()).await.unwrap_err();
        assert_eq!(refusal.class(), class, "{refusal}");
        assert!(refusal.to_string().contains(expected), "{refusal}");
    }
}
