//! The documentation, followed: what it has people type is typed, with the real kubectl, and what it shows of the output is
//! compared.

#[path = "tutorial/install.rs"]
mod install;
#[path = "tutorial/page.rs"]
mod page;
#[path = "tutorial/readme.rs"]
mod readme;

use std::time::{Duration, Instant};

use page::{Page, Step, shown};
use rukpak_tests::kubectl::{Printed, Terminal};
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::openshift::{self, CatalogSource, DEFAULT_CATALOG};
use rukpak_tests::world::{World, WorldOptions};
use rukpak_tests::{Documents, ImageBuilder, PlatformOptions, fixtures};

/// What the pages call the registry.
const REGISTRY: &str = "registry.example.com";
/// So long what one object says of another may lag behind.
const SETTLED: Duration = Duration::from_secs(10);
/// `kubectl wait` gives up after 30 s, which a busy machine may need: whoever waits does so again until then.
const PATIENCE: Duration = Duration::from_mins(2);

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

/// Types it. Whoever only looks or waits may do so again: one object may have changed, and what is said of it elsewhere not yet.
async fn followed(terminal: &Terminal, step: &Step, is_as_told: impl Fn(&Printed) -> bool) -> Printed {
    let patience = match step.command.split(' ').nth(1) {
        Some("get") => SETTLED,
        Some("wait") => PATIENCE,
        _ => Duration::ZERO,
    };
    let end = Instant::now() + patience;
    loop {
        let printed = terminal.enter(&step.command).await;
        let printed = printed.unwrap_or_else(|error| panic!("line {}: {}: {error:#}", step.line, step.command));
        if is_as_told(&printed) || Instant::now() > end {
            return printed;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Follows steps in order; what a page shows otherwise than it is, with `registry` under its name in the page.
async fn differences(terminal: &Terminal, steps: &[Step], registry: &str) -> Vec<String> {
    let mut differences = Vec::new();
    let here = |printed: &Printed| -> Vec<String> {
        printed.lines.iter().map(|line| line.replace(registry, REGISTRY)).collect()
    };
    for step in steps {
        let told = shown(&step.output);
        let printed = followed(terminal, step, |printed| shown(&here(printed)) == told).await;
        if shown(&here(&printed)) != told {
            let (command, page, here) = (&step.command, step.output.join("\n"), here(&printed).join("\n"));
            differences.push(format!("line {}: $ {command}\n--- the page\n{page}\n--- here\n{here}", step.line));
        }
    }
    differences
}

#[tokio::test]
async fn the_readme_and_the_walk_through_of_platform_operators_are_true() {
    let world = World::start_with(WorldOptions { install: openshift::manifests(), ..WorldOptions::default() }).await;
    let world = world.unwrap_or_else(|error| panic!("{error:#}"));
    let client = world.admin().await;
    let terminal = Terminal::new(world.plane.kubeconfig_path()).unwrap_or_else(|error| panic!("{error:#}"));
    readme::follow(&world, &client, &terminal).await;

    let (old, new) = (pushed(&world, "1.0.0").await, pushed(&world, "1.1.0").await);
    let catalog = CatalogSource::new(DEFAULT_CATALOG);
    catalog.put("pump-operator", Documents::package("pump-operator", &[("1.0.0", &old), ("1.1.0", &new)]));
    openshift::open(&client, &catalog).await;
    let environment = vec![("RELEASE_VERSION".to_owned(), "4.12.0".to_owned())];
    let options = PlatformOptions { environment, ..PlatformOptions::default() };
    let platform = world.plane.start_platform(options).await.unwrap_or_else(|error| panic!("{error:#}"));
    platform.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));
    let _kubelet = Kubelet::play(client.clone(), "pump-operator-system");

    let page = Page::read("docs/platform.md");
    let steps: Vec<Step> = page.blocks().iter().flat_map(page::Block::steps).collect();
    assert!(steps.len() > 20, "only {} commands were found", steps.len());
    let registry = old.split('/').next().expect("a reference has a host");
    let differences = differences(&terminal, &steps, registry).await;
    assert!(differences.is_empty(), "docs/platform.md is not true any more:\n{}", differences.join("\n\n"));
}
