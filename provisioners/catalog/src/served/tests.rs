use std::fs;
use std::io::Read as _;

use flate2::read::GzDecoder;

use super::*;

const CATALOG: &str = r#"
{"schema": "olm.package", "name": "pump", "defaultChannel": "stable", "big": 12345678901234567}
{"schema": "olm.channel", "package": "pump", "name": "stable", "entries": [{"name": "pump.v1.0.0"}]}
{"schema": "olm.bundle", "package": "pump", "name": "pump.v1.0.0", "image": "r.example/pump@sha256:00",
 "properties": [{"type": "olm.package", "value": {"packageName": "pump", "version": "1.0.0"}}]}
"#;
const OTHER: &str = "schema: olm.package\nname: valve\n---\nschema: my.own\npackage: valve\nnote: <&>\n";

fn written() -> (tempfile::TempDir, Catalog) {
    let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // In the order of their names, whatever was written first.
    fs::write(source.path().join("b.yaml"), OTHER).unwrap();
    fs::write(source.path().join("a.json"), CATALOG).unwrap();
    let catalog = Served::write(source.path(), &Limits::default(), target.path()).unwrap();
    (target, catalog)
}

fn filter(schema: &str, package: &str, name: &str) -> Filter {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Filter { schema: given(schema), package: given(package), name: given(name) }
}

#[test]
fn every_document_is_a_line() {
    let (folder, catalog) = written();
    let served = Served::open(folder.path()).unwrap();
    let mut all = String::new();
    served.all().unwrap().read_to_string(&mut all).unwrap();
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines[0], r#"{"big":12345678901234567,"defaultChannel":"stable","name":"pump","schema":"olm.package"}"#);
    assert_eq!(lines[4], r#"{"note":"<&>","package":"valve","schema":"my.own"}"#);
    assert_eq!(lines.len(), 5);
    let mut decompressed = String::new();
    GzDecoder::new(served.compressed().unwrap()).read_to_string(&mut decompressed).unwrap();
    assert!(decompressed == all);
    assert_eq!(catalog.packages.keys().collect::<Vec<_>>(), ["pump", "valve"]);
    assert_eq!(served.catalog(&Limits::default()).unwrap(), catalog, "a restart knows the same");
}

#[test]
fn lines_are_found_by_what_their_roots_say() {
    let (folder, _) = written();
    let served = Served::open(folder.path()).unwrap();
    let mut all = String::new();
    served.all().unwrap().read_to_string(&mut all).unwrap();
    let lines: Vec<&str> = all.split_inclusive('\n').collect();
    let table = [
        (filter("", "", ""), all.clone()),
        (filter("olm.package", "", ""), format!("{}{}", lines[0], lines[3])),
        // The package itself has no key of that name.
        (filter("", "pump", ""), format!("{}{}", lines[1], lines[2])),
        (filter("olm.package", "", "pump"), lines[0].to_owned()),
        (filter("olm.bundle", "pump", "pump.v1.0.0"), lines[2].to_owned()),
        (filter("olm.bundle", "valve", ""), String::new()),
    ];
    for (filter, expected) in table {
        let range = |range: Range<u64>| &all[range.start.try_into().unwrap()..range.end.try_into().unwrap()];
        let found: String = served.find(&filter).into_iter().map(range).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
    assert_eq!(served.find(&Filter::default()).len(), 1, "neighbours are one piece");
}

#[test]
fn what_is_not_whole_is_not_served() {
    let (folder, _) = written();
    let all = folder.path().join(ALL);
    let text = fs::read_to_string(&all).unwrap();
    fs::write(&all, &text[..text.len() - 1]).unwrap();
    assert!(Served::open(folder.path()).is_err());
    fs::write(&all, text).unwrap();
    assert!(Served::open(folder.path()).is_ok());
    fs::remove_file(folder.path().join(INDEX)).unwrap();
    assert!(Served::open(folder.path()).is_err());
}
