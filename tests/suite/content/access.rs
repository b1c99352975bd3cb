//! Who may what: tokens, client certificates, roles.

use reqwest::{Method, StatusCode};
use rukpak_tests::TestCa;
use rukpak_tests::verbs::unique_name;
use rukpak_tests::world::{SOON, World};
use serde_json::Value;

use crate::content::caller::{Caller, account, archive, bind, manifest, sent, upload_bundle};

#[tokio::test]
async fn who_is_nobody_gets_nothing() {
    let world = World::shared().await;
    for token in [None, Some("nonsense"), Some("eyJhbGciOiJSUzI1NiJ9.e30.AAAA")] {
        let caller = Caller::with_token(world, token).await;
        for path in ["/bundles/none.tgz", "/uploads/none.tgz", "/", "/metrics"] {
            let answer = caller.get(path).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
            assert!(!answer.text().contains("nonsense"), "{}", answer.text());
        }
        // However much is sent, it is not taken, and there is an answer.
        assert_eq!(caller.put("none", vec![0; 900_000]).await.status, StatusCode::UNAUTHORIZED);
    }
    let basic = Caller::with_token(world, None).await;
    let answer = sent(basic.ask(Method::GET, "/bundles/none.tgz").basic_auth("admin", Some("admin"))).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_token_alone_is_no_right() {
    let world = World::shared().await;
    let token = account(&world.admin().await, None).await;
    let caller = Caller::with_token(world, Some(&token)).await;
    let answer = caller.get("/bundles/none.tgz").await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.text().contains("cannot get path \"/bundles/none.tgz\""), "{}", answer.text());
    assert!(!answer.text().contains(&token));
    assert_eq!(caller.put("none", b"x".to_vec()).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn each_role_is_for_its_own_path() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("roles");
    upload_bundle(&client, &name).await;
    let reader = Caller::with_role(world, "bundle-reader").await;
    assert_eq!(reader.put(&name, b"x".to_vec()).await.status, StatusCode::FORBIDDEN, "a PUT is an update");
    assert_eq!(reader.get(&format!("/uploads/{name}.tgz")).await.status, StatusCode::FORBIDDEN);
    let uploader = Caller::with_role(world, "bundle-uploader").await;
    assert_eq!(uploader.get("/bundles/none.tgz").await.status, StatusCode::FORBIDDEN);
    let path = format!("/uploads/{name}.tgz");
    assert_eq!(sent(uploader.ask(Method::POST, &path).body("x")).await.status, StatusCode::FORBIDDEN);
    assert_eq!(sent(uploader.ask(Method::DELETE, &path)).await.status, StatusCode::FORBIDDEN);
    let body = archive(&[("manifests/a.yaml", manifest(&name))]);
    assert_eq!(uploader.put(&name, body).await.status, StatusCode::CREATED);
}

/// The administrator's kubeconfig holds a client certificate.
pub fn identity_of(kubeconfig: &std::path::Path) -> reqwest::Identity {
    use base64::Engine as _;
    let text = std::fs::read_to_string(kubeconfig).expect("the plane has written it");
    let config: Value = serde_json::from_str(&text).expect("it is JSON");
    let user = &config["users"][0]["user"];
    let pem = ["client-certificate-data", "client-key-data"].map(|key| {
        base64::prelude::BASE64_STANDARD.decode(user[key].as_str().expect("a certificate")).expect("base64")
    });
    reqwest::Identity::from_pem(&pem.concat()).expect("PEM")
}

#[tokio::test]
async fn a_client_certificate_of_the_cluster_is_as_good_as_a_token() {
    let world = World::shared().await;
    let admin = Caller::with_identity(world, identity_of(world.plane.kubeconfig_path())).await;
    assert_eq!(admin.get("/bundles/none.tgz").await.status, StatusCode::NOT_FOUND);
    assert_eq!(sent(admin.ask(Method::POST, "/uploads/none.tgz")).await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_strangers_certificate_is_refused_whatever_name_it_bears() {
    let world = World::shared().await;
    let leaf = TestCa::new("stranger").unwrap().client("admin", Some("system:masters")).unwrap();
    let identity = reqwest::Identity::from_pem((leaf.cert_pem.clone() + &leaf.key_pem).as_bytes()).unwrap();
    let http = crate::content::caller::http(world, Some(identity)).await;
    let request = http.get(format!("{}/bundles/none.tgz", rukpak_tests::process::CONTENT_URL));
    match request.send().await {
        Ok(answer) => assert_eq!(answer.status(), StatusCode::UNAUTHORIZED),
        Err(error) => assert!(format!("{error:?}").contains("AlertReceived(UnknownCA)"), "{error:?}"),
    }
}

#[tokio::test]
async fn a_right_that_is_taken_away_is_gone() {
    let world = World::shared().await;
    let client = world.admin().await;
    let token = account(&client, None).await;
    let caller = Caller::with_token(world, Some(&token)).await;
    let role = unique_name("role");
    // The group has all accounts of other tests, so the path is nobody else's.
    let path = format!("/bundles/{role}.tgz");
    assert_eq!(caller.get(&path).await.status, StatusCode::FORBIDDEN);
    let rules = serde_json::json!([{"nonResourceURLs": [path], "verbs": ["get"]}]);
    let object = serde_json::json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                                    "metadata": {"name": role}, "rules": rules});
    crate::content::caller::create(&client, &object).await;
    let group = serde_json::json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group",
                                   "name": "system:serviceaccounts:rukpak-system"});
    bind(&client, &role, &group).await;
    until(&caller, &path, StatusCode::NOT_FOUND).await;
    assert_eq!(caller.get("/bundles/other.tgz").await.status, StatusCode::FORBIDDEN, "one path, not all");
    let target = rukpak_tests::verbs::Target::cluster("rbac.authorization.k8s.io/v1", "ClusterRole", &role);
    rukpak_tests::verbs::delete(&client, &target).await.unwrap();
    until(&caller, &path, StatusCode::FORBIDDEN).await;
}

async fn until(caller: &Caller, path: &str, status: StatusCode) {
    let end = tokio::time::Instant::now() + SOON;
    while caller.get(path).await.status != status {
        assert!(tokio::time::Instant::now() < end, "never {status}");
    }
}
