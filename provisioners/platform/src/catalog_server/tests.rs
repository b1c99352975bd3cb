use std::fs;
use std::io::Read as _;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, header};
use flate2::read::GzDecoder;
use rukpak_catalog::origin;
use rukpak_catalog::served::Served;
use tower::ServiceExt as _;

use super::*;

/// A store with the catalog `c`, in which package `pump` has some bundles.
async fn store() -> (tempfile::TempDir, Arc<CatalogStore>, String) {
    let (root, source) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bundle = |number| {
        format!(
            "{{\"schema\":\"olm.bundle\",\"package\":\"pump\",\"name\":\"pump.v{number}\",\"image\":\"r.example/p\"}}\n"
        )
    };
    let text = "{\"schema\":\"olm.package\",\"name\":\"pump\"}\n".to_owned() + &(0..50).map(bundle).collect::<String>();
    fs::write(source.path().join("catalog.json"), text).unwrap();
    let store = CatalogStore::open(root.path().to_owned()).unwrap();
    let stage = store.stage().unwrap();
    let catalog = Served::write(source.path(), &origin::limits(), stage.path()).unwrap();
    let stored = store.put("c", "sha256:1", stage, catalog).await.unwrap();
    let mut all = String::new();
    stored.served().unwrap().all().unwrap().read_to_string(&mut all).unwrap();
    (root, Arc::new(store), all)
}

async fn call(
    store: &Arc<CatalogStore>,
    method: Method,
    path: &str,
    headers: &[(header::HeaderName, &str)],
) -> (StatusCode, HeaderMap, Vec<u8>) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    let response = router(store.clone()).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    (parts.status, parts.headers, to_bytes(body, usize::MAX).await.unwrap().to_vec())
}

#[tokio::test]
async fn a_catalog_is_sent_whole_in_part_and_not_again() {
    let (_root, store, all) = store().await;
    let path = "/catalogs/c/api/v1/all";
    let (status, headers, body) = call(&store, Method::GET, path, &[]).await;
    assert_eq!((status, String::from_utf8(body).unwrap()), (StatusCode::OK, all.clone()));
    assert_eq!(headers[header::CONTENT_TYPE], "application/jsonl");
    assert_eq!(headers[header::ETAG], "\"sha256:1\"");
    assert_eq!(headers[header::ACCEPT_RANGES], "bytes");
    let modified = headers[header::LAST_MODIFIED].to_str().unwrap().to_owned();

    let (status, headers, body) = call(&store, Method::HEAD, path, &[]).await;
    assert_eq!((status, body.len()), (StatusCode::OK, 0));
    assert_eq!(headers[header::CONTENT_LENGTH], all.len().to_string());

    let (status, _, body) = call(&store, Method::GET, path, &[(header::RANGE, "bytes=0-9")]).await;
    assert_eq!((status, body.as_slice()), (StatusCode::PARTIAL_CONTENT, &all.as_bytes()[..10]));

    let gzip = (header::ACCEPT_ENCODING, "deflate, gzip");
    let (_, headers, body) = call(&store, Method::GET, path, std::slice::from_ref(&gzip)).await;
    let mut decompressed = String::new();
    GzDecoder::new(&body[..]).read_to_string(&mut decompressed).unwrap();
    assert_eq!(decompressed, all);
    assert_eq!(
        (&headers[header::CONTENT_ENCODING], &headers[header::VARY]),
        (&"gzip".parse().unwrap(), &"Accept-Encoding".parse().unwrap())
    );
    let tag = headers[header::ETAG].to_str().unwrap().to_owned();
    assert_ne!(tag, "\"sha256:1\"");
    let (status, headers, _) = call(&store, Method::GET, path, &[gzip, (header::RANGE, "bytes=0-9")]).await;
    assert_eq!((status, headers.get(header::CONTENT_ENCODING)), (StatusCode::PARTIAL_CONTENT, None));

    let same = [
        (header::IF_NONE_MATCH, "\"sha256:1\""),
        (header::IF_NONE_MATCH, tag.as_str()),
        (header::IF_MODIFIED_SINCE, modified.as_str()),
    ];
    for known in same {
        let (status, _, body) = call(&store, Method::GET, path, std::slice::from_ref(&known)).await;
        assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0), "{known:?}");
    }
    let other = (header::IF_NONE_MATCH, "\"sha256:2\"");
    assert_eq!(call(&store, Method::GET, path, &[other]).await.0, StatusCode::OK);
}

#[tokio::test]
async fn documents_are_found_by_their_keys() {
    let (_root, store, all) = store().await;
    let lines: Vec<&str> = all.split_inclusive('\n').collect();
    let table = [
        ("", all.clone()),
        ("?schema=olm.package", lines[0].to_owned()),
        ("?schema=olm.package&name=", lines[0].to_owned()),
        ("?package=pump", lines[1..].concat()),
        ("?schema=olm.bundle&name=pump.v7", lines[8].to_owned()),
        ("?name=absent", String::new()),
    ];
    for (query, expected) in table {
        let (status, headers, body) = call(&store, Method::GET, &format!("/catalogs/c/api/v1/metas{query}"), &[]).await;
        assert_eq!((status, String::from_utf8(body).unwrap()), (StatusCode::OK, expected), "{query}");
        assert_eq!(headers[header::CONTENT_TYPE], "application/jsonl");
        assert_eq!(headers.get(header::ACCEPT_RANGES), None);
    }
    let gzip = [(header::ACCEPT_ENCODING, "gzip")];
    let (_, headers, body) = call(&store, Method::GET, "/catalogs/c/api/v1/metas?package=pump", &gzip).await;
    let mut decompressed = String::new();
    GzDecoder::new(&body[..]).read_to_string(&mut decompressed).unwrap();
    assert_eq!((decompressed, &headers[header::CONTENT_ENCODING]), (lines[1..].concat(), &"gzip".parse().unwrap()));
    // Little is sent as it is.
    let (_, headers, _) = call(&store, Method::GET, "/catalogs/c/api/v1/metas?schema=olm.package", &gzip).await;
    assert_eq!(headers.get(header::CONTENT_ENCODING), None);
    let known = [(header::IF_NONE_MATCH, "\"sha256:1\"")];
    assert_eq!(call(&store, Method::GET, "/catalogs/c/api/v1/metas", &known).await.0, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn what_is_refused_is_refused_in_catalogds_words() {
    let (_root, store, _) = store().await;
    let (get, post) = (Method::GET, Method::POST);
    let table = [
        (&post, "/catalogs/c/api/v1/all", 405, "Method Not Allowed\n"),
        (&post, "/catalogs/c/api/v1/metas", 405, "Method Not Allowed\n"),
        (&get, "/catalogs/c/api/v1/graphql", 404, "404 page not found\n"),
        (&get, "/", 404, "404 page not found\n"),
        (&get, "/catalogs/c", 404, "404 page not found\n"),
        (&get, "/catalogs/absent/api/v1/all", 404, "404 Not Found\n"),
        (&get, "/catalogs/../api/v1/all", 400, "invalid catalog name: a lowercase RFC 1123 subdomain"),
        (&get, "/catalogs/C/api/v1/metas", 400, "invalid catalog name: a lowercase RFC 1123 subdomain"),
        (&get, "/catalogs/c/api/v1/metas?version=1", 400, "400 Bad Request\n"),
    ];
    for (method, path, expected, text) in table {
        let (status, headers, body) = call(&store, method.clone(), path, &[]).await;
        let body = String::from_utf8(body).unwrap();
        assert_eq!(status.as_u16(), expected, "{path}");
        assert!(body.starts_with(text) && body.ends_with('\n'), "{path}: {body}");
        assert_eq!(headers[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    }
}
