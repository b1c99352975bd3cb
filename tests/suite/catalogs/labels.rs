//! Labels of catalog images, and configurations that are not what they should be.

use rukpak_tests::catalog::{CONFIGS_LABEL, CatalogImage, SQLITE_LABEL};
use rukpak_tests::{Fault, FaultyServer, Layer, Registry, RegistryOptions, Rule, TestCa};

use crate::catalogs::common::{ALL_BUNDLES, bundles, catalog, loader, new, refusal};

#[tokio::test]
async fn the_label_decides() {
    let registry = Registry::start(RegistryOptions::default()).await.unwrap();
    let loader = loader(&registry.ca_pem());
    let plain = || CatalogImage::of_layers([Layer::of_files([("configs/c.json", catalog().json_lines())])]);
    for (tag, label) in [("slash", "/configs"), ("bare", "configs"), ("untidy", "//./configs/")] {
        let pushed = plain().label(CONFIGS_LABEL, label).push(&registry, "labels", tag).await.unwrap();
        let (found, _) = new(&loader, &format!("image:{}", pushed.reference), None).await;
        assert_eq!(bundles(&found), ALL_BUNDLES, "{label}");
    }
    for (tag, image, expected) in [
        ("none", plain(), "image type could not be determined"),
        ("other", plain().label("maintainer", "me"), "image type could not be determined"),
        (
            "sqlite",
            plain().label(SQLITE_LABEL, "/database/index.db"),
            "sqlite-based index images are no longer supported",
        ),
        ("up", plain().label(CONFIGS_LABEL, "/configs/../configs"), "does not name a folder of the image"),
        ("root", plain().label(CONFIGS_LABEL, "/"), "does not name a folder of the image"),
        ("wrong", plain().label(CONFIGS_LABEL, "/config"), "there is no folder /config in the image"),
        ("file", plain().label(CONFIGS_LABEL, "/configs/c.json"), "there is no folder /configs/c.json in the image"),
    ] {
        let pushed = image.push(&registry, "labels", tag).await.unwrap();
        let text = refusal(&loader, &format!("image:{}", pushed.reference)).await;
        assert!(text.starts_with("Terminal ") && text.contains(expected), "{tag}: {text}");
    }
    let text = refusal(&loader, &format!("image:{}/labels:nothing", registry.host())).await;
    assert!(text.starts_with("NotFound "), "{text}");
}

#[tokio::test]
async fn a_configuration_is_what_the_manifest_says() {
    let registry = Registry::start(RegistryOptions::default()).await.unwrap();
    let pushed = CatalogImage::of(catalog()).unwrap().push(&registry, "config", "v1").await.unwrap();
    let ca = TestCa::new("front").unwrap();
    let front = FaultyServer::before(&ca, &registry.url(), &registry.ca_pem()).unwrap();
    let loader = loader(front.ca_pem());
    let origin = format!("image:{}/config@{}", front.host(), pushed.digest);
    for (fault, expected) in [
        (Fault::FlipBit, "changed the content"),
        (Fault::Replace(b"{}".to_vec()), "bytes, got 2"),
        (Fault::HangUpAfter(10), "broke off"),
    ] {
        let name = format!("{fault:?}");
        // The first blob is the configuration.
        front.add(Rule::on("/blobs/", fault).times(1));
        let text = refusal(&loader, &origin).await;
        assert!(text.contains("configuration of ") && text.contains(expected), "{name}: {text}");
    }
    front.add(Rule::on("/blobs/", Fault::FlipBit).skip(1).times(1));
    let text = refusal(&loader, &origin).await;
    assert!(text.contains("layer ") && text.contains("changed the content"), "{text}");
    assert_eq!(bundles(&new(&loader, &origin, None).await.0), ALL_BUNDLES);
}
