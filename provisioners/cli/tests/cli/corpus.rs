//! Published bundles and catalogs: the program agrees with the reference renderer about which can be rendered, and its YAML with its JSON.
//!
//! The corpus is the folder `$CORPUS`, or `../shared/corpus` beside the workspace; without one this test says so and does
//! nothing.

use std::path::{Path, PathBuf};

use crate::support::run;
use serde_json::Value;

/// A process each time: one bundle of so many is enough, the renderer's own tests take all of them.
const EVERY: usize = 12;

fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    [std::env::var_os("CORPUS").map(PathBuf::from), Some(beside)].into_iter().flatten().find(|path| path.is_dir())
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// Renders twice and compares; whether there were objects.
fn render(bundle: &Path) -> bool {
    let yaml = run(["render".as_ref(), bundle.as_os_str()]);
    let json = run(["render".as_ref(), bundle.as_os_str(), "-ojson".as_ref()]);
    assert_eq!(yaml.code, json.code, "{}: {}", bundle.display(), yaml.err);
    let validate = run(["validate".as_ref(), bundle.as_os_str()]);
    match yaml.code {
        0 => {
            assert_eq!(Value::from(yaml.yaml()), json.json(), "{}", bundle.display());
            assert_eq!((validate.code, validate.out.as_str()), (0, ""), "{}", bundle.display());
            true
        }
        1 => {
            assert_eq!((yaml.out.as_str(), json.out.as_str()), ("", ""));
            // Install modes may ask for a namespace to watch, and nothing be wrong with the bundle.
            assert!(
                validate.code == 1 || yaml.err.contains("set --target-namespaces"),
                "{}: {validate:?}",
                bundle.display()
            );
            false
        }
        code => panic!("{}: {code}: {}", bundle.display(), yaml.err),
    }
}

#[test]
fn published_bundles_are_rendered_or_refused() {
    let Some(corpus) = corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: the program was run on nothing published");
        return;
    };
    let goldens = listed(&corpus.join("golden/registry-v1"));
    let (mut rendered, mut refused) = (0, 0);
    for golden in goldens.iter().step_by(EVERY) {
        let golden: Value = serde_json::from_slice(&std::fs::read(golden).unwrap()).unwrap();
        let bundle = golden["bundle"].as_str().unwrap();
        let is_rendered = render(&corpus.join("registry-v1").join(bundle));
        // Aggregated APIs are what the reference refuses before it renders.
        assert!(is_rendered == golden["objects"].is_array() || !is_rendered, "{bundle}: the reference refuses it");
        *(if is_rendered { &mut rendered } else { &mut refused }) += 1;
    }
    for plain in listed(&corpus.join("plain")) {
        *(if render(&plain) { &mut rendered } else { &mut refused }) += 1;
    }
    println!("{rendered} rendered, {refused} refused");
    assert!(rendered > refused && rendered > 10, "{rendered} rendered, {refused} refused");
}

/// Everything that can be asked of a catalog without knowing it; the number of packages, if it is one.
fn look_into(catalog: &Path) -> Option<usize> {
    let place = catalog.to_str().expect("UTF-8");
    let list = run(["catalog", "list", place, "-ojson"]);
    if list.code == 2 {
        assert!(!list.err.is_empty(), "{place}: it cannot be read, and nothing is said");
        return None;
    }
    let listed = list.json();
    let packages = listed["packages"].as_array().expect("packages");
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let shown = run(["catalog", "show", place, name, "-ojson"]);
        assert_eq!(shown.code, i32::from(shown.json()["installable"] == false), "{place} {name}: {shown:?}");
        let inside = run(["catalog", "list", place, name, "-ojson"]).json();
        let channels = inside["channels"].as_array().expect("channels").len();
        assert_eq!(package["channels"], channels, "{place} {name}");
    }
    Some(packages.len())
}

#[test]
fn published_catalogs_are_looked_into() {
    let Some(corpus) = corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: the program was run on nothing published");
        return;
    };
    let catalogs = listed(&corpus.join("fbc"));
    let looked: Vec<usize> = catalogs.iter().filter(|path| path.is_dir()).filter_map(|path| look_into(path)).collect();
    println!("{} of {} are catalogs, with {} packages", looked.len(), catalogs.len(), looked.iter().sum::<usize>());
    assert!(looked.len() > 10, "{looked:?}");
}
