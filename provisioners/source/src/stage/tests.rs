use std::collections::BTreeMap;

use rukpak_content::Limits;

use super::*;

/// Files to add one after the other, and the limit that the last one meets.
type Case<'a> = (&'a [(&'a str, &'a str)], Option<Limit>);

fn stage(limits: &Limits) -> Stage {
    Stage::new_in(&std::env::temp_dir(), limits).unwrap()
}

fn path(text: &str) -> RelativePath {
    RelativePath::new(text).unwrap()
}

fn add(stage: &mut Stage, at: &str, body: &str) -> Result<(), Error> {
    stage.add_file(&path(at), false, None, &mut body.as_bytes())
}

/// Every path with its body; folders end in a slash.
pub(crate) fn listing(stage: &Stage) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut last = None;
    stage
        .walk(&mut |path, node| {
            assert!(last.as_ref() < Some(path), "{path} comes after {last:?}");
            last = Some(path.clone());
            match node {
                Node::Directory => all.insert(format!("{path}/"), String::new()),
                Node::File { executable, size_bytes, body } => {
                    let mut bytes = Vec::new();
                    body.read_to_end(&mut bytes)?;
                    assert_eq!(bytes.len() as u64, size_bytes);
                    // Mangled archives hold anything: of that the length is enough.
                    let text = String::from_utf8(bytes).unwrap_or_else(|error| "?".repeat(error.as_bytes().len()));
                    all.insert(format!("{path}{}", if executable { "*" } else { "" }), text)
                }
            };
            Ok(())
        })
        .unwrap();
    assert_eq!(all.len() as u64, stage.entries());
    assert_eq!(all.values().map(|body| body.len() as u64).sum::<u64>(), stage.size_bytes());
    all
}

fn paths(stage: &Stage) -> Vec<String> {
    listing(stage).into_keys().collect()
}

#[test]
fn bodies_come_back_also_from_the_disk() {
    let mut stage = stage(&Limits::default());
    let bodies: Vec<String> = (0_usize..40).map(|n| format!("{n:02}").repeat(n * 3_001)).collect();
    for (n, body) in bodies.iter().enumerate() {
        // Reverse order of names: the walk has to jump in the spool.
        add(&mut stage, &format!("d/{:02}", 99 - n), body).unwrap();
    }
    let listing = listing(&stage);
    for (n, body) in bodies.iter().enumerate() {
        assert_eq!(&listing[&format!("d/{:02}", 99 - n)], body);
    }
    let folder = stage.subtree(&path("d")).unwrap();
    assert_eq!(super::tests::listing(&folder)["99"], bodies[0]);
    assert_eq!(folder.entries(), 40);
}

#[test]
fn files_and_folders_replace_each_other() {
    let mut stage = stage(&Limits::default());
    add(&mut stage, "a/b/c", "1").unwrap();
    add(&mut stage, "a-b", "2").unwrap();
    assert_eq!(paths(&stage), ["a-b", "a/", "a/b/", "a/b/c"]);
    add(&mut stage, "a/b", "3").unwrap();
    assert_eq!(paths(&stage), ["a-b", "a/", "a/b"]);
    add(&mut stage, "a/b/d", "4").unwrap();
    assert_eq!(paths(&stage), ["a-b", "a/", "a/b/", "a/b/d"]);
    stage.add_directory(&path("a/b")).unwrap();
    assert_eq!(stage.entries(), 4);
    stage.remove(&path("a"));
    assert_eq!(paths(&stage), ["a-b"]);
}

#[test]
fn nothing_goes_below_a_barrier_until_a_folder_takes_its_place() {
    let mut stage = stage(&Limits::default());
    stage.add_barrier(&path("lib")).unwrap();
    assert!(matches!(add(&mut stage, "lib/a/b", "x"), Err(Error::Below { barrier, .. }) if barrier == path("lib")));
    assert!(paths(&stage).is_empty());
    stage.add_directory(&path("lib")).unwrap();
    add(&mut stage, "lib/a/b", "x").unwrap();
    assert_eq!(paths(&stage), ["lib/", "lib/a/", "lib/a/b"]);
}

#[test]
fn whiteouts_hide_earlier_layers_only() {
    let mut stage = stage(&Limits::default());
    for at in ["d/old", "d/sub/old", "e/old", "f"] {
        add(&mut stage, at, at).unwrap();
    }
    stage.begin_layer();
    add(&mut stage, "d/new", "new").unwrap();
    add(&mut stage, "e/new", "new").unwrap();
    stage.whiteout_children(Some(&path("d"))).unwrap();
    stage.whiteout(&path("e")).unwrap();
    stage.whiteout(&path("f")).unwrap();
    stage.whiteout(&path("absent")).unwrap();
    assert_eq!(paths(&stage), ["d/", "d/new", "e/", "e/new"]);
    stage.begin_layer();
    stage.whiteout_children(None).unwrap();
    assert!(paths(&stage).is_empty());
}

#[test]
fn aliases_share_bytes_and_outlive_the_first_name() {
    let mut stage = stage(&Limits::default());
    add(&mut stage, "a", "body").unwrap();
    assert!(stage.add_alias(&path("d/b"), &path("a")).unwrap());
    assert!(!stage.add_alias(&path("c"), &path("absent")).unwrap());
    assert!(!stage.add_alias(&path("c"), &path("d")).unwrap());
    assert!(stage.add_alias(&path("a"), &path("a")).unwrap());
    stage.remove(&path("a"));
    assert_eq!(listing(&stage), BTreeMap::from([("d/".into(), String::new()), ("d/b".into(), "body".into())]));
}

#[test]
fn each_limit_holds_to_the_byte() {
    let limits =
        Limits { tree_bytes: 10, manifest_bytes: 4, entries: 4, path_bytes: 12, depth: 3, ..Limits::default() };
    let limit = |result: Result<(), Error>| match result {
        Err(Error::Limit(exceeded)) => Some(exceeded.limit),
        Err(other) => panic!("{other}"),
        Ok(()) => None,
    };
    let cases: [Case<'_>; 11] = [
        (&[("a", "0123456789")], None),
        (&[("a", "0123456789a")], Some(Limit::TreeBytes)),
        (&[("a", "01234"), ("b", "012345")], Some(Limit::TreeBytes)),
        // Replaced bytes stay on the disk.
        (&[("a", "012345"), ("a", "01234")], Some(Limit::TreeBytes)),
        (&[("manifests/a", "0123")], None),
        (&[("manifests/a", "01234")], Some(Limit::ManifestBytes)),
        (&[("metadata/a", "01234")], Some(Limit::ManifestBytes)),
        (&[("a/b/c", ""), ("d", ""), ("e", "")], Some(Limit::Entries)),
        (&[("a/b/c", ""), ("d", ""), ("d", "")], None),
        (&[("123456789/12", ""), ("123456789/123", "")], Some(Limit::PathBytes)),
        (&[("a/b/c/d", "")], Some(Limit::Depth)),
    ];
    for known in [true, false] {
        for (files, expected) in cases {
            let mut stage = stage(&limits);
            let last = files.iter().map(|(at, body)| {
                let size = known.then_some(body.len() as u64);
                stage.add_file(&path(at), false, size, &mut body.as_bytes())
            });
            assert_eq!(limit(last.last().unwrap()), expected, "{files:?} known: {known}");
        }
    }
}

#[test]
fn aliases_count_as_often_as_they_are_walked() {
    let mut stage = stage(&Limits { tree_bytes: 10, manifest_bytes: 4, ..Limits::default() });
    add(&mut stage, "a", "01234").unwrap();
    stage.add_alias(&path("b"), &path("a")).unwrap();
    assert!(matches!(stage.add_alias(&path("c"), &path("a")), Err(Error::Limit(e)) if e.limit == Limit::TreeBytes));
    let manifest = stage.add_alias(&path("manifests/a"), &path("a"));
    assert!(matches!(manifest, Err(Error::Limit(e)) if e.limit == Limit::ManifestBytes));
}

#[test]
fn barriers_and_whiteouts_are_bounded_too() {
    let mut stage = stage(&Limits { entries: 2, ..Limits::default() });
    stage.add_barrier(&path("a")).unwrap();
    stage.add_barrier(&path("b")).unwrap();
    assert!(stage.add_barrier(&path("c")).is_err());
    stage.whiteout(&path("a")).unwrap();
    stage.whiteout(&path("a")).unwrap();
    assert!(stage.whiteout(&path("a")).is_err());
}

#[test]
fn a_body_has_the_length_that_was_announced() {
    for (announced, body) in [(2, "1"), (2, "123")] {
        let result = stage(&Limits::default()).add_file(&path("a"), true, Some(announced), &mut body.as_bytes());
        assert!(matches!(result, Err(Error::Size { expected: 2, .. })), "{body}");
    }
}
