//! `GET /bundles/<name>.tgz`.

use reqwest::{Method, StatusCode};
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, SOON, World, image};
use rukpak_tests::{RepoBuilder, fixtures};
use serde_json::json;

use crate::content::caller::{Caller, create, files, manifest, sent, unpacked};

#[tokio::test]
async fn who_may_read_fetches_the_content_of_a_bundle() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("p22");
    let repository: RepoBuilder = world.git.repository(&name).unwrap();
    let given: Vec<_> =
        (1..=7).map(|index| (format!("manifests/{index}.yaml"), manifest(&format!("m{index}")))).collect();
    let borrowed: Vec<_> = given.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
    repository.write(&borrowed).unwrap();
    repository.commit("first").unwrap();
    let source = json!({"type": "git", "git": {"repository": world.git.url(&name), "ref": {"branch": "main"}}});
    create(&client, &world::bundle(&name, source)).await;
    let url = unpacked(&client, &name).await.data["status"]["contentURL"].as_str().unwrap().to_owned();
    assert_eq!(url, format!("https://core.rukpak-system.svc/bundles/{name}.tgz"));

    let caller = Caller::with_role(world, "bundle-reader").await;
    let answer = caller.get(url.strip_prefix("https://core.rukpak-system.svc").unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("content-type"), "application/gzip");
    assert_eq!(answer.header("content-length"), answer.body.len().to_string());
    assert_eq!(files(&answer.body), given.into_iter().collect());
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let world = World::shared().await;
    let caller = Caller::with_role(world, "bundle-reader").await;
    for path in ["/bundles/none.tgz", "/bundles/", "/bundles/none", "/bundles/a/b.tgz", "/bundles/%2e%2e%2fuploads.tgz"]
    {
        assert_eq!(caller.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let name = unique_name("content");
    create(&world.admin().await, &world::bundle(&name, image("localhost:1/nowhere:v1"))).await;
    assert_eq!(caller.get(&format!("/bundles/{name}.tgz")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_part_or_nothing_is_sent_where_that_is_enough() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("content");
    let reference = world.push(&name, &fixtures::image("plain/valid").unwrap()).await;
    create(&client, &world::bundle(&name, image(&reference))).await;
    unpacked(&client, &name).await;
    let caller = Caller::with_role(world, "bundle-reader").await;
    let path = format!("/bundles/{name}.tgz");
    let whole = caller.get(&path).await;
    let ask = |header: &'static str, value: String| sent(caller.ask(Method::GET, &path).header(header, value));
    let tag = whole.header("etag").to_owned();
    assert!(tag.len() > 10, "{tag}");

    let same = ask("if-none-match", tag.clone()).await;
    assert_eq!((same.status, same.body.len(), same.header("etag")), (StatusCode::NOT_MODIFIED, 0, tag.as_str()));
    let other = ask("if-none-match", "\"other\"".to_owned()).await;
    assert_eq!((other.status, &other.body), (StatusCode::OK, &whole.body));
    let size = whole.body.len();
    let part = ask("range", "bytes=10-19".to_owned()).await;
    assert_eq!((part.status, part.body.as_slice()), (StatusCode::PARTIAL_CONTENT, &whole.body[10..20]));
    assert_eq!(part.header("content-range"), format!("bytes 10-19/{size}"));
    let end = ask("range", "bytes=-5".to_owned()).await;
    assert_eq!((end.status, end.body.as_slice()), (StatusCode::PARTIAL_CONTENT, &whole.body[size - 5..]));
    let beyond = ask("range", format!("bytes={size}-")).await;
    assert_eq!(beyond.status, StatusCode::RANGE_NOT_SATISFIABLE);
    assert_eq!(beyond.header("content-range"), format!("bytes */{size}"));
    let head = sent(caller.ask(Method::HEAD, &path)).await;
    assert_eq!((head.status, head.header("content-length")), (StatusCode::OK, size.to_string().as_str()));
    assert!(head.body.is_empty());
}

#[tokio::test]
async fn a_registry_bundle_is_served_as_a_plain_one() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("content");
    let reference = world.push(&name, &fixtures::renamed_image("registry/mill/v1", &name).unwrap()).await;
    let mut bundle = world::bundle(&name, image(&reference));
    bundle["spec"]["provisionerClassName"] = json!("core-rukpak-io-registry");
    create(&client, &bundle).await;
    let url = unpacked(&client, &name).await.data["status"]["contentURL"].clone();
    assert_eq!(url, format!("https://core.rukpak-system.svc/bundles/{name}.tgz"));
    let caller = Caller::with_role(world, "bundle-reader").await;
    let path = format!("/bundles/{name}.tgz");
    let first = caller.get(&path).await;
    assert_eq!(first.status, StatusCode::OK, "{}", first.text());
    let content = files(&first.body);
    assert_eq!(content.keys().collect::<Vec<_>>(), ["manifests/manifest.yaml"]);
    let text = &content["manifests/manifest.yaml"];
    for kind in ["kind: Namespace", "kind: Deployment", "kind: CustomResourceDefinition", "kind: ServiceAccount"] {
        assert!(text.contains(kind), "{kind} is missing:\n{text}");
    }
    assert!(!text.contains("ClusterServiceVersion"), "{text}");
    let second = caller.get(&path).await;
    assert_eq!((second.body == first.body, second.header("etag")), (true, first.header("etag")), "the same bytes");

    // And it is a plain bundle.
    let copy = unique_name("copy");
    let plain: Vec<(String, String)> = content.into_iter().collect();
    let reference = world.push(&copy, &rukpak_tests::ImageBuilder::of_files(plain)).await;
    create(&client, &world::bundle(&copy, image(&reference))).await;
    unpacked(&client, &copy).await;
}

#[tokio::test]
async fn content_goes_with_its_bundle() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("content");
    let files = [("manifests/a.yaml".to_owned(), manifest(&name))];
    let reference = world.push(&name, &rukpak_tests::ImageBuilder::of_files(files)).await;
    create(&client, &world::bundle(&name, image(&reference))).await;
    unpacked(&client, &name).await;
    let caller = Caller::with_role(world, "bundle-reader").await;
    let path = format!("/bundles/{name}.tgz");
    assert_eq!(caller.get(&path).await.status, StatusCode::OK);
    verbs::delete(&client, &Target::bundle(&name)).await.unwrap();
    let end = tokio::time::Instant::now() + SOON;
    while caller.get(&path).await.status != StatusCode::NOT_FOUND {
        assert!(tokio::time::Instant::now() < end, "it is served still");
    }
}

#[tokio::test]
async fn a_bundle_that_failed_has_no_address() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("content");
    let reference = world.push(&name, &fixtures::image("plain/subdir").unwrap()).await;
    create(&client, &world::bundle(&name, image(&reference))).await;
    let failed = world::until_bundle(&client, &name, Expected::is_false("Unpacked", "UnpackFailed")).await;
    assert!(failed.data["status"]["contentURL"].is_null());
}
