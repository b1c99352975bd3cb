//! Labels, and the files of one folder.

use rukpak_content::RelativePath;

use super::*;

/// `image` with this configuration.
fn with_config(image: Image, config: &str) -> Image {
    let old = Digest::sha256(b"{}").to_string();
    let new = Digest::sha256(config.as_bytes()).to_string();
    let (old, new) = (format!(r#""{old}","size":2"#), format!(r#""{new}","size":{}"#, config.len()));
    let mut blobs = image.blobs;
    blobs.push((Digest::sha256(config.as_bytes()).to_string(), config.as_bytes().to_vec()));
    Image { manifest: image.manifest.replace(&old, &new), blobs }
}

async fn labels(config: &str) -> Result<Vec<(String, String)>, String> {
    let image = with_config(Image::small(), config);
    let server = Server::start(move |seen| image.answer(seen)).await;
    let (puller, none) = (puller(&[&server]), Credentials::anonymous());
    let resolved = puller.resolve(&format!("{}/app:v1", server.host()), &none).await.unwrap();
    let labels = puller.labels(&resolved, &none).await.map_err(|error| everything(&error))?;
    assert_eq!(server.seen().len(), 2, "the manifest and the configuration");
    Ok(labels.into_iter().collect())
}

#[tokio::test]
async fn labels_are_those_of_the_configuration() {
    let both = r#"{"config":{"Labels":{"a":"1","b":""},"Env":["X=y"]},"history":[]}"#;
    assert_eq!(labels(both).await, Ok(vec![("a".into(), "1".into()), ("b".into(), String::new())]));
    for none in ["{}", r#"{"config":null}"#, r#"{"config":{}}"#, r#"{"config":{"Labels":null}}"#] {
        assert_eq!(labels(none).await, Ok(Vec::new()), "{none}");
    }
    for broken in ["[]", "<html>", r#"{"config":{"Labels":{"a":1}}}"#] {
        let error = labels(broken).await.unwrap_err();
        assert!(error.starts_with("configuration of "), "{broken}: {error}");
    }
}

#[tokio::test]
async fn only_the_folder_is_spooled_and_counted() {
    let big = vec![7; 300_000];
    let image = Image::new(&[
        (GZIP, gzip(&tar(&[("tmp/cache", &big), ("configs/a", b"1"), ("configs/b/c", b"2"), ("configs-b/x", &big)]))),
        (GZIP, gzip(&tar(&[("configs/.wh.a", b""), ("tmp/.wh.cache", b""), ("usr/.wh..wh..opq", b"")]))),
    ]);
    let server = Server::start(move |seen| image.answer(seen)).await;
    // One file, one folder, and the folder itself: nothing else counts.
    let limits = Limits { entries: 4, ..Limits::default() };
    let none = Credentials::anonymous();
    let puller = Puller::new(PullerOptions { limits, ..options(&[&server]) }).unwrap();
    let resolved = puller.resolve(&format!("{}/app:v1", server.host()), &none).await.unwrap();
    let folder = |name: &str| RelativePath::new(name).unwrap();
    let stage = puller.fetch_folder(&resolved, &folder("configs"), &none).await.unwrap();
    let found = listing(&stage);
    assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), ["b/", "b/c"]);
    assert_eq!((found["b/c"].as_str(), stage.size_bytes()), ("2", 1));
    let error = puller.fetch_folder(&resolved, &folder("config"), &none).await.unwrap_err();
    assert!(matches!(error, Error::NoFolder { .. }) && error.class() == Class::Terminal, "{error}");
    let error = puller.fetch(&resolved, &none).await.unwrap_err();
    assert!(everything(&error).contains("files and folders"), "{error}");
}
