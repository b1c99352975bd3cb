//! The documentation's walk-throughs, followed: what stands behind `$` is run, and what it prints is compared with what the
//! page shows.

#[path = "tutorial/page.rs"]
mod page;

use std::path::Path;
use std::time::{Duration, Instant};

use page::{Page, shown};
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::openshift::{self, CatalogSource, DEFAULT_CATALOG};
use rukpak_tests::world::{World, WorldOptions};
use rukpak_tests::{Documents, ImageBuilder, PlatformOptions, fixtures, kubectl};

/// What the page calls the registry.
const REGISTRY: &str = "registry.example.com";

/// So long what one object says of another may lag behind.
const SETTLED: Duration = Duration::from_secs(10);

/// An image of the package in a version.
async fn pushed(world: &World, version: &str) -> String {
    let mut files = fixtures::read("registry/pump").expect("the fixture can be read");
    for (_, text) in &mut files {
        *text = text.replace("1.0.0", version);
    }
    let tag = format!("v{version}");
    let image = ImageBuilder::of_files(files);
    world.registry.push("bundles/pump-operator", &tag, &image).await.expect("the registry takes it").reference
}

#[tokio::test]
async fn the_walk_through_of_platform_operators_is_true() {
    let world = World::start_with(WorldOptions { install: openshift::manifests(), ..WorldOptions::default() }).await;
    let world = world.unwrap_or_else(|error| panic!("{error:#}"));
    let client = world.admin().await;
    let (old, new) = (pushed(&world, "1.0.0").await, pushed(&world, "1.1.0").await);
    let catalog = CatalogSource::new(DEFAULT_CATALOG);
    catalog.put("pump-operator", Documents::package("pump-operator", &[("1.0.0", &old), ("1.1.0", &new)]));
    openshift::open(&client, &catalog).await;
    let environment = vec![("RELEASE_VERSION".to_owned(), "4.12.0".to_owned())];
    let options = PlatformOptions { environment, ..PlatformOptions::default() };
    let platform = world.plane.start_platform(options).await.unwrap_or_else(|error| panic!("{error:#}"));
    platform.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));

    let _kubelet = Kubelet::play(client.clone(), "pump-operator-system");

    let page = Page::read(Path::new("docs/platform.md"));
    let registry = old.split('/').next().expect("a reference has a host").to_owned();
    let mut differences = Vec::new();
    for step in page.steps() {
        let end = Instant::now() + SETTLED;
        let printed = loop {
            let printed = kubectl::run(&client, &step.command, &step.input).await;
            let printed =
                printed.unwrap_or_else(|error| panic!("line {}: kubectl {}: {error:#}", step.line, step.command));
            let printed: Vec<String> = printed.iter().map(|line| line.replace(&registry, REGISTRY)).collect();
            // Whoever only looks may look again: one object may have changed, and what is said of it elsewhere not yet.
            let is_as_told = shown(&printed) == shown(&step.output);
            if is_as_told || !step.command.starts_with("get ") || Instant::now() > end {
                break printed;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        if shown(&printed) != shown(&step.output) {
            let (command, page, here) = (&step.command, step.output.join("\n"), printed.join("\n"));
            differences
                .push(format!("line {}: $ kubectl {command}\n--- the page\n{page}\n--- here\n{here}", step.line));
        }
    }
    assert!(page.steps().len() > 20, "only {} commands were found", page.steps().len());
    assert!(differences.is_empty(), "docs/platform.md is not true any more:\n{}", differences.join("\n\n"));
}
