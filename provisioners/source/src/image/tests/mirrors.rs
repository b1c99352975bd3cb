//! Mirrors: which is asked, what it is given, what happens when it fails.

use super::server::{basic, certificate};
use super::*;
use crate::mirrors::Mirrors;

/// An image of `quay.example.com/team`, whose registry is `location`, with `mirrors` before it.
fn conf(location: &str, mirrors: &[&str], more: &str) -> Mirrors {
    let table = |mirror: &&str| format!("[[registry.mirror]]\nlocation = \"{mirror}\"\n{more}\n");
    let mirrors = mirrors.iter().map(table).collect::<Vec<_>>().concat();
    let text = format!("[[registry]]\nprefix = \"quay.example.com/team\"\nlocation = \"{location}/own\"\n{mirrors}");
    Mirrors::parse(&text).unwrap()
}

const REFERENCE: &str = "quay.example.com/team/app:v1";

async fn serve(image: &Image) -> Server {
    let image = image.clone();
    Server::start(move |seen| image.answer(seen)).await
}

fn targets(server: &Server) -> Vec<String> {
    let rest =
        |seen: Seen| seen.target.rsplit_once("/sha256").map_or(seen.target.clone(), |(start, _)| start.to_owned());
    server.seen().into_iter().map(rest).collect()
}

#[tokio::test]
async fn the_first_mirror_that_has_it_serves_all_of_it() {
    let image = Image::small();
    let (empty, full, own) = (Server::start(|_| Answer::new(404, "")).await, serve(&image).await, serve(&image).await);
    let mirrors = conf(&own.host(), &[&format!("{}/a", empty.host()), &format!("{}/b", full.host())], "");
    let puller = puller(&[&empty, &full, &own]).with_mirrors(mirrors);
    let none = Credentials::anonymous();
    let resolved = puller.resolve(REFERENCE, &none).await.unwrap();
    assert_eq!(resolved.reference(), format!("quay.example.com/team/app@{}", image.digest()));
    assert!(puller.fetch(&resolved, &none).await.is_ok());
    assert_eq!(targets(&empty), ["/v2/a/app/manifests/v1", "/v2/a/app/blobs"]);
    assert_eq!(targets(&full), ["/v2/b/app/manifests/v1", "/v2/b/app/blobs"]);
    assert!(own.seen().is_empty());
}

#[tokio::test]
async fn mirrors_for_digests_are_not_asked_about_tags() {
    let image = Image::small();
    let (mirror, own) = (serve(&image).await, serve(&image).await);
    let only = "pull-from-mirror = \"digest-only\"";
    let puller = puller(&[&mirror, &own]).with_mirrors(conf(&own.host(), &[&mirror.host()], only));
    let none = Credentials::anonymous();
    let resolved = puller.resolve(REFERENCE, &none).await.unwrap();
    assert!(mirror.seen().is_empty());
    assert!(puller.fetch(&resolved, &none).await.is_ok());
    assert_eq!(targets(&own), ["/v2/own/app/manifests/v1"]);
    assert_eq!(targets(&mirror), ["/v2/app/blobs"]);
    assert!(puller.resolve_pinned(REFERENCE, &image.digest(), &none).await.is_ok());
    assert_eq!(targets(&mirror), ["/v2/app/blobs", "/v2/app/manifests"]);
}

#[tokio::test]
async fn a_mirror_that_fails_or_lies_is_passed_over() {
    let image = Image::small();
    let other = Image::new(&[(GZIP, gzip(&tar(&[("manifests/evil", b"1")])))]);
    let lie = move |_: &Seen| Answer::new(200, other.manifest.clone());
    let gone = Server::start(|_| Answer::default()).await.host();
    let servers = [
        Server::start(|_| Answer::new(500, "")).await,
        Server::start(|_| Answer::new(200, "<html>")).await,
        Server::start(|_| Answer { cut: Some(5), ..Answer::new(200, "0123456789") }).await,
        Server::start(|_| Answer::redirect("ftp://x/".into())).await,
        Server::start(lie).await,
    ];
    let own = serve(&image).await;
    let mut hosts: Vec<_> = servers.iter().map(Server::host).collect();
    hosts.push(gone);
    for host in &hosts {
        let mut options = options(&[&own]);
        options.plain_http.push(host.clone());
        let puller = Puller::new(options).unwrap().with_mirrors(conf(&own.host(), &[host], ""));
        let found = puller.resolve_pinned(REFERENCE, &image.digest(), &Credentials::anonymous()).await.unwrap();
        assert!(puller.fetch(&found, &Credentials::anonymous()).await.is_ok());
    }
}

#[tokio::test]
async fn a_layer_that_a_mirror_damages_or_breaks_off_comes_from_the_next_place() {
    let image = Image::small();
    let blob = image.blobs[0].1.clone();
    let changed = [&blob[..30], b"x", &blob[31..]].concat();
    let answers = [
        Answer::new(200, changed),
        Answer { cut: Some(30), ..Answer::new(200, blob) },
        Answer::new(200, vec![0; 9_000_000]),
    ];
    for answer in answers {
        let mirror = Server::start({
            let image = image.clone();
            move |seen| if seen.target.contains("/blobs/") { answer.clone() } else { image.answer(seen) }
        })
        .await;
        let own = serve(&image).await;
        let limits = Limits { download_bytes: 8_000_000, ..Limits::default() };
        let puller = Puller::new(PullerOptions { limits, ..options(&[&mirror, &own]) }).unwrap();
        let puller = puller.with_mirrors(conf(&own.host(), &[&mirror.host()], ""));
        assert_eq!(
            listing(&pull(&puller, REFERENCE, &Credentials::anonymous()).await.unwrap())["manifests/a.yaml"],
            "a: 1\n"
        );
        assert_eq!(targets(&mirror), ["/v2/app/manifests/v1", "/v2/app/blobs"]);
        assert_eq!(targets(&own), ["/v2/own/app/blobs"]);
    }
}

#[tokio::test]
async fn when_all_fail_every_place_is_named() {
    let (mirror, own) = (Server::start(|_| Answer::new(500, "")).await, Server::start(|_| Answer::new(404, "")).await);
    let mirrors = conf(&own.host(), &[&format!("{}/m", mirror.host())], "");
    let puller = puller(&[&mirror, &own]).with_mirrors(mirrors);
    let error = puller.resolve(REFERENCE, &Credentials::anonymous()).await.unwrap_err();
    assert_eq!(error.class(), Class::NotFound);
    let text = everything(&error);
    let mirror = format!("manifest of {REFERENCE}: mirror {}/m/app failed (", mirror.host());
    assert!(text.starts_with(&mirror) && text.contains("answered 500"), "{text}");
    assert!(text.contains(&format!("; registry {}/own/app failed: manifest of", own.host())), "{text}");
}

#[tokio::test]
async fn a_blocked_registry_is_pulled_from_its_mirrors_alone() {
    let image = Image::small();
    let mirror = serve(&image).await;
    let text = |mirrors: &str| format!("[[registry]]\nprefix = \"quay.example.com\"\nblocked = true\n{mirrors}");
    let with = text(&format!("[[registry.mirror]]\nlocation = \"{}\"\n", mirror.host()));
    let none = Credentials::anonymous();
    let blocked = puller(&[&mirror]).with_mirrors(Mirrors::parse(&with).unwrap());
    assert!(pull(&blocked, REFERENCE, &none).await.is_ok());
    let missing = blocked.resolve("quay.example.com/team/app:v2", &none).await.unwrap_err();
    assert!(missing.to_string().contains("mirror") && missing.class() == Class::NotFound, "{missing}");
    let blocked = puller(&[]).with_mirrors(Mirrors::parse(&text("")).unwrap());
    let refusal = blocked.resolve(REFERENCE, &none).await.unwrap_err();
    assert_eq!(refusal.class(), Class::Terminal);
    assert!(refusal.to_string().ends_with("registry quay.example.com is blocked in registries.conf"), "{refusal}");
}

#[tokio::test]
async fn a_mirror_is_given_its_own_login_and_no_other() {
    let (image, wanted) = (Image::small(), basic("user", "hush"));
    let guard = |image: Image, wanted: String| {
        move |seen: &Seen| {
            if seen.authorization.as_ref() == Some(&wanted) { image.answer(seen) } else { Answer::basic() }
        }
    };
    let (mirror, own) = (
        Server::start(guard(image.clone(), basic("mirror", "m"))).await,
        Server::start(guard(image, wanted.clone())).await,
    );
    let puller = puller(&[&mirror, &own]).with_mirrors(conf(&own.host(), &[&mirror.host()], ""));
    // The mirror wants a login that we do not have: the registry's is not offered to it.
    let mut credentials = login(&format!("{}/own", own.host()));
    credentials.extend(login("quay.example.com"));
    assert!(pull(&puller, REFERENCE, &credentials).await.is_ok());
    assert!(mirror.seen().iter().all(|seen| seen.authorization.is_none()));
    // Nor is one that worked here sent there.
    let json = format!(r#"{{"{}":{{"username":"mirror","password":"m"}}}}"#, mirror.host());
    let credentials = Credentials::from_dockercfg(json.as_bytes()).unwrap();
    let asked = own.seen().len();
    assert!(pull(&puller, REFERENCE, &credentials).await.is_ok());
    assert_eq!(own.seen().len(), asked);
}

#[tokio::test]
async fn insecure_mirrors_need_no_known_certificate_and_no_tls() {
    let image = Image::small();
    let (tls, _) = certificate("127.0.0.1");
    let plain = serve(&image).await;
    let secure = Server::start_with(Some(tls), {
        let image = image.clone();
        move |seen| image.answer(seen)
    })
    .await;
    let none = Credentials::anonymous();
    for mirror in [&plain, &secure] {
        // Not in the list of registries without TLS.
        let lax = puller(&[]).with_mirrors(conf("127.0.0.1:1", &[&mirror.host()], "insecure = true"));
        assert!(pull(&lax, REFERENCE, &none).await.is_ok());
        let strict = puller(&[]).with_mirrors(conf("127.0.0.1:1", &[&mirror.host()], ""));
        let error = strict.resolve(REFERENCE, &none).await.unwrap_err();
        assert!(matches!(error, Error::Places { .. }), "{error}");
    }
}
