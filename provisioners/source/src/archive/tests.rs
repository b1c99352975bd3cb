use proptest::prelude::*;
use rukpak_content::{Limit, Limits};
use tar::{EntryType, Header as TarHeader};

use super::*;
use crate::stage::tests::listing;

/// An entry to write: type, name, link target or body.
type Item<'a> = (EntryType, &'a str, &'a str);

/// Layers, and what comes of them.
type Case<'a> = (&'a [&'a [Item<'a>]], Result<&'a str, &'a str>);

const FILE: EntryType = EntryType::Regular;
const FOLDER: EntryType = EntryType::Directory;
const LINK: EntryType = EntryType::Symlink;
const HARD: EntryType = EntryType::Link;

/// Writes what the tar crate would refuse to write.
fn write(archive: &mut Vec<u8>, kind: EntryType, name: &[u8], target: &[u8], body: &[u8], mode: u32) {
    let mut header = TarHeader::new_gnu();
    header.set_entry_type(kind);
    header.set_size(body.len() as u64);
    header.set_mode(mode);
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name);
    old.linkname[..target.len()].copy_from_slice(target);
    header.set_cksum();
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(body);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

fn tar(items: &[Item<'_>]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (kind, name, text) in items {
        let (target, body) = if matches!(*kind, LINK | HARD) { (*text, "") } else { ("", *text) };
        write(&mut archive, *kind, name.as_bytes(), target.as_bytes(), body.as_bytes(), 0o644);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

fn stage() -> Stage {
    Stage::new_in(&std::env::temp_dir(), &Limits::default()).unwrap()
}

/// Applies layers; the paths that are left, or the refusal.
fn layers(layers: &[&[Item<'_>]]) -> Result<String, String> {
    apply(layers, Dialect::Layer)
}

fn apply(layers: &[&[Item<'_>]], dialect: Dialect) -> Result<String, String> {
    let mut stage = stage();
    for items in layers {
        stage.begin_layer();
        read_tar(&mut tar(items).as_slice(), &mut stage, dialect).map_err(|error| error.to_string())?;
    }
    let listing = listing(&stage).into_iter();
    Ok(listing
        .map(|(path, body)| if body.is_empty() { path } else { format!("{path}={body}") })
        .collect::<Vec<_>>()
        .join(" "))
}

#[test]
fn names_count_from_the_root() {
    let cases = [
        ("manifests/a", "manifests/ manifests/a=x"),
        ("./manifests//a", "manifests/ manifests/a=x"),
        ("/manifests/a", "manifests/ manifests/a=x"),
        ("///manifests/a", "manifests/ manifests/a=x"),
        ("etc/passwd", ""),
        ("/etc/passwd", ""),
        ("./proc/1", ""),
        ("dev/null", ""),
        ("sys/a", ""),
        ("bin/sh", ""),
        ("binary", "binary=x"),
        ("usr/bin/sh", "usr/ usr/bin/ usr/bin/sh=x"),
    ];
    for (name, expected) in cases {
        assert_eq!(layers(&[&[(FOLDER, "./", ""), (FILE, name, "x")]]).as_deref(), Ok(expected), "{name}");
    }
}

#[test]
fn escapes_are_refused_wherever_they_lie() {
    for name in ["../a", "a/../b", "manifests/../../a", "/../a", "usr/..", "etc/../a"] {
        let refusal = layers(&[&[(FILE, name, "x")]]).unwrap_err();
        assert!(refusal.contains("cannot be part of a bundle"), "{name}: {refusal}");
    }
    assert!(apply(&[&[(FILE, "/a", "x")]], Dialect::Plain).is_err());
    assert!(layers(&[&[(FILE, "./", "x")]]).is_err());
}

#[test]
fn links_and_devices_are_refused_in_content_and_skipped_elsewhere() {
    let cases: [(Item<'_>, Result<&str, &str>); 19] = [
        ((LINK, "usr/lib", "../../../../etc"), Ok("")),
        ((LINK, "usr/lib", "/etc"), Ok("")),
        ((LINK, "manifests", "bundle/manifests"), Ok("")),
        ((LINK, "manifests", "../manifests"), Err("leaves the bundle")),
        ((LINK, "manifests/a", "b"), Ok("")),
        ((LINK, "manifests/a", "../b"), Ok("")),
        ((LINK, "manifests/a", "../../b"), Err("leaves the bundle")),
        ((LINK, "manifests/a", "x/../../../b"), Err("leaves the bundle")),
        ((LINK, "manifests/a", "/etc/passwd"), Ok("")),
        ((LINK, "manifests/a", "/../b"), Err("leaves the bundle")),
        ((HARD, "manifests/a", "../b"), Err("leaves the bundle")),
        ((HARD, "manifests/a", "absent"), Err("not a file of the bundle")),
        ((HARD, "manifests/a", "etc/passwd"), Err("not a file of the bundle")),
        ((HARD, "usr/a", "absent"), Ok("")),
        ((HARD, "usr/a", "../b"), Ok("")),
        ((EntryType::Char, "manifests/a", ""), Err("a character device")),
        ((EntryType::Block, "metadata/a", ""), Err("a block device")),
        ((EntryType::Fifo, "usr/a", ""), Ok("")),
        ((EntryType::new(b'Q'), "manifests/a", ""), Err("unknown type")),
    ];
    for (item, expected) in cases {
        match (layers(&[&[item]]), expected) {
            (Ok(found), Ok(expected)) => {
                assert_eq!(found.replace("manifests/", "").replace("usr/", ""), expected, "{item:?}");
            }
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{item:?}: {found}"),
            (found, _) => panic!("{item:?}: {found:?}"),
        }
    }
    assert!(apply(&[&[(LINK, "usr/lib", "../../etc")]], Dialect::Plain).unwrap_err().contains("leaves"));
    assert!(apply(&[&[(EntryType::Fifo, "usr/a", "")]], Dialect::Plain).unwrap_err().contains("pipe"));
}

#[test]
fn nothing_is_written_through_a_link() {
    let cases: [Case<'_>; 5] = [
        (&[&[(LINK, "lib", "usr/lib")], &[(FILE, "lib/a", "x")]], Ok("")),
        (&[&[(LINK, "lib", "usr/lib")], &[(FOLDER, "lib/", ""), (FILE, "lib/a", "x")]], Ok("lib/ lib/a=x")),
        (&[&[(LINK, "manifests", "m")], &[(FILE, "manifests/a", "x")]], Err("lies below \"manifests\"")),
        (&[&[(LINK, "lib", "usr/lib"), (FILE, "lib/.wh.a", "")]], Ok("")),
        (&[&[(FILE, "lib", "x"), (LINK, "lib", "a"), (HARD, "b", "lib")]], Ok("")),
    ];
    for (given, expected) in cases {
        match (layers(given), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, _) => panic!("{given:?}: {found:?}"),
        }
    }
}

#[test]
fn layers_lie_on_each_other() {
    let cases: [(&[&[Item<'_>]], &str); 9] = [
        (&[&[(FILE, "a", "1")], &[(FILE, "a", "2")]], "a=2"),
        (&[&[(FILE, "d/a", "1"), (FILE, "d/b", "1")], &[(FILE, "d/.wh.a", "")]], "d/ d/b=1"),
        (&[&[(FILE, "d/a", "1")], &[(FILE, "d/b", "2"), (FILE, "d/.wh..wh..opq", "")]], "d/ d/b=2"),
        (&[&[(FILE, "a", "1")], &[(FILE, ".wh..wh..opq", ""), (FILE, "b", "2")]], "b=2"),
        (&[&[(FILE, "d/a", "1")], &[(FILE, ".wh.d", ""), (FILE, "d/b", "2")]], "d/ d/b=2"),
        (&[&[(FILE, "d/a", "1")], &[(FILE, "d", "2")]], "d=2"),
        (&[&[(FILE, "d", "1")], &[(FOLDER, "d", ""), (FILE, "d/a", "2")]], "d/ d/a=2"),
        (&[&[(FILE, "a", "1")], &[(HARD, "d/b", "/a"), (FILE, ".wh.a", "")]], "d/ d/b=1"),
        (&[&[(FILE, ".wh..wh.plnk", "x"), (FILE, ".wh..wh.aufs/a", "x"), (FILE, "a", "1")]], "a=1"),
    ];
    for (given, expected) in cases {
        assert_eq!(layers(given).as_deref(), Ok(expected), "{given:?}");
    }
    for name in [".wh.", "manifests/.wh..", ".wh..."] {
        assert!(layers(&[&[(FILE, name, "")]]).unwrap_err().contains("names no file"), "{name}");
    }
    assert_eq!(apply(&[&[(FILE, ".wh.a", "x")]], Dialect::Plain).as_deref(), Ok(".wh.a=x"));
}

#[test]
fn names_that_are_not_utf8_are_refused_in_content_and_skipped_elsewhere() {
    for (name, expected) in [(&b"usr/\xff"[..], true), (b"manifests/\xff", false), (b"\xff", true)] {
        let mut archive = Vec::new();
        write(&mut archive, FILE, name, b"", b"x", 0o644);
        let mut stage = stage();
        assert_eq!(read_tar(&mut archive.as_slice(), &mut stage, Dialect::Layer).is_ok(), expected, "{name:?}");
        assert_eq!(stage.entries(), 0);
    }
}

#[test]
fn execute_bits_and_old_folders_are_known() {
    let mut archive = Vec::new();
    write(&mut archive, FILE, b"a", b"", b"x", 0o100);
    write(&mut archive, FILE, b"b/", b"", b"", 0o755);
    let mut stage = stage();
    read_tar(&mut archive.as_slice(), &mut stage, Dialect::Plain).unwrap();
    assert_eq!(listing(&stage).into_keys().collect::<Vec<_>>(), ["a*", "b/"]);
}

fn record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let length = (1..2000).find(|length| length.to_string().len() + rest.len() == *length).unwrap();
    format!("{length}{rest}")
}

#[test]
fn long_names_are_read_in_both_spellings() {
    let long = format!("manifests/{}", "n".repeat(200));
    let pax = record("SCHILY.xattr.user.x", "line\nend") + &record("path", &long);
    let cases: [(&[Item<'_>], Result<&str, &str>); 10] = [
        (&[(EntryType::XHeader, "x", &pax), (FILE, "short", "x")], Ok(&long)),
        (&[(EntryType::GNULongName, "x", &format!("{long}\0")), (FILE, "short", "x")], Ok(&long)),
        (&[(EntryType::XGlobalHeader, "x", &record("comment", "c")), (FILE, &long[..90], "x")], Ok(&long[..90])),
        (&[(EntryType::XHeader, "x", &record("path", "")), (FILE, "short", "x")], Ok("short")),
        (&[(EntryType::XHeader, "x", &record("size", "1")), (FILE, "short", "x")], Ok("short")),
        (&[(EntryType::XHeader, "x", &record("size", "2")), (FILE, "short", "x")], Err("two sizes")),
        (&[(EntryType::XHeader, "x", &record("GNU.sparse.major", "1")), (FILE, "short", "x")], Err("sparse")),
        (
            &[(EntryType::XHeader, "x", &pax), (EntryType::GNULongName, "x", "other"), (FILE, "short", "x")],
            Err("two names"),
        ),
        (&[(EntryType::XHeader, "x", "7 path=")], Err("cannot read")),
        (&[(EntryType::XHeader, "x", &pax)], Err("cannot read")),
    ];
    for (items, expected) in cases {
        match (layers(&[items]), expected) {
            (Ok(found), Ok(expected)) => assert!(found.ends_with(&format!("{expected}=x")), "{items:?}: {found}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{items:?}: {found}"),
            (found, _) => panic!("{items:?}: {found:?}"),
        }
    }
}

#[test]
fn what_readers_could_disagree_about_is_refused() {
    assert!(layers(&[&[(FOLDER, "usr/", "body")]]).unwrap_err().contains("has a body"));
    assert!(layers(&[&[(EntryType::GNUSparse, "usr/a", "")]]).unwrap_err().contains("sparse"));
    let huge = vec![b'a'; 1024 * 1024 + 1];
    let mut archive = Vec::new();
    write(&mut archive, EntryType::GNULongName, b"x", b"", &huge, 0);
    let refusal = read_tar(&mut archive.as_slice(), &mut stage(), Dialect::Layer).unwrap_err();
    assert!(refusal.to_string().contains("1 MiB"), "{refusal}");
}

#[test]
fn names_with_control_characters_are_refused_where_content_is_and_skipped_elsewhere() {
    let hidden = format!("x/{}\n28 path=manifests/evil.yaml", "A".repeat(300));
    let pax = record("path", &hidden);
    let evil: &[Item<'_>] =
        &[(FILE, "manifests/a.yaml", "x"), (EntryType::XHeader, "x", &pax), (FILE, "short", "evil")];
    let refused = apply(&[evil], Dialect::Plain).unwrap_err();
    assert!(refused.contains("cannot be part of a bundle"), "{refused}");
    assert_eq!(apply(&[evil], Dialect::Layer), Ok("manifests/ manifests/a.yaml=x".to_owned()));
    for name in ["manifests/a\u{1b}[2J", "manifests/a\u{7f}", "./manifests/\t", "metadata/a\u{9b}b", "manifests/a\rb"] {
        for dialect in [Dialect::Plain, Dialect::Layer] {
            let refused = apply(&[&[(FILE, name, "x")]], dialect);
            assert!(refused.is_err(), "{name:?} {dialect:?}: {refused:?}");
        }
    }
    assert_eq!(apply(&[&[(FILE, "usr/Icon\r", "x"), (FILE, "a", "y")]], Dialect::Layer), Ok("a=y".to_owned()));
    assert!(apply(&[&[(FILE, "usr/Icon\r", "x")]], Dialect::Plain).is_err());
}

#[test]
fn truncated_archives_are_damage() {
    let whole = tar(&[(FILE, "usr/a", "x"), (FILE, "manifests/a", &"x".repeat(1000))]);
    for length in [100, 513, 1024 + 100, 1024 + 512 + 500, 1024 + 512 + 600] {
        let refusal = read_tar(&mut &whole[..length], &mut stage(), Dialect::Layer).unwrap_err();
        assert!(refusal.is_damage(), "{length}: {refusal}");
    }
    assert!(read_tar(&mut &b"this is no archive at all".repeat(100)[..], &mut stage(), Dialect::Layer).is_err());
}

fn any_item() -> impl Strategy<Value = (u8, String, String)> {
    let kinds = prop::sample::select(b"0012345567LKxgSQ\0".to_vec());
    let component = prop::sample::select(vec![
        "a",
        "b",
        "..",
        ".",
        "",
        "manifests",
        "etc",
        ".wh.a",
        ".wh..wh..opq",
        ".wh.",
        "metadata",
        "12 path=/x\n",
    ]);
    let name = || prop::collection::vec(component.clone(), 0..5).prop_map(|parts| parts.join("/"));
    (kinds, name(), name())
}

proptest! {
    #[test]
    fn mangled_archives_never_panic_and_never_pass_a_limit(
        items in prop::collection::vec(any_item(), 0..40),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        plain in any::<bool>(),
    ) {
        let limits = Limits { tree_bytes: 60, entries: 8, depth: 4, path_bytes: 30, manifest_bytes: 10, ..Limits::default() };
        let mut stage = Stage::new_in(&std::env::temp_dir(), &limits).unwrap();
        let mut archive = Vec::new();
        for (kind, name, text) in &items {
            let links = matches!(kind, b'1' | b'2');
            let (target, body) = if links { (text.as_bytes(), &b""[..]) } else { (&b""[..], text.as_bytes()) };
            write(&mut archive, EntryType::new(*kind), name.as_bytes(), target, body, 0o777);
        }
        for (at, byte) in &flips {
            if !archive.is_empty() {
                let at = at.index(archive.len());
                archive[at] = *byte;
            }
        }
        let end = archive.len() - if flips.is_empty() { 0 } else { cut.index(archive.len() + 1) / 4 };
        for _ in 0..2 {
            stage.begin_layer();
            let dialect = if plain { Dialect::Plain } else { Dialect::Layer };
            let _ = read_tar(&mut &archive[..end], &mut stage, dialect);
        }
        prop_assert!(stage.entries() <= limits.entries && stage.size_bytes() <= limits.tree_bytes);
        for path in listing(&stage).keys() {
            let path = path.trim_end_matches(['*', '/']);
            prop_assert!(path.len() <= 30 && path.split('/').count() <= 4, "{path}");
            prop_assert!(!path.split('/').any(|part| matches!(part, "" | "." | "..")), "{path}");
        }
    }
}

#[test]
fn limits_are_named_with_the_file() {
    let limits = Limits { manifest_bytes: 3, ..Limits::default() };
    let mut stage = Stage::new_in(&std::env::temp_dir(), &limits).unwrap();
    let archive = tar(&[(FILE, "manifests/big.yaml", "1234")]);
    match read_tar(&mut archive.as_slice(), &mut stage, Dialect::Layer) {
        Err(Error::Stage(stage::Error::Limit(exceeded))) => {
            assert_eq!((exceeded.limit, exceeded.place.as_str()), (Limit::ManifestBytes, "manifests/big.yaml"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn damaged_headers_are_told_without_what_stands_in_them() {
    let good = tar(&[(FILE, "manifests/a.yaml", "hush")]);
    let damaged = |at: usize| {
        let mut archive = good.clone();
        // Behind one that is good.
        let mut second = good[..512].to_vec();
        second[at..at + 4].copy_from_slice(b"hush");
        if at < 148 {
            let mut header = TarHeader::new_old();
            header.as_mut_bytes().copy_from_slice(&second);
            header.set_cksum();
            second = header.as_bytes().to_vec();
        }
        archive.truncate(1024);
        archive.extend(second);
        archive
    };
    for (what, at) in [("size", 124), ("checksum", 148)] {
        let error = read_tar(&mut damaged(at).as_slice(), &mut stage(), Dialect::Plain).unwrap_err();
        let told = crate::chain::chain(&error);
        assert!(error.is_damage() && told.ends_with("a header holds text in place of a number"), "{what}: {told}");
    }
}
