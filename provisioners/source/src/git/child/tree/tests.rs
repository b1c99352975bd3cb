use std::collections::BTreeMap;

use git2::{Signature, TreeBuilder};
use tempfile::TempDir;

use super::*;
use crate::Stage;
use crate::archive::{Dialect, read_tar};

const FILE: i32 = 0o100_644;
const EXECUTABLE: i32 = 0o100_755;
const GITLINK: i32 = 0o160_000;
const FOLDER: i32 = 0o040_000;

fn repository() -> (TempDir, Repository) {
    let folder = TempDir::new().unwrap();
    let repository = Repository::init_bare(folder.path()).unwrap();
    (folder, repository)
}

fn folder(repository: &Repository, build: impl FnOnce(&mut TreeBuilder<'_>)) -> Oid {
    let mut builder = repository.treebuilder(None).unwrap();
    build(&mut builder);
    builder.write().unwrap()
}

fn commit(repository: &Repository, tree: Oid) -> Commit {
    let who = Signature::now("a", "a@example.com").unwrap();
    let tree = repository.find_tree(tree).unwrap();
    repository.commit(None, &who, &who, "m", &tree, &[]).unwrap().to_string().parse().unwrap()
}

/// A repository with every kind of entry.
fn sample(repository: &Repository) -> Commit {
    let blob = |text: &str| repository.blob(text.as_bytes()).unwrap();
    let manifests = folder(repository, |tree| {
        tree.insert("a.yaml", blob("a: 1\r\n"), FILE).unwrap();
        tree.insert("link.yaml", blob("a.yaml"), LINK_MODE).unwrap();
    });
    let bin = folder(repository, |tree| {
        tree.insert("run", blob("#!/bin/sh\n"), EXECUTABLE).unwrap();
        tree.insert("sh", blob("/bin/sh"), LINK_MODE).unwrap();
    });
    let root = folder(repository, |tree| {
        tree.insert("manifests", manifests, FOLDER).unwrap();
        tree.insert("bin", bin, FOLDER).unwrap();
        tree.insert(".gitattributes", blob("*.yaml text eol=crlf filter=x\n"), FILE).unwrap();
        tree.insert("sub", Oid::from_str(&"1".repeat(40)).unwrap(), GITLINK).unwrap();
        tree.insert("n".repeat(200), blob("long"), FILE).unwrap();
    });
    commit(repository, root)
}

fn listed(
    repository: &Repository,
    commit: &Commit,
    directory: Option<&str>,
    limits: &Limits,
) -> Result<Vec<Item>, Failure> {
    let directory = directory.map(|text| RelativePath::new(text).unwrap());
    list(repository, commit, directory.as_ref(), "https://h/r", limits)
}

/// Path to text, `x` before an executable's; folders as they are walked.
fn staged(repository: &Repository, items: &[Item]) -> Result<BTreeMap<String, String>, crate::archive::Error> {
    let mut tar = Vec::new();
    write(repository, items, &mut tar).unwrap();
    let folder = TempDir::new().unwrap();
    let mut stage = Stage::new_in(folder.path(), &Limits::default()).unwrap();
    read_tar(&mut tar.as_slice(), &mut stage, Dialect::Plain)?;
    let mut found = BTreeMap::new();
    rukpak_content::Tree::walk(&stage, &mut |path, node| {
        let mut text = String::new();
        if let rukpak_content::Node::File { executable, body, .. } = node {
            text.push_str(if executable { "x" } else { "" });
            body.read_to_string(&mut text)?;
        }
        found.insert(path.to_string(), text);
        Ok(())
    })
    .unwrap();
    Ok(found)
}

#[test]
fn files_come_as_they_lie_in_the_object_database() {
    let (_folder, repository) = repository();
    let commit = sample(&repository);
    let found = staged(&repository, &listed(&repository, &commit, None, &Limits::default()).unwrap()).unwrap();
    let expected = [
        (".gitattributes", "*.yaml text eol=crlf filter=x\n"),
        ("bin", ""),
        ("bin/run", "x#!/bin/sh\n"),
        ("manifests", ""),
        ("manifests/a.yaml", "a: 1\r\n"),
        (&"n".repeat(200), "long"),
    ];
    assert_eq!(found, expected.map(|(path, text)| (path.to_owned(), text.to_owned())).into());
}

#[test]
fn a_directory_becomes_the_root() {
    let (_folder, repository) = repository();
    let commit = sample(&repository);
    let items = listed(&repository, &commit, Some("manifests"), &Limits::default()).unwrap();
    assert_eq!(staged(&repository, &items).unwrap().into_keys().collect::<Vec<_>>(), ["a.yaml"]);
    let table = [
        ("absent", Class::NotFound, "no such directory"),
        ("manifests/absent", Class::NotFound, "no such directory"),
        ("bin/run", Class::Terminal, "a file"),
        ("bin/run/x", Class::NotFound, "no such directory"),
        ("bin/sh", Class::Terminal, "a link"),
        ("sub", Class::Terminal, "a submodule"),
    ];
    for (directory, class, word) in table {
        let failure = listed(&repository, &commit, Some(directory), &Limits::default()).err().unwrap();
        assert_eq!((failure.step, failure.class), (Step::Subdirectory, class), "{directory}");
        assert!(failure.message.contains(word), "{failure}");
    }
}

#[test]
fn a_link_out_of_the_bundle_is_refused_below_the_format_s_folders() {
    let (_folder, repository) = repository();
    let target = repository.blob(b"../../etc/passwd").unwrap();
    let manifests = folder(&repository, |tree| drop(tree.insert("l", target, LINK_MODE).unwrap()));
    for (name, refused) in [("manifests", true), ("docs", false)] {
        let root = folder(&repository, |tree| drop(tree.insert(name, manifests, FOLDER).unwrap()));
        let items = listed(&repository, &commit(&repository, root), None, &Limits::default()).unwrap();
        let link = matches!(staged(&repository, &items), Err(crate::archive::Error::Link { .. }));
        assert_eq!(link, refused, "{name}");
    }
}

#[test]
fn limits_are_met_before_anything_is_written() {
    let (_folder, repository) = repository();
    let commit = sample(&repository);
    let table = [
        (Limits { entries: 8, ..Limits::default() }, "--limit=entries"),
        (Limits { tree_bytes: 49, ..Limits::default() }, "--limit=tree-bytes"),
        (Limits { path_bytes: 199, ..Limits::default() }, "--limit=path-bytes"),
        (Limits { depth: 1, ..Limits::default() }, "--limit=depth"),
    ];
    for (limits, flag) in table {
        let failure = listed(&repository, &commit, None, &limits).err().unwrap();
        assert!(failure.message.contains(flag), "{failure}");
    }
    let exact = Limits { entries: 9, tree_bytes: 56, path_bytes: 200, depth: 2, ..Limits::default() };
    assert!(listed(&repository, &commit, None, &exact).is_ok());
}

#[test]
fn a_tree_that_names_one_tree_many_times_ends() {
    let (_folder, repository) = repository();
    let blob = repository.blob(b"x").unwrap();
    let mut tree = folder(&repository, |tree| drop(tree.insert("f", blob, FILE).unwrap()));
    for _ in 0..20 {
        let below = tree;
        tree = folder(&repository, |tree| {
            for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
                tree.insert(name, below, FOLDER).unwrap();
            }
        });
    }
    let failure = listed(&repository, &commit(&repository, tree), None, &Limits::default()).err().unwrap();
    assert!(failure.message.contains("--limit=entries"), "{failure}");
}

#[test]
fn names_that_git_itself_would_refuse_are_refused() {
    for name in [&b".."[..], b".", b"", b"a/b", b"a\0b", b"\xff"] {
        assert!(path(None, name).is_err(), "{name:?}");
        assert!(path(Some(&RelativePath::new("d").unwrap()), name).is_err(), "{name:?}");
    }
    assert_eq!(path(Some(&RelativePath::new("d").unwrap()), b"..a").unwrap().as_str(), "d/..a");
}
