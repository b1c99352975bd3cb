//! Catalog images in a real registry.

use rukpak_catalog::origin::{Loaded, Origin};
use rukpak_source::image::Credentials;
use rukpak_tests::catalog::{CONFIGS_LABEL, CatalogImage};
use rukpak_tests::registry::{Compression, TarEntry};
use rukpak_tests::{FaultyServer, Layer, Registry, RegistryOptions, TestCa};

use crate::catalogs::common::{ALL_BUNDLES, bundles, catalog, changed_catalog, loader, new, refusal, unchanged};

#[tokio::test]
async fn a_known_digest_fetches_nothing() {
    let registry = Registry::start(RegistryOptions::default()).await.unwrap();
    let first = CatalogImage::of(catalog()).unwrap().push(&registry, "catalogs/all", "v1").await.unwrap();
    let ca = TestCa::new("front").unwrap();
    let front = FaultyServer::before(&ca, &registry.url(), &registry.ca_pem()).unwrap();
    let loader = loader(front.ca_pem());
    let origin = format!("image:{}/catalogs/all:v1", front.host());
    let (found, revision) = new(&loader, &origin, None).await;
    assert_eq!(bundles(&found), ALL_BUNDLES);
    assert_eq!(revision.0, first.digest);
    assert_eq!(found.packages["pump"].channels["stable"].entries.len(), 2);
    assert_eq!((front.count("/manifests/"), front.count("/blobs/")), (1, 2), "the configuration and a layer");

    front.forget();
    unchanged(&loader, &origin, &revision).await;
    assert_eq!((front.count("/manifests/"), front.count("/blobs/")), (1, 0));

    CatalogImage::of(changed_catalog()).unwrap().push(&registry, "catalogs/all", "v1").await.unwrap();
    let (found, moved) = new(&loader, &origin, Some(&revision)).await;
    assert_eq!(bundles(&found), ["mill: mill.v0.1.0 mill.v0.2.0"]);
    assert_ne!(moved, revision);
    let pinned = format!("image:{}/catalogs/all@{}", front.host(), first.digest);
    assert_eq!(bundles(&new(&loader, &pinned, None).await.0), ALL_BUNDLES);
}

#[tokio::test]
async fn layers_are_applied_and_nothing_else_is_kept() {
    let registry = Registry::start(RegistryOptions::default()).await.unwrap();
    let base = CatalogImage::of(catalog()).unwrap();
    // The first catalog is hidden, one way or the other; a link, a device and a broken file beside the folder are nobody's business.
    let hidden = [
        vec![TarEntry::whiteout("configs/all/catalog.json")],
        vec![TarEntry::opaque("configs/all")],
        vec![TarEntry::whiteout("configs/all")],
        vec![TarEntry::whiteout("configs")],
    ];
    let loader = loader(&registry.ca_pem());
    for (index, entries) in hidden.into_iter().enumerate() {
        let noise = [
            TarEntry::file("configs-old/catalog.json", "{ broken"),
            TarEntry::symlink("tmp/cache/link", "/etc/passwd"),
            TarEntry::device("var/device"),
            TarEntry::file(b"tmp/\xff".to_vec(), "x"),
            TarEntry::whiteout("tmp/cache/digest"),
        ];
        let second = [TarEntry::file("configs/other/catalog.json", changed_catalog().json_lines())];
        let image = base.clone().layer(Layer::new(entries).compression(Compression::Zstd));
        let image = image.layer(Layer::new(noise)).layer(Layer::new(second).compression(Compression::None));
        let tag = format!("v{index}");
        let pushed = image.push(&registry, "layers", &tag).await.unwrap();
        let (found, _) = new(&loader, &format!("image:{}", pushed.reference), None).await;
        assert_eq!(bundles(&found), ["mill: mill.v0.1.0 mill.v0.2.0"], "{tag}");
    }
    // A folder that bundles must not have.
    let files = [("etc/catalog/c.json", catalog().json_lines())];
    let image = CatalogImage::of_layers([Layer::of_files(files)]).label(CONFIGS_LABEL, "/etc/catalog");
    let pushed = image.push(&registry, "layers", "etc").await.unwrap();
    assert_eq!(bundles(&new(&loader, &format!("image:{}", pushed.reference), None).await.0), ALL_BUNDLES);
}

#[tokio::test]
async fn a_link_in_the_catalog_is_not_passed_over() {
    let registry = Registry::start(RegistryOptions::default()).await.unwrap();
    let loader = loader(&registry.ca_pem());
    let base = || CatalogImage::of(catalog()).unwrap();
    let link = || Layer::new([TarEntry::symlink("configs/more.json", "/other/more.json")]);
    for (tag, image, expected) in [
        ("link", base().layer(link()), "/configs/more.json in the image is neither a file nor a folder"),
        (
            "hard",
            base().layer(Layer::new([
                TarEntry::file("other/more.json", "{}"),
                TarEntry::hard_link("configs/more.json", "other/more.json"),
            ])),
            "/configs/more.json in the image is neither",
        ),
        (
            "folder",
            base().layer(Layer::new([TarEntry::symlink("configs", "other")])),
            "/configs in the image is neither",
        ),
        ("utf-8", base().layer(Layer::new([TarEntry::file(b"configs/\xff".to_vec(), "x")])), "not UTF-8"),
        ("up", base().layer(Layer::new([TarEntry::file("configs/../x", "x")])), "leaves the bundle"),
    ] {
        let pushed = image.push(&registry, "links", tag).await.unwrap();
        let text = refusal(&loader, &format!("image:{}", pushed.reference)).await;
        assert!(text.starts_with("Terminal ") && text.contains(expected), "{tag}: {text}");
    }
    // One that a later layer hides is none, and a hard link inside of the folder is a file.
    let hidden = base().layer(link()).layer(Layer::new([TarEntry::whiteout("configs/more.json")]));
    let inside = [
        TarEntry::file("configs/all/more.json", changed_catalog().json_lines().replace("mill", "loom")),
        TarEntry::hard_link("configs/again.json", "configs/all/more.json"),
        TarEntry::whiteout("configs/all/more.json"),
    ];
    let pushed = hidden.push(&registry, "links", "hidden").await.unwrap();
    assert_eq!(bundles(&new(&loader, &format!("image:{}", pushed.reference), None).await.0), ALL_BUNDLES);
    let pushed = base().layer(Layer::new(inside)).push(&registry, "links", "inside").await.unwrap();
    let (found, _) = new(&loader, &format!("image:{}", pushed.reference), None).await;
    assert!(found.packages.contains_key("loom"), "{:?}", bundles(&found));
}

#[tokio::test]
async fn a_private_registry_wants_the_login_it_is_given() {
    let registry = Registry::start(RegistryOptions::private("alice", "secret")).await.unwrap();
    let pushed = CatalogImage::of(catalog()).unwrap().push(&registry, "private", "v1").await.unwrap();
    let loader = loader(&registry.ca_pem());
    let origin = format!("image:{}", pushed.reference);
    let text = refusal(&loader, &origin).await;
    assert!(text.starts_with("Unauthorized "), "{text}");
    let login = registry.pull_secret_json("alice", "secret");
    let login = Credentials::from_docker_config_json(login.as_bytes()).unwrap();
    let origin: Origin = origin.parse().unwrap();
    let Loaded::New(found, _) = loader.load_with(&origin, None, &login).await.unwrap() else { panic!("it is new") };
    assert_eq!(bundles(&found), ALL_BUNDLES);
}
