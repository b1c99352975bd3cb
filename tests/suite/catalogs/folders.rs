//! Catalogs in folders.

use rukpak_tests::tools::temp_folder;

use crate::catalogs::common::{ALL_BUNDLES, bundles, catalog, changed_catalog, loader, new, refusal, unchanged};

#[tokio::test]
async fn a_folder_is_read_again_when_it_has_changed() {
    let folder = temp_folder("catalog").unwrap();
    let origin = format!("dir:{}", folder.path().display());
    std::fs::create_dir(folder.path().join("all")).unwrap();
    let file = folder.path().join("all/catalog.json");
    std::fs::write(&file, catalog().json_lines()).unwrap();
    let loader = loader("");
    let (catalog, revision) = new(&loader, &origin, None).await;
    assert_eq!(bundles(&catalog), ALL_BUNDLES);
    unchanged(&loader, &origin, &revision).await;
    std::fs::write(&file, changed_catalog().json_lines()).unwrap();
    let (catalog, changed) = new(&loader, &origin, Some(&revision)).await;
    assert_eq!(bundles(&catalog), ["mill: mill.v0.1.0 mill.v0.2.0"]);
    assert_ne!(revision, changed);

    std::fs::write(&file, "{\"schema\": ").unwrap();
    let text = refusal(&loader, &origin).await;
    assert!(text.starts_with("Terminal the catalog cannot be read: ") && text.contains("catalog.json"), "{text}");
    let text = refusal(&loader, &format!("{origin}/nothing")).await;
    assert!(text.starts_with("NotFound "), "{text}");
}
