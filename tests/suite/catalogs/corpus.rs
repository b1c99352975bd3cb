//! Published catalogs give the same graph over gRPC as from their files.
//!
//! The corpus is the folder `$CORPUS`, or `../shared/corpus` beside the workspace; without one this test says so and does
//! nothing. Its layout: `fbc/<name>`.

use std::collections::{BTreeMap, BTreeSet};

use rukpak_catalog::Catalog;
use rukpak_catalog::model::{Entry, Gvk};
use rukpak_catalog::origin::limits;
use rukpak_catalog::read;
use rukpak_catalog::registry::Client;
use rukpak_tests::tools::{self, PATIENCE};
use rukpak_tests::{CatalogServer, Documents};

/// By package, channel and bundle.
type Graph = BTreeMap<[String; 3], Shown>;

/// What a server shows of a bundle in a channel.
#[derive(Debug, PartialEq)]
struct Shown {
    replaces: Option<String>,
    skips: Vec<String>,
    skip_range: Option<String>,
    image: Option<String>,
    version: String,
    deprecation: Option<String>,
    /// APIs provided and required, packages required, constraints.
    facts: [BTreeSet<String>; 4],
}

/// What a server can show: entries whose bundle is there.
fn graph(catalog: &Catalog) -> Graph {
    let mut graph = Graph::new();
    for (package, channel) in
        catalog.packages.values().flat_map(|package| package.channels.values().map(move |channel| (package, channel)))
    {
        for Entry { name, replaces, skips, skip_range } in &channel.entries {
            let Some(bundle) = package.bundles.get(name) else { continue };
            let facts = &bundle.facts;
            let text = |texts: &[Gvk]| texts.iter().map(|api| format!("{api:?}")).collect();
            let shown = Shown {
                replaces: replaces.clone(),
                skips: skips.clone(),
                skip_range: skip_range.clone(),
                image: bundle.image.clone(),
                version: bundle.version_text.clone(),
                deprecation: bundle.deprecation.clone(),
                facts: [
                    text(&facts.provides),
                    text(&facts.requires),
                    facts.requires_packages.iter().map(|package| format!("{package:?}")).collect(),
                    facts.constraints.iter().cloned().collect(),
                ],
            };
            graph.insert([package.name.clone(), channel.name.clone(), name.clone()], shown);
        }
    }
    graph
}

#[tokio::test]
async fn a_published_catalog_is_the_same_from_files_and_from_a_server() {
    let Some(corpus) = tools::corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: no published catalog was compared");
        return;
    };
    let (mut compared, mut entries, mut left_out) = (0, 0, Vec::new());
    let mut folders: Vec<_> =
        std::fs::read_dir(corpus.join("fbc")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        // What the corpus has of bad catalogs is for other tests, and a server needs a package.
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (Ok(files), Ok(documents)) = (read::catalog(&folder, &limits()), Documents::of_folder(&folder)) else {
            left_out.push(name);
            continue;
        };
        let Ok(server) = CatalogServer::start(documents) else {
            left_out.push(name);
            continue;
        };
        let client = Client::connect(&server.address(), PATIENCE).await.unwrap();
        let (expected, found) = (graph(&files), graph(&client.catalog().await.unwrap()));
        if expected.is_empty() {
            left_out.push(name);
            continue;
        }
        let different: Vec<_> =
            expected.iter().filter(|(key, value)| found.get(*key) != Some(*value)).take(3).collect();
        assert!(different.is_empty(), "{}: {different:#?}", folder.display());
        compared += 1;
        entries += expected.len();
    }
    eprintln!("{compared} catalogs, {entries} entries; left out: {}", left_out.join(", "));
    assert!(compared >= 5 && entries >= 100, "{compared} catalogs, {entries} entries; left out: {left_out:?}");
}
