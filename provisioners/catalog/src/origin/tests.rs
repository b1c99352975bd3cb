//! Texts, labels, revisions of folders. Loading over the network is in the system tests.

use std::collections::BTreeMap;
use std::fs;

use super::*;

#[test]
fn origins_are_written_in_three_ways() {
    for (text, expected) in [
        ("image:registry.example/c:v1", Origin::Image("registry.example/c:v1".into())),
        ("dir:/catalogs/a b", Origin::Folder("/catalogs/a b".into())),
        ("https://h/catalogs/x/", Origin::Http("https://h/catalogs/x".into())),
        ("https://h:8443/catalogs/x/api/v1/all", Origin::Http("https://h:8443/catalogs/x".into())),
        ("http://localhost:8080/x", Origin::Http("http://localhost:8080/x".into())),
        ("http://127.0.0.1/x", Origin::Http("http://127.0.0.1/x".into())),
        ("http://[::1]:1/x", Origin::Http("http://[::1]:1/x".into())),
    ] {
        let origin: Origin = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(origin, expected);
        assert_eq!(origin.to_string().parse::<Origin>().unwrap(), origin, "{text}: shown and read again");
    }
    for text in [
        "",
        "image:",
        "dir:",
        "registry.example/c:v1",
        "image:a b",
        "image:docker://a/b",
        "ftp://h/x",
        "https://",
        "https://h/x?a=b",
        "https://h/x#y",
        "http://h/x",
        "http://10.0.0.1/x",
        "http://localhost.example/x",
        "dir:a\0b",
        "https://h h/x",
    ] {
        assert!(text.parse::<Origin>().is_err(), "{text}");
    }
    let error = "https://user:hush@h/x?token=hush".parse::<Origin>().unwrap_err().to_string();
    assert!(!error.contains("hush") && error.contains("h/x"), "{error}");
    let error = "https://user:hush@h/x".parse::<Origin>().unwrap_err().to_string();
    assert!(!error.contains("hush") && error.contains("login"), "{error}");
}

#[test]
fn a_label_names_the_folder() {
    let folder = |labels: &[(&str, &str)]| {
        let labels: BTreeMap<_, _> = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        image::folder("r/c:v1", &labels).map(|folder| folder.to_string()).map_err(|error| {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            format!("{error}{}", source.unwrap_or_default())
        })
    };
    for (label, expected) in [("/configs", "configs"), ("configs", "configs"), ("//a/./b/", "a/b"), ("etc", "etc")] {
        assert_eq!(folder(&[(CONFIGS_LABEL, label)]).as_deref(), Ok(expected));
    }
    for label in ["", "/", ".", "..", "/configs/../etc", "/a\0"] {
        let error = folder(&[(CONFIGS_LABEL, label)]).unwrap_err();
        assert!(error.contains(CONFIGS_LABEL), "{label:?}: {error}");
    }
    let sqlite = folder(&[(SQLITE_LABEL, "/database/index.db")]).unwrap_err();
    let words = "render \"r/c:v1\": sqlite-based index images are no longer supported, migrate to a file-based catalog: not allowed";
    assert!(sqlite.starts_with(words), "{sqlite}");
    assert!(folder(&[]).unwrap_err().contains("image type could not be determined"));
    let bundle = folder(&[("operators.operatorframework.io.bundle.manifests.v1", "manifests/")]).unwrap_err();
    assert!(bundle.contains("image of a bundle"), "{bundle}");
    assert_eq!(folder(&[(SQLITE_LABEL, "/db"), (CONFIGS_LABEL, "/configs")]).as_deref(), Ok("configs"));
}

#[test]
fn a_folder_has_another_revision_when_anything_in_it_changes() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fs::create_dir(path("a")).unwrap();
    fs::write(path("a/catalog.json"), "{}").unwrap();
    std::os::unix::fs::symlink("a/catalog.json", path("link")).unwrap();
    let revision = || folder::revision(root.path(), &Limits::default()).unwrap();
    let mut seen = vec![revision()];
    assert_eq!(revision(), seen[0], "nothing has changed");
    let mut changed = |what: &str| {
        let now = revision();
        assert!(!seen.contains(&now), "{what}");
        seen.push(now);
    };
    fs::write(path("a/catalog.json"), "{ }").unwrap();
    changed("a longer file");
    fs::write(path("new"), "{}").unwrap();
    fs::rename(path("new"), path("a/catalog.json")).unwrap();
    changed("another file in its place");
    fs::write(path("a/.indexignore"), "x\n").unwrap();
    changed("one more file");
    fs::rename(path("a/catalog.json"), path("a/catalog.yaml")).unwrap();
    changed("another name");
    fs::create_dir(path("b")).unwrap();
    changed("an empty folder");
    let few = Limits { entries: 3, ..Limits::default() };
    assert!(matches!(folder::revision(root.path(), &few), Err(Error::Limit(_))));
    let missing = folder::revision(&path("nothing"), &Limits::default()).unwrap_err();
    assert_eq!(missing.class(), Class::NotFound, "{missing}");
}
